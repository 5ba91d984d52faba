#include "config/relay.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "config/brokers.h"

namespace dovetail::config {
namespace {

constexpr std::string_view kTableTexts[] = {"id",
                                            "topic",
                                            "aggregate_type",
                                            "aggregate_id",
                                            "type",
                                            "payload",
                                            "content_type",
                                            "aggregate_version",
                                            "headers",
                                            "created_at",
                                            "order_by",
                                            "default_aggregate_type",
                                            "default_type",
                                            "default_content_type"};
constexpr std::string_view kTableLists[] = {"pending", "when_sent", "when_parked",
                                            "when_discarded"};

// What is about the log of PostgreSQL.
constexpr std::string_view kLogKeys[] = {"mode", "retained_wal_max", "slot", "publication"};

// As the server allows it.
bool is_slot_name(std::string_view name) {
  return !name.empty() && name.size() <= 63 && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  });
}

TableConfig table_of(Section& section, std::string where) {
  TableConfig table;
  table.where = std::move(where);
  section.text("preset", table.preset);
  section.text("name", table.name);
  for (const std::string_view key : kTableTexts) section.text_or_none(key, table.texts);
  section.flag("delete_when_done", table.delete_when_done);
  for (const std::string_view key : kTableLists) {
    if (section.has(key)) section.texts(key, table.lists[std::string(key)], true);
  }
  section.table("header_columns", [&](Section& headers) {
    headers.each_key([&](std::string_view header) {
      headers.text(header, table.header_columns[std::string(header)]);
    });
  });
  section.close();
  if (table.preset.empty() && table.name.empty()) {
    section.wrong_here("needs \"preset\", or the \"name\" of a table that is mapped by hand");
  }
  return table;
}

void check_schemes(Section& section, const RelayConfig& relay, const Config& config) {
  const StoreConfig* from = config.find_store(relay.from);
  const StoreConfig* to = config.find_store(relay.to);
  if (to != nullptr && !to->is_broker() && !to->type().has_mailbox) {
    section.wrong("to", "the store " + in_quotes(relay.to) + " is " + std::string(to->type().name) +
                            ", and a relay fills the mailbox of a SQLite store, or a broker; name "
                            "one of those");
  }
  const bool is_read_as_one = from != nullptr && !from->is_broker() && !from->type().has_lanes;
  if (is_read_as_one && section.has("lanes")) {
    section.wrong("lanes", "the store " + in_quotes(relay.from) + " is " +
                               std::string(from->type().name) +
                               ", which is read in one lane; remove it");
  }
  check_table(section, relay, config);
}

void read_relay(Section& section, RelayConfig& relay, Config& config) {
  section.require("name");
  section.require("from");
  section.require("to");
  section.text("name", relay.name);
  section.text("from", relay.from);
  section.text("to", relay.to);
  section.text("topic", relay.topic);
  section.number("lanes", relay.lanes, 1, 256);
  std::optional<TableConfig> table = read_mapped_table(section);
  section.choice<bool>("order", relay.options.order_relaxed,
                       {{"strict", false}, {"relaxed", true}});
  read_log_options(section, relay);
  read_relay_options(section, relay);
  section.close();

  if (!relay.name.empty() && !is_plain_name(relay.name)) section.wrong("name", kNameForm);
  check_store_name(section, "from", relay.from, config);
  check_store_name(section, "to", relay.to, config);
  check_schemes(section, relay, config);
  check_log_options(section, relay, "lanes", config);
  read_broker_relay(section, relay, config);
  check_reader_name(section, relay.name, config);
  if (const auto topic = TopicTemplate::parse(relay.topic); !topic && !relay.topic.empty()) {
    section.wrong("topic", topic.error().text);
  }
  add_mapped_table(std::move(table), relay, config);
}

}  // namespace

bool is_plain_name(std::string_view name) {
  return !name.empty() && name.size() <= 64 && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  });
}

void read_relay_options(Section& section, RelayConfig& relay) {
  using namespace std::chrono_literals;
  RelayOptions& options = relay.options;
  section.number("attempts_max", options.attempts_max, 1, 1'000'000);
  section.duration("busy_for", options.busy_for, 0ms);
  section.duration("lease", relay.lease, 100ms);
  section.duration("confirm_timeout", options.confirm_timeout, 10ms);
  section.duration("drain_timeout", options.drain_timeout, 0ms);
  section.duration("replay_poll", options.replay_poll, 1ms);
  section.duration("idle_wait", options.idle_wait, 1ms);
  section.duration("retry_base", options.key_retry.base, 1ms);
  section.duration("retry_cap", options.key_retry.cap, 1ms);
  section.duration("reconnect_base", options.connect_retry.base, 1ms);
  section.duration("reconnect_cap", options.connect_retry.cap, 1ms);
  section.number("batch_events", options.batch_events_max, 1, 100'000);
  section.size("batch_bytes", options.batch_bytes_max, 1 << 10);
  section.number("batches_in_flight", options.batches_in_flight_max, 1, 1000);
  section.number("window_events", options.window_events_max, 1, 10'000'000);
  section.size("window_bytes", options.window_bytes_max, 1 << 10);
  section.number("blocked_keys_max", options.blocked_keys_max, 1, 100'000'000);
  if (options.key_retry.cap < options.key_retry.base) {
    section.wrong("retry_cap", "must not be less than retry_base");
  }
  if (options.connect_retry.cap < options.connect_retry.base) {
    section.wrong("reconnect_cap", "must not be less than reconnect_base");
  }
  if (options.window_events_max < options.batch_events_max) {
    section.wrong("window_events", "must not be less than batch_events (" +
                                       std::to_string(options.batch_events_max) + ")");
  }
}

void read_log_options(Section& section, RelayConfig& relay) {
  section.choice<ReadMode>(
      "mode", relay.mode,
      {{"auto", ReadMode::automatic}, {"wal", ReadMode::wal}, {"poll", ReadMode::poll}});
  std::optional<bool> emitted;
  section.flag("emitted", emitted);
  if (emitted)
    section.wrong("emitted",
                  "dovetail.emit() was removed, because its events were lost with their slot; "
                  "publish with dovetail.publish() and remove this line");
  section.size("retained_wal_max", relay.retained_wal_max, std::size_t{1} << 20);
  section.text("slot", relay.slot);
  section.text("publication", relay.publication);
}

namespace {

// The slot of another program is read through the publication that it used: one that is made now
// is not there yet in the part of the log that the slot holds.
void check_foreign_slot(Section& section, const RelayConfig& relay, const Config& config) {
  if (relay.mode != ReadMode::wal || !section.has("table")) {
    for (const std::string_view key : {"slot", "publication"}) {
      if (!section.has(key)) continue;
      section.wrong(key,
                    "is for a relay with mode = \"wal\" and a [table] of its own, which takes "
                    "over the slot of another program; remove it");
    }
    return;
  }
  if (section.has("slot") && !is_slot_name(relay.slot)) {
    section.wrong("slot", "a slot's name is made of at most 63 small letters, digits and '_'");
  } else if (section.has("slot") && relay.publication.empty()) {
    section.wrong("slot",
                  "needs \"publication\", the one that the slot was read with: Debezium's is "
                  "called dbz_publication unless its publication.name says otherwise");
  }
  for (const RelayConfig* other : config.readers()) {
    if (relay.slot.empty() || other->slot != relay.slot || other->from != relay.from) continue;
    section.wrong("slot", "is that of " + in_quotes(other->name) +
                              " already; what one of them reads the other would never see");
  }
}

}  // namespace

void check_log_options(Section& section, const RelayConfig& relay, std::string_view lanes_key,
                       const Config& config) {
  const StoreConfig* from = config.find_store(relay.from);
  if (from == nullptr) return;
  if (!from->type().has_wal) {
    const std::string what = "the store " + in_quotes(relay.from) + " is " +
                             std::string(to_string(from->scheme)) +
                             ", and only PostgreSQL has a log to read; remove it";
    for (const std::string_view key : kLogKeys) {
      if (section.has(key)) section.wrong(key, what);
    }
    return;
  }
  const bool is_wal = relay.mode == ReadMode::wal;
  if (is_wal && relay.lanes > 1) {
    section.wrong(lanes_key, "the log comes as one stream, so mode = \"wal\" needs " +
                                 in_quotes(std::string(lanes_key) + " = 1") +
                                 "; with more, mode = \"poll\" reads the table");
  }
  if (section.has("retained_wal_max") && relay.mode == ReadMode::poll) {
    section.wrong("retained_wal_max", "mode = \"poll\" makes the server keep nothing; remove it");
  }
  check_foreign_slot(section, relay, config);
}

void check_store_name(Section& section, std::string_view key, const std::string& name,
                      const Config& config) {
  if (name.empty() || config.find_store(name) != nullptr) return;
  std::vector<std::string_view> known;
  for (const StoreConfig& store : config.stores) known.push_back(store.name);
  const std::string_view near = nearest_name(name, known);
  std::string what = "no store is called " + in_quotes(name) + "; ";
  if (!near.empty()) what += "did you mean " + in_quotes(near) + "? ";
  section.wrong(key, what + "Stores: " + (known.empty() ? "none" : join(known)));
}

void check_reader_name(Section& section, const std::string& name, const Config& config) {
  for (const RelayConfig* other : config.readers()) {
    if (other->name != name) continue;
    section.wrong("name", "two relays or consumers are called " + in_quotes(name) +
                              "; each needs a name of its own, because it keeps its progress by "
                              "it");
  }
}

std::optional<TableConfig> read_mapped_table(Section& section) {
  std::optional<TableConfig> table;
  section.table("table",
                [&](Section& mapped) { table = table_of(mapped, section.place("table")); });
  return table;
}

void add_mapped_table(std::optional<TableConfig> table, const RelayConfig& relay, Config& config) {
  if (table) {
    table->from_log = relay.mode == ReadMode::wal;
    table->slot = relay.slot;
    table->publication = relay.publication;
  }
  for (StoreConfig& store : config.stores) {
    if (table && store.name == relay.from) store.tables.emplace(relay.name, std::move(*table));
  }
}

void check_table(Section& section, const RelayConfig& relay, const Config& config) {
  const StoreConfig* from = config.find_store(relay.from);
  if (from == nullptr || from->type().has_mapped_tables || !section.has("table")) return;
  section.wrong("table", "the store " + in_quotes(relay.from) + " is " +
                             (from->is_broker()
                                  ? "a broker; remove it"
                                  : std::string(from->type().name) +
                                        "; only a table of PostgreSQL is served as it is: remove "
                                        "it"));
}

std::string_view to_string(ReadMode mode) {
  switch (mode) {
    case ReadMode::automatic:
      return "auto";
    case ReadMode::wal:
      return "wal";
    case ReadMode::poll:
      return "poll";
  }
  return "unknown";
}

void read_relays(Section& root, Config& config) {
  root.repeated_table("relay", [&](Section& section) {
    RelayConfig relay;
    read_relay(section, relay, config);
    config.relays.push_back(std::move(relay));
  });
}

}  // namespace dovetail::config
