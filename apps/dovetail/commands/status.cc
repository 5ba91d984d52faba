#include <signal.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "assembly/database.h"
#include "commands/command_line.h"
#include "commands/commands.h"
#include "commands/output.h"
#include "config/units.h"

namespace dovetail::app {

using namespace assembly;
namespace {

struct StatusOptions {
  bool watch = false;
  double every_seconds = 1.0;
};

struct Look {
  Json json = Json::array();
  std::string text;
  Exit exit = Exit::ok;  // the worst of all stores
};

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

// The broker that a broker reader reads; null: no relay has its name any more.
const config::RelayConfig* relay_of(const assembly::RelayStatus& reader,
                                    const config::Config& config) {
  for (const config::RelayConfig* relay : config.readers()) {
    if (reader.source == SourceKind::broker && relay->name == reader.name) return relay;
  }
  return nullptr;
}

// The current state of the relay. Its report is valid only while its process lives, judged by its
// lease.
std::string state_of(Duration lease_left, const std::optional<SaidState>& said) {
  if (said && said->is_current) return said->state;
  return lease_left > Duration::zero() ? "unknown" : "stopped";
}

std::string state_of(const assembly::RelayStatus& reader) {
  return state_of(reader.lease_left, reader.said);
}

void add_state(Json& json, Duration lease_left, const std::optional<SaidState>& said) {
  json["state"] = state_of(lease_left, said);
  if (!said) return;
  // The last report of a process that has ended.
  json["state_since"] = config::iso_time(said->since);
  json["last_error"] = said->last_error;
  if (said->next_try && said->is_current) json["next_try"] = config::iso_time(*said->next_try);
  if (!said->is_current) json["last_state"] = said->state;
}

bool knows_pending(const assembly::RelayStatus& reader) {
  return reader.source != SourceKind::broker && reader.error.empty() && reader.is_pending_known;
}

Json json_of(const assembly::RelayStatus& reader, const config::Config& config) {
  Json json{{"name", reader.name},
            {"source", to_string(reader.source)},
            {"pending", reader.pending},
            {"oldest_age_us", reader.oldest_age.count()},
            {"delivered_total", reader.delivered_total},
            {"replayed_total", reader.replayed_total},
            {"skipped_total", reader.skipped_total},
            {"events_per_second", reader.events_per_second},
            {"parked", reader.parked},
            {"waiting", reader.waiting},
            {"parked_total", reader.parked_total},
            {"owner", reader.owner},
            {"epoch", reader.epoch},
            {"lease_left_us", reader.lease_left.count()},
            {"updated_at", config::iso_time(reader.updated_at)}};
  const bool is_pending_known = knows_pending(reader);
  if (!is_pending_known) json["pending"] = nullptr;
  if (!is_pending_known || !reader.is_age_known) json["oldest_age_us"] = nullptr;
  add_state(json, reader.lease_left, reader.said);
  if (const std::string_view held = hold_state(reader); !held.empty()) {
    json["state"] = held;
    json["hold"] = {{"since", config::iso_time(reader.hold.since)},
                    {"by", reader.hold.by},
                    {"reason", reader.hold.reason}};
  }
  if (!reader.target.empty()) json["target"] = reader.target;
  if (!reader.error.empty()) json["error"] = {{"code", "rejected"}, {"text", reader.error}};
  if (!reader.table.empty()) json["table"] = reader.table;
  if (reader.reading) {
    json["reads"] = {{"from", reader.reading->streams ? "wal" : "table"},
                     {"since", config::iso_time(reader.reading->since)},
                     {"why", reader.reading->why},
                     {"slot", reader.reading->slot},
                     {"retained_wal_bytes", reader.reading->retained_wal}};
  }
  if (const auto* relay = relay_of(reader, config)) json["from"] = relay->from;
  for (const LaneStatus& lane : reader.lanes) {
    Json one{{"lane", lane.lane},
             {"pending", lane.pending},
             {"owner", lane.owner},
             {"epoch", lane.epoch},
             {"lease_left_us", lane.lease_left.count()}};
    if (!is_pending_known) one["pending"] = nullptr;
    add_state(one, lane.lease_left, lane.said);
    json["lanes"].push_back(std::move(one));
  }
  return json;
}

Json json_of(const config::StoreConfig& store, const StoreStatus& status,
             const config::Config& config) {
  Json readers = Json::array();
  for (const auto& reader : status.relays) readers.push_back(json_of(reader, config));
  Json consumers = Json::array();
  for (const auto& consumer : status.consumers) {
    consumers.push_back({{"name", consumer.name},
                         {"applied", consumer.applied},
                         {"duplicates_suppressed", consumer.duplicates},
                         {"superseded", consumer.superseded},
                         {"trying", consumer.trying},
                         {"claims_held", consumer.claims},
                         {"clean", consumer.clean}});
  }
  Json queues = Json::array();
  for (const QueueStatus& queue : status.queues) {
    queues.push_back({{"consumer", queue.consumer},
                      {"events", queue.events},
                      {"ready", queue.ready},
                      {"held", queue.held},
                      {"later", queue.later},
                      {"waiting", queue.waiting},
                      {"parked", queue.parked},
                      {"oldest_age_us", queue.oldest_age.count()}});
  }
  Json json{{"name", store.name},
            {"path", store.shown},
            {"schema", status.schema_version},
            {"outbox_rows", status.outbox_rows},
            {"mailbox_rows", status.mailbox_rows},
            {"inbox_rows", status.inbox_rows},
            {"rows_are_estimated", status.are_rows_estimated},
            {"file_bytes", status.file_bytes},
            {"wal_bytes", status.wal_bytes},
            {"relays", readers},
            {"consumers", consumers},
            {"queues", queues}};
  if (status.delayed) {
    json["delayed"] = {{"events", status.delayed->events},
                       {"failing", status.delayed->failing},
                       {"next", config::iso_time(status.delayed->next)}};
  }
  if (!status.server_version.empty()) {
    json["server"] = status.server_version;
    json["partitions"] = status.partitions;
    json["standby"] = status.standby;
  }
  return json;
}

std::string stream_of(const config::StoreConfig& store, const assembly::RelayStatus& reader,
                      const config::Config& config) {
  if (const auto* relay = relay_of(reader, config)) return relay->from + " > " + store.name;
  return store.name + "." +
         (reader.table.empty() ? std::string(to_string(reader.source)) : reader.table);
}

std::string shown_state(const assembly::RelayStatus& reader) {
  if (!reader.error.empty()) return "error";
  if (const std::string_view held = hold_state(reader); !held.empty()) return std::string(held);
  const std::string state = state_of(reader);
  if (state == "backing_off") return "backing off";
  return state == "unknown" ? "running" : state;
}

// "has been backing off for 3 m: connection refused; next attempt in 12 s"
std::string said_of(const SaidState& said) {
  const WallTime now = wall_now();
  const std::string since = config::human_duration(std::max(Duration{0}, now - said.since));
  if (!said.is_current)
    return "; its last error, " + since + " ago: " + printable(said.last_error, 500);
  std::string text =
      (said.state == "halted" ? " has been halted for " : " has been backing off for ") + since +
      ": " + printable(said.last_error, 500);
  if (said.next_try)
    text += "; next attempt " + (*said.next_try > now
                                     ? "in " + config::human_duration(*said.next_try - now)
                                     : std::string("now"));
  return text;
}

// "is paused by ann since 3 m: the broker moves"
std::string hold_of(const assembly::RelayStatus& reader) {
  return " is " + std::string(hold_state(reader)) + " by " + printable(reader.hold.by, 60) +
         " for " + config::human_duration(std::max(Duration{0}, wall_now() - reader.hold.since)) +
         ": " + printable(reader.hold.reason, 500);
}

// Problems that need an operator, one line each, before all numbers.
std::string problems_of(const config::StoreConfig& store, const StoreStatus& status,
                        const config::Config& config) {
  std::string text;
  for (const assembly::RelayStatus& reader : status.relays) {
    const std::string named =
        "! " + stream_of(store, reader, config) + ": " + printable(reader.name, 40);
    const std::string state = state_of(reader);
    if (!reader.error.empty()) text += named + ": " + printable(reader.error, 500) + "\n";
    if (state == "halted" || state == "backing_off") text += named + said_of(*reader.said) + "\n";
    const bool is_held = reader.hold.hold != Hold::none;
    if (is_held) text += named + hold_of(reader) + "\n";
    if (state == "stopped" && !is_held && (reader.pending != 0 || reader.waiting != 0)) {
      text += named + ": no relay is running";
      if (reader.pending != 0)
        text += ", and " + config::human_count(reader.pending) +
                (reader.pending == 1 ? " event waits" : " events wait");
      if (reader.said && !reader.said->last_error.empty()) text += said_of(*reader.said);
      text += "\n";
    }
    if (reader.parked != 0)
      text += named + " has parked " + config::human_count(reader.parked) +
              (reader.parked == 1 ? " event" : " events") + ": see 'dovetail parked list'\n";
  }
  for (const QueueStatus& queue : status.queues) {
    if (queue.parked == 0) continue;
    text += "! " + store.name + ": the queue of " + printable(queue.consumer, 40) + " has parked " +
            config::human_count(queue.parked) + (queue.parked == 1 ? " event" : " events") +
            ": see 'dovetail parked list'\n";
  }
  return text;
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

// Every store has the same lists, even if they are empty.
Json empty_json(const config::StoreConfig& store) {
  return {{"name", store.name},
          {"path", store.shown},
          {"relays", Json::array()},
          {"consumers", Json::array()},
          {"queues", Json::array()}};
}

Expected<StoreStatus> ask(const config::StoreConfig& store) {
  if (const auto checked = check_secrets(store); !checked) return tl::unexpected(checked.error());
  auto status = database_of(store)->status();
  if (!status) return refuse_in(store, status.error());
  return std::move(*status);
}

Look look(const config::Config& config) {
  Look result;
  Table readers({"SOURCE", "RELAY", "STATE", ">PENDING", ">OLDEST", ">RATE", ">PARKED", ">WAITING",
                 ">DELIVERED", "OWNER"});
  Table consumers({"STORE", "CONSUMER", ">APPLIED", ">DUPLICATES SUPPRESSED", ">SUPERSEDED",
                   ">TRYING", ">CLAIMS HELD"});
  Table queues({"STORE", "QUEUE OF", ">EVENTS", ">OLDEST", ">READY", ">HELD", ">LATER", ">WAITING",
                ">PARKED"});
  std::string problems;
  std::string notes;
  for (const config::StoreConfig& store : config.stores) {
    if (store.is_broker()) {
      Json json = empty_json(store);
      json["broker"] = to_string(store.scheme);
      result.json.push_back(std::move(json));
      continue;
    }
    const auto status = ask(store);
    if (!status) {
      const Failure& failure = status.error();
      result.exit = std::max(result.exit, failure.exit);
      problems += "! " + failure.text + "\n";
      Json json = empty_json(store);
      json["error"] = {{"code", to_string(failure.exit)}, {"text", failure.text}};
      result.json.push_back(std::move(json));
      continue;
    }
    for (const assembly::RelayStatus& reader : status->relays)
      if (!reader.error.empty()) result.exit = std::max(result.exit, Exit::rejected);
    problems += problems_of(store, *status, config);
    add_rows(readers, consumers, store, *status, config);
    add_queues(queues, store, *status);
    notes += reading_notes(store, *status, config);
    notes += unread_note(store, *status);
    notes += delayed_note(store, *status);
    result.json.push_back(json_of(store, *status, config));
  }
  if (!problems.empty()) result.text += problems + "\n";
  if (readers.rows() != 0) result.text += readers.to_string();
  if (consumers.rows() != 0) result.text += "\n" + consumers.to_string();
  if (queues.rows() != 0) result.text += "\n" + queues.to_string();
  if (!notes.empty()) result.text += (result.text.empty() ? "" : "\n") + notes;
  if (result.text.empty()) result.text = "nothing was published or read yet\n";
  return result;
}

Answer status(const CommandContext& context, const StatusOptions& options) {
  const auto config = load(context);
  if (!config) return tl::unexpected(config.error());
  while (true) {
    const Look now = look(*config);
    if (context.json) {
      print_json({{"time", config::iso_time(wall_now())}, {"stores", now.json}});
    } else if (options.watch && stdout_is_terminal()) {
      print("\x1b[H\x1b[2J" + config::iso_time(wall_now()) + "\n\n" + now.text);
    } else {
      print(now.text);
    }
    if (!options.watch) return now.exit;
    std::this_thread::sleep_for(std::chrono::duration<double>(options.every_seconds));
    if (!context.json && !stdout_is_terminal()) print("\n");
  }
}

}  // namespace

void add_status(Command& app) {
  const auto options = std::make_shared<StatusOptions>();
  Command sub = app.command(
      "status", "Show pending and parked events, their age, and the processes that work on them",
      "  dovetail status\n"
      "  dovetail status --watch              again every second, with the rate\n"
      "  dovetail status --json | jq '.stores[].relays[] | {name, pending, parked}'",
      [options](const CommandContext& context) { return status(context, *options); });
  sub.flag("--watch,-w", options->watch, "Repeat until interrupted");
  sub.option("--every", options->every_seconds, "Seconds between two updates of --watch")
      .shows_default()
      .real_range(0.05, 3600.0);
}

}  // namespace dovetail::app
