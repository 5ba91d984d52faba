#include <signal.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "commands.h"
#include "ops/units.h"
#include "output.h"
#include "stores.h"

namespace dovetail::app {
namespace {

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

std::string owner_of(const ReaderStatus& reader) {
  if (reader.owner.empty()) return "nobody";
  if (reader.lease_left <= Duration::zero()) return printable(reader.owner, 40) + " (expired)";
  return printable(reader.owner, 40);
}

// The broker that a reader of an outside stream reads; null when no relay has its name any more.
const ops::RelayConfig* relay_of(const ReaderStatus& reader, const ops::Config& config) {
  for (const ops::RelayConfig* relay : config.readers()) {
    if (reader.stream == Stream::outside && relay->name == reader.name) return relay;
  }
  return nullptr;
}

Json json_of(const ReaderStatus& reader, const ops::Config& config) {
  Json json{{"name", reader.name},
            {"stream", to_string(reader.stream)},
            {"pending", reader.pending},
            {"oldest_age_us", reader.oldest_age.count()},
            {"events_per_second", reader.events_per_second},
            {"parked", reader.parked},
            {"waiting", reader.waiting},
            {"settled_total", reader.settled_total},
            {"parked_total", reader.parked_total},
            {"owner", reader.owner},
            {"epoch", reader.epoch},
            {"lease_left_us", reader.lease_left.count()},
            {"updated_at", ops::iso_time(reader.updated_at)}};
  if (!reader.table.empty()) json["table"] = reader.table;
  if (reader.reading) {
    json["reads"] = {{"from", reader.reading->streams ? "log" : "table"},
                     {"since", ops::iso_time(reader.reading->since)},
                     {"why", reader.reading->why},
                     {"slot", reader.reading->slot},
                     {"retained_wal_bytes", reader.reading->retained_wal}};
  }
  if (const auto* relay = relay_of(reader, config)) json["from"] = relay->from;
  for (const LaneStatus& lane : reader.lanes) {
    json["lanes"].push_back({{"lane", lane.lane},
                             {"pending", lane.pending},
                             {"owner", lane.owner},
                             {"epoch", lane.epoch},
                             {"lease_left_us", lane.lease_left.count()}});
  }
  return json;
}

Json json_of(const ops::StoreConfig& store, const StoreStatus& status, const ops::Config& config) {
  Json readers = Json::array();
  for (const auto& reader : status.readers) readers.push_back(json_of(reader, config));
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
            {"file_bytes", status.file_bytes},
            {"wal_bytes", status.wal_bytes},
            {"readers", readers},
            {"consumers", consumers},
            {"queues", queues}};
  if (status.delayed) {
    json["delayed"] = {{"events", status.delayed->events},
                       {"failing", status.delayed->failing},
                       {"next", ops::iso_time(status.delayed->next)}};
  }
  if (!status.server_version.empty()) {
    json["server"] = status.server_version;
    json["partitions"] = status.partitions;
    json["standby"] = status.standby;
  }
  return json;
}

std::string stream_of(const ops::StoreConfig& store, const ReaderStatus& reader,
                      const ops::Config& config) {
  if (const auto* relay = relay_of(reader, config)) return relay->from + " > " + store.name;
  return store.name + "." +
         (reader.table.empty() ? std::string(to_string(reader.stream)) : reader.table);
}

void add_rows(Table& readers, Table& consumers, const ops::StoreConfig& store,
              const StoreStatus& status, const ops::Config& config) {
  for (const auto& reader : status.readers) {
    const bool idle = reader.pending == 0;
    const bool unknown = reader.stream == Stream::outside;
    readers.add({stream_of(store, reader, config), printable(reader.name, 40),
                 unknown ? "-" : ops::human_count(reader.pending),
                 idle ? "-" : ops::human_duration(reader.oldest_age),
                 rate(reader.events_per_second), ops::human_count(reader.parked),
                 ops::human_count(reader.waiting), ops::human_count(reader.settled_total),
                 owner_of(reader)});
  }
  for (const auto& consumer : status.consumers) {
    consumers.add({store.name, printable(consumer.name, 40), ops::human_count(consumer.applied),
                   ops::human_count(consumer.duplicates), ops::human_count(consumer.superseded),
                   ops::human_count(consumer.trying), ops::human_count(consumer.claims)});
  }
}

void add_queues(Table& queues, const ops::StoreConfig& store, const StoreStatus& status) {
  for (const QueueStatus& queue : status.queues) {
    queues.add({store.name, printable(queue.consumer, 40), ops::human_count(queue.events),
                ops::human_duration(queue.oldest_age), ops::human_count(queue.ready),
                ops::human_count(queue.held), ops::human_count(queue.later),
                ops::human_count(queue.waiting), ops::human_count(queue.parked)});
  }
}

// "orders.outbox: relay reads the log since 3 s: level; the server keeps 1.2 MiB for it"
std::string reading_notes(const ops::StoreConfig& store, const StoreStatus& status,
                          const ops::Config& config) {
  std::string text;
  for (const ReaderStatus& reader : status.readers) {
    // Of a relay that never said it there is nothing to tell.
    if (!reader.reading || (reader.reading->why.empty() && !reader.reading->streams)) continue;
    if (reader.lease_left <= Duration::zero()) continue;  // it reads nothing now
    const Reading& reading = *reader.reading;
    text += stream_of(store, reader, config) + ": " + printable(reader.name, 40) + " reads the " +
            (reading.streams ? "log" : "table") + " since " +
            ops::human_duration(std::max(Duration{0}, wall_now() - reading.since));
    if (!reading.why.empty()) text += ": " + printable(reading.why, 500);
    if (!reading.slot.empty())
      text += "; the server keeps " + ops::human_size(reading.retained_wal) + " of its log for it";
    text += "\n";
  }
  return text;
}

// What a store holds that nobody reads yet would otherwise not be seen at all.
std::string unread_note(const ops::StoreConfig& store, const StoreStatus& status) {
  std::string text;
  const auto note = [&](Stream stream, std::uint64_t rows) {
    for (const auto& reader : status.readers) {
      if (reader.stream == stream && reader.table.empty()) return;
    }
    if (rows == 0) return;
    text += store.name + "." + std::string(to_string(stream)) + ": " + ops::human_count(rows) +
            (rows == 1 ? " event" : " events") + ", and nobody has read it yet\n";
  };
  note(Stream::outbox, status.outbox_rows);
  note(Stream::mailbox, status.mailbox_rows);
  return text;
}

std::string delayed_note(const ops::StoreConfig& store, const StoreStatus& status) {
  if (!status.delayed) return {};
  std::string text = store.name + ": " + ops::human_count(status.delayed->events) +
                     " delayed, the first is due " + ops::iso_time(status.delayed->next);
  if (status.delayed->failing > 0)
    text += "; " + ops::human_count(status.delayed->failing) +
            " could not be let go: dovetail events --state delayed says why";
  return text + "\n";
}

Look look(const ops::Config& config) {
  Look result;
  Table readers({"STREAM", "READER", ">PENDING", ">OLDEST", ">RATE", ">PARKED", ">WAITING",
                 ">DELIVERED", "OWNER"});
  Table consumers({"STORE", "CONSUMER", ">APPLIED", ">DUPLICATES SUPPRESSED", ">SUPERSEDED",
                   ">TRYING", ">CLAIMS HELD"});
  Table queues({"STORE", "QUEUE OF", ">EVENTS", ">OLDEST", ">READY", ">HELD", ">LATER", ">WAITING",
                ">PARKED"});
  std::string notes;
  for (const ops::StoreConfig& store : config.stores) {
    if (store.is_broker()) {
      result.json.push_back(
          {{"name", store.name}, {"path", store.shown}, {"broker", to_string(store.scheme)}});
      continue;
    }
    const auto status = kind_of(store).status(store);
    if (!status) {
      const Failure failure = refuse_in(store, status.error()).value();
      result.exit = std::max(result.exit, failure.exit);
      notes += failure.text + "\n";
      result.json.push_back(
          {{"name", store.name},
           {"path", store.shown},
           {"error", {{"code", to_string(failure.exit)}, {"text", failure.text}}}});
      continue;
    }
    add_rows(readers, consumers, store, *status, config);
    add_queues(queues, store, *status);
    notes += reading_notes(store, *status, config);
    notes += unread_note(store, *status);
    notes += delayed_note(store, *status);
    result.json.push_back(json_of(store, *status, config));
  }
  if (readers.rows() != 0) result.text += readers.to_string();
  if (consumers.rows() != 0) result.text += "\n" + consumers.to_string();
  if (queues.rows() != 0) result.text += "\n" + queues.to_string();
  if (!notes.empty()) result.text += (result.text.empty() ? "" : "\n") + notes;
  if (result.text.empty()) result.text = "nothing was published or read yet\n";
  return result;
}

}  // namespace

Answer status(const Surroundings& around, const StatusOptions& options) {
  const auto config = load(around);
  if (!config) return tl::unexpected(config.error());
  while (true) {
    const Look now = look(*config);
    if (around.json) {
      print_json({{"time", ops::iso_time(wall_now())}, {"stores", now.json}});
    } else if (options.watch && stdout_is_terminal()) {
      print("\x1b[H\x1b[2J" + ops::iso_time(wall_now()) + "\n\n" + now.text);
    } else {
      print(now.text);
    }
    if (!options.watch) return now.exit;
    std::this_thread::sleep_for(options.every);
    if (!around.json && !stdout_is_terminal()) print("\n");
  }
}

}  // namespace dovetail::app
