#include "commands/status_text.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "commands/output.h"
#include "config/units.h"

namespace dovetail::app {
namespace {

using assembly::Reading;
using assembly::StoreStatus;

std::string rate(double events_per_second) {
  if (events_per_second < 0.05) return "-";
  char text[32];
  std::snprintf(text, sizeof text, events_per_second < 10 ? "%.1f/s" : "%.0f/s", events_per_second);
  return text;
}

std::string owner_of(const assembly::RelayStatus& reader) {
  if (reader.owner.empty()) return "nobody";
  if (reader.lease_left <= Duration::zero()) return printable(reader.owner, 40) + " (expired)";
  return printable(reader.owner, 40);
}

std::string stream_of(const config::StoreConfig& store, const assembly::RelayStatus& reader,
                      const config::Config& config) {
  const auto* const relay = configured(config, store, reader.name);
  if (relay != nullptr && reader.source == SourceKind::broker)
    return relay->from + " > " + store.name;
  return store.name + "." +
         (reader.table.empty() ? std::string(to_string(reader.source)) : reader.table);
}

std::string shown_state(const assembly::RelayStatus& reader) {
  if (!reader.error.empty()) return "error";
  const std::string state = state_of(reader);
  if (state == "backing_off") return "backing off";
  return state == "unknown" ? "running" : state;
}

void add_rows(Table& readers, Table& consumers, const config::StoreConfig& store,
              const StoreStatus& status, const config::Config& config) {
  for (const auto& reader : status.relays) {
    const bool idle = reader.pending == 0;
    readers.add({stream_of(store, reader, config), printable(reader.name, 40), shown_state(reader),
                 knows_pending(reader) ? config::human_count(reader.pending) : "-",
                 idle || !reader.is_age_known ? "-" : config::human_duration(reader.oldest_age),
                 rate(reader.events_per_second), config::human_count(reader.parked),
                 config::human_count(reader.waiting), config::human_count(reader.delivered_total),
                 owner_of(reader)});
  }
  for (const auto& consumer : status.consumers) {
    consumers.add({store.name, printable(consumer.name, 40), config::human_count(consumer.applied),
                   config::human_count(consumer.duplicates),
                   config::human_count(consumer.superseded), config::human_count(consumer.trying),
                   config::human_count(consumer.claims)});
  }
}

void add_queues(Table& queues, const config::StoreConfig& store, const StoreStatus& status) {
  for (const QueueStatus& queue : status.queues) {
    queues.add({store.name, printable(queue.consumer, 40), config::human_count(queue.events),
                config::human_duration(queue.oldest_age), config::human_count(queue.ready),
                config::human_count(queue.held), config::human_count(queue.later),
                config::human_count(queue.waiting), config::human_count(queue.parked)});
  }
}

// "orders.outbox: relay has read the WAL for 3 s: caught up; the server retains 1.2 MiB for it"
std::string reading_notes(const config::StoreConfig& store, const StoreStatus& status,
                          const config::Config& config) {
  std::string text;
  for (const assembly::RelayStatus& reader : status.relays) {
    // The relay never reported it.
    if (!reader.reading || (reader.reading->why.empty() && !reader.reading->streams)) continue;
    if (reader.lease_left <= Duration::zero()) continue;  // it reads nothing now
    const Reading& reading = *reader.reading;
    text += stream_of(store, reader, config) + ": " + printable(reader.name, 40) +
            " has read the " + (reading.streams ? "WAL" : "table") + " for " +
            config::human_duration(std::max(Duration{0}, wall_now() - reading.since));
    if (!reading.why.empty()) text += ": " + printable(reading.why, 500);
    if (!reading.slot.empty())
      text += "; the server retains " + config::human_size(reading.retained_wal) + " of WAL for it";
    text += "\n";
  }
  return text;
}

// Events that no relay has read yet appear in no other line.
std::string unread_note(const config::StoreConfig& store, const StoreStatus& status) {
  std::string text;
  const auto note = [&](SourceKind source, std::uint64_t rows) {
    for (const auto& reader : status.relays) {
      if (reader.source == source && reader.table.empty()) return;
    }
    if (rows == 0) return;
    text += store.name + "." + std::string(to_string(source)) + ": " +
            (status.are_rows_estimated ? "about " : "") + config::human_count(rows) +
            (rows == 1 ? " event" : " events") + " pending, no relay has run yet\n";
  };
  note(SourceKind::outbox, status.outbox_rows);
  note(SourceKind::mailbox, status.mailbox_rows);
  return text;
}

std::string delayed_note(const config::StoreConfig& store, const StoreStatus& status) {
  if (!status.delayed) return {};
  std::string text = store.name + ": " + config::human_count(status.delayed->events) +
                     " delayed, the first is due " + config::iso_time(status.delayed->next);
  if (status.delayed->failing > 0)
    text += "; " + config::human_count(status.delayed->failing) +
            " could not be published: see 'dovetail events --state delayed'";
  return text + "\n";
}

class Painter {
 public:
  explicit Painter(bool has_colour) : has_colour_(has_colour) {}
  std::string operator()(std::string_view kind, std::string text) const {
    if (!has_colour_ || kind == "note") return text;
    const std::string_view code = kind == "ok" ? "32" : kind == "warning" ? "33" : "31";
    return "\x1b[1;" + std::string(code) + "m" + text + "\x1b[0m";
  }

 private:
  bool has_colour_;
};

std::string line_of(const Problem& problem, WallTime now, std::size_t width, const Painter& paint) {
  std::string title = "! " + printable(problem.title, kWhole);
  if (problem.since && problem.kind != ProblemKind::lag)
    title += ", for " + config::human_duration(std::max(Duration{0}, now - *problem.since));
  std::string text = paint(to_string(problem.severity), wrapped(title, width)) +
                     wrapped(printable(problem.text, kWhole), width, "    ");
  if (!problem.effect.empty()) text += wrapped(printable(problem.effect, kWhole), width, "    ");
  return text;
}

}  // namespace

std::string status_text(const Overview& overview, const std::vector<Problem>& problems,
                        const StatusLook& look) {
  const std::size_t width = look.width.value_or(kWhole);
  const Painter paint(look.has_colour);
  const Verdict verdict = verdict_of(overview, problems);
  std::string text = paint(verdict.kind, wrapped(printable(verdict.title, kWhole), width));
  text += wrapped(printable(verdict.text, kWhole), width);
  for (const std::string& line : look.progress) text += wrapped(printable(line, kWhole), width);
  if (!problems.empty()) text += "\n";
  for (const Problem& problem : problems) text += line_of(problem, overview.at, width, paint);
  Table readers({"SOURCE", "RELAY", "STATE", ">PENDING", ">OLDEST", ">RATE", ">PARKED", ">WAITING",
                 ">DELIVERED", "OWNER"});
  Table consumers({"STORE", "CONSUMER", ">APPLIED", ">DUPLICATES SUPPRESSED", ">SUPERSEDED",
                   ">TRYING", ">CLAIMS HELD"});
  Table queues({"STORE", "QUEUE OF", ">EVENTS", ">OLDEST", ">READY", ">HELD", ">LATER", ">WAITING",
                ">PARKED"});
  std::string notes;
  for (const StoreView& view : overview.stores) {
    if (!view.status) continue;
    add_rows(readers, consumers, *view.store, *view.status, *overview.config);
    add_queues(queues, *view.store, *view.status);
    for (const std::string& note :
         {reading_notes(*view.store, *view.status, *overview.config),
          unread_note(*view.store, *view.status), delayed_note(*view.store, *view.status)})
      notes += note;
  }
  // On a narrow terminal the columns go that one misses least.
  if (readers.rows() != 0) text += "\n" + readers.fitting(look.width, {9, 0, 8, 7, 5});
  if (consumers.rows() != 0) text += "\n" + consumers.fitting(look.width, {4, 0, 6});
  if (queues.rows() != 0) text += "\n" + queues.fitting(look.width, {0, 6, 5});
  if (!notes.empty()) text += "\n";
  while (!notes.empty()) {
    const std::size_t end = notes.find('\n');
    text += wrapped(std::string_view(notes).substr(0, end), width);
    notes.erase(0, end + 1);
  }
  return text;
}

}  // namespace dovetail::app
