#include "config/relay.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "config/brokers.h"
#include "config/tables.h"
#include "core/event/headers.h"

namespace dovetail::config {
namespace {

constexpr std::pair<std::string_view, ReadMode> kModes[] = {
    {"auto", ReadMode::automatic}, {"wal", ReadMode::wal}, {"poll", ReadMode::poll}};

// The server's rule.
bool is_slot_name(std::string_view name) {
  return !name.empty() && name.size() <= 63 && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  });
}

void check_target(Section& section, const RelayConfig& relay, const Config& config) {
  const StoreConfig* const to = config.find_store(relay.to);
  if (to == nullptr || to->is_broker() || to->type().has_mailbox) return;
  section.wrong("to", "the store " + in_quotes(relay.to) + " is " + std::string(to->type().name) +
                          ", and a relay fills the mailbox of a " +
                          kinds_with(&StoreType::has_mailbox) +
                          " store, or a broker; name one of those");
}

// "region=eu*"
void read_header_patterns(Section& section, RelayConfig& relay) {
  for (const std::string& text : relay.header_patterns) {
    const std::size_t equals = text.find('=');
    const std::string name = text.substr(0, equals);
    const std::string pattern = equals == std::string::npos ? "" : text.substr(equals + 1);
    if (equals == std::string::npos || !is_header_name(name)) {
      section.wrong("headers", in_quotes(text) +
                                   " is not a header's name, '=' and a pattern; write "
                                   "\"region=eu\" or \"region=eu*\"");
      return;
    }
    if (const std::string wrong = check_patterns({pattern}); !wrong.empty()) {
      section.wrong("headers", wrong);
      return;
    }
    relay.options.filter.headers.emplace_back(name, pattern);
  }
}

void read_relay(Section& section, RelayConfig& relay, Config& config) {
  Settings keys;
  declare_relay(relay, [&] { return config.find_store(relay.from); }, keys);
  section.read(keys);
  std::optional<TableConfig> table = read_mapped_table(section);
  check_start_and_filter(section, table.has_value());
  read_header_patterns(section, relay);
  check_relay_options(section, relay.options);
  check_store_name(section, "from", relay.from, config);
  check_store_name(section, "to", relay.to, config);
  check_target(section, relay, config);
  check_log_options(section, relay, "lanes", config);
  read_broker_relay(section, relay, config);
  check_reader_name(section, relay.name, config);
  add_mapped_table(std::move(table), relay, config);
}

void declare_retries(RelayConfig& relay, Settings& keys) {
  using namespace std::chrono_literals;
  RelayOptions& options = relay.options;
  keys.number("attempts_max", options.attempts_max, 1, 1'000'000,
              "How often one event may fail, while other keys pass, before it is parked. With the "
              "waits below this takes about half an hour. While everything fails, nothing counts "
              "and nothing is parked.");
  keys.duration("busy_for", options.busy_for, 0ms,
                "For this long a receiver that is full or missing does not count as a failure. "
                "After that it does.");
  keys.duration("retry_base", options.key_retry.base, 1ms,
                "How long a key waits after its event failed while others pass. The wait doubles "
                "each time, with jitter in the upper half.");
  keys.duration("retry_cap", options.key_retry.cap, 1ms, "The longest wait of such a key.");
  keys.duration("reconnect_base", options.connect_retry.base, 1ms,
                "The same for a store that is away, a receiver that fails for everybody, a halted "
                "relay, and a key that fails while no other key passes. These waits cost no "
                "attempt.");
  keys.duration("reconnect_cap", options.connect_retry.cap, 1ms, "The longest of these waits.");
}

void declare_limits(RelayConfig& relay, Settings& keys) {
  RelayOptions& options = relay.options;
  keys.number("batch_events", options.batch_events_max, 1, 100'000,
              "The most events in one batch, which is one transaction of the mailbox or of the "
              "inbox.");
  keys.size("batch_bytes", options.batch_bytes_max, 1 << 10, "The largest batch.");
  keys.number("batches_in_flight", options.batches_in_flight_max, 1, 1000,
              "The most batches that are sent and not confirmed.");
  keys.number("window_events", options.window_events_max, 1, 10'000'000,
              "The in-flight window of each lane: the most events that are read and not durably "
              "delivered or parked. It bounds memory, and duplicates after a crash.");
  keys.size("window_bytes", options.window_bytes_max, 1 << 10,
            "The same window in bytes of payload.");
  keys.number("blocked_keys_max", options.blocked_keys_max, 1, 100'000'000,
              "The most blocked keys kept in memory. Beyond it the relay asks the store about the "
              "keys of each batch.");
}

void declare_times(RelayConfig& relay, Settings& keys) {
  using namespace std::chrono_literals;
  RelayOptions& options = relay.options;
  keys.duration("lease", relay.lease, 100ms,
                "How long a stand-by waits after this relay died or lost its database. It does not "
                "wait where it can prove that the process has ended: same host, same boot, same "
                "process-id namespace, no process with its id and start. No call of the relay to "
                "its database takes longer than a third of the lease, or 3 s if that is more.");
  keys.duration("confirm_timeout", options.confirm_timeout, 10ms,
                "After this time without an answer from the sink, the relay opens a new "
                "connection.");
  keys.duration("drain_timeout", options.drain_timeout, 0ms,
                "How long events in flight may take to finish after SIGTERM.");
  keys.duration("idle_wait", options.idle_wait, 1ms,
                "One wait for a first event. A commit ends it at once.");
  keys.duration("replay_poll", options.replay_poll, 1ms,
                "How often the relay looks at parked events while a key is blocked.");
}

void declare_filter(RelayConfig& relay, Settings& keys) {
  RelayFilter& filter = relay.options.filter;
  const auto patterns = [&keys](std::string key, std::vector<std::string>& out, std::string help) {
    keys.one_or_more_texts(std::move(key), out, std::move(help)).otherwise("all").check([&out] {
      return check_patterns(out);
    });
  };
  patterns("types", filter.types,
           "The only types that the relay carries: `\"order.placed\"`, `\"order.*\"`, or a list. "
           "It skips the other events: they count as skipped, and do not wait behind a parked "
           "event.");
  patterns("topics", filter.topics,
           "The same for topics, as the publisher set them. From a broker: the topics of its "
           "messages.");
  patterns("aggregate_types", filter.aggregate_types, "The same for aggregate types.");
  keys.one_or_more_texts("headers", relay.header_patterns,
                         "The same for headers: `\"region=eu*\"`. Of each name that is listed one "
                         "pattern must match.")
      .otherwise("all");
}

}  // namespace

void declare_relay_options(RelayConfig& relay, Settings& keys) {
  keys.text("topic", relay.topic,
            "The topic of an event whose publisher set none; from a broker, the topic of every "
            "event. Fields: `{aggregate_type}` `{aggregate_id}` `{type}` `{content_type}` `{id}` "
            "`{aggregate_version}` `{created_at}` `{header.NAME}`. To a broker with `format = "
            "\"debezium\"` the default is `outbox.event.{aggregate_type}`; from a broker it is the "
            "topic of the message.")
      .check([&relay]() -> std::string {
        const auto topic = TopicTemplate::parse(relay.topic);
        return topic ? "" : topic.error().text;
      });
  declare_retries(relay, keys);
  declare_times(relay, keys);
  declare_limits(relay, keys);
}

void declare_start(RelayConfig& relay, const FindStore& from, Settings& keys) {
  keys.choice<bool>("start", relay.starts_now, {{"beginning", false}, {"now", true}},
                    "Where the first start begins: with the oldest event that is still there, or "
                    "with what comes from then on. Later starts continue where the last one ended.")
      .only_for("databases", [from]() -> std::string {
        const StoreConfig* const store = from();
        if (store == nullptr || !store->is_broker()) return {};
        return "is for databases; of a broker, \"from_end\" in its settings says where to begin";
      });
}

void check_start_and_filter(Section& section, bool is_mapped) {
  if (!is_mapped) return;
  for (const std::string_view key : {"topics", "types", "aggregate_types", "headers", "start"}) {
    if (section.has(key))
      section.wrong(key,
                    "does not go with a [table], whose own columns say which rows are "
                    "pending; use its key \"pending\"");
  }
}

std::string check_patterns(const std::vector<std::string>& patterns) {
  for (const std::string& pattern : patterns) {
    if (pattern.find('*') < pattern.size() - 1)
      return in_quotes(pattern) +
             " has a '*' that is not at its end; write \"order.placed\", or \"order.*\" for all "
             "that begin so";
  }
  return {};
}

void declare_wal_options(RelayConfig& relay, const FindStore& from, Settings& keys) {
  Setting* const all[] = {
      &keys.choice<ReadMode>(
               "mode", relay.reading.mode, {std::begin(kModes), std::end(kModes)},
               "`auto` reads the WAL while the relay is up to date. It reads the table to catch "
               "up, or where it cannot read the WAL. `wal` reads the WAL through a permanent slot "
               "and needs one lane. `poll` reads the table.")
           .see("WAL.md"),
      &keys.size("retained_wal_max", relay.reading.retained_wal_max, std::size_t{1} << 20,
                 "How much WAL the server may keep for this relay. Beyond it the relay gives up "
                 "its slot and reads the table."),
      &keys.text("slot", relay.slot,
                 "With `mode = \"wal\"` and a `table`: the slot of another program that the relay "
                 "replaces.")
           .otherwise("made by dovetail"),
      &keys.text("publication", relay.publication,
                 "With `slot`: the publication that the slot was read with.")
           .otherwise("made by dovetail")};
  for (Setting* const one : all) only_for_stores(*one, &StoreType::has_wal, from);
  keys.removed("emitted",
               "dovetail.emit() was removed, because its events were lost with their slot; publish "
               "with dovetail.publish() and remove this line");
}

void declare_relay(RelayConfig& relay, const FindStore& from, Settings& keys) {
  keys.text("name", relay.name, "Also the name of its progress and its lease: do not change it.")
      .required()
      .check([&relay] { return is_plain_name(relay.name) ? "" : std::string(kNameForm); });
  keys.text("from", relay.from,
            "A store. The relay reads its outbox, or a table that exists already (`table`), or a "
            "broker. Only one relay reads a broker store.")
      .required();
  keys.text("to", relay.to,
            "A store. The relay fills its mailbox, or a broker. When `from` is a broker, `to` is a "
            "SQLite store, which also holds the parked events.")
      .required();
  Setting& table = keys.table(
      "table", "`[relay.table]`: the relay serves a table that exists already, see below.");
  only_for_stores(table, &StoreType::has_mapped_tables, from);
  Setting& lanes = keys.number("lanes", relay.lanes, 1, 256,
                               "The number of lanes that are read in parallel. The number at the "
                               "first start stays in force.");
  only_for_stores(lanes, &StoreType::has_lanes, from);
  keys.choice<bool>("order", relay.options.order_relaxed, {{"strict", false}, {"relaxed", true}},
                    "`relaxed` keeps several events of a key in flight to a broker. This is "
                    "faster, but later events of a key may overtake one that fails.");
  declare_filter(relay, keys);
  declare_start(relay, from, keys);
  declare_wal_options(relay, from, keys);
  declare_relay_options(relay, keys);
}

void check_relay_options(Section& section, const RelayOptions& options) {
  if (options.key_retry.cap < options.key_retry.base)
    section.wrong("retry_cap", "must not be less than retry_base");
  if (options.connect_retry.cap < options.connect_retry.base)
    section.wrong("reconnect_cap", "must not be less than reconnect_base");
  if (options.window_events_max < options.batch_events_max)
    section.wrong("window_events", "must not be less than batch_events (" +
                                       std::to_string(options.batch_events_max) + ")");
}

namespace {

// The slot of another program needs the publication that it used: a new publication does not exist
// yet in the part of the WAL that the slot holds.
void check_foreign_slot(Section& section, const RelayConfig& relay, const Config& config) {
  if (relay.reading.mode != ReadMode::wal || !section.has("table")) {
    for (const std::string_view key : {"slot", "publication"}) {
      if (!section.has(key)) continue;
      section.wrong(key,
                    "is for a relay with mode = \"wal\" and a [table], which takes over the slot "
                    "of another program; remove it");
    }
    return;
  }
  if (section.has("slot") && !is_slot_name(relay.slot)) {
    section.wrong("slot", "a slot name has at most 63 lower case letters, digits and '_'");
  } else if (section.has("slot") && relay.publication.empty()) {
    section.wrong("slot",
                  "needs \"publication\", the one that the slot was read with; Debezium's is "
                  "called dbz_publication unless its publication.name says otherwise");
  }
  for (const RelayConfig* other : config.readers()) {
    if (relay.slot.empty() || other->slot != relay.slot || other->from != relay.from) continue;
    section.wrong("slot", "is used by " + in_quotes(other->name) +
                              " already; each of them would miss what the other reads");
  }
}

}  // namespace

void check_log_options(Section& section, const RelayConfig& relay, std::string_view lanes_key,
                       const Config& config) {
  const StoreConfig* const from = config.find_store(relay.from);
  if (from == nullptr || !from->type().has_wal) return;
  if (relay.reading.mode == ReadMode::wal && relay.lanes > 1) {
    section.wrong(lanes_key, "the WAL is a single stream, so mode = \"wal\" needs " +
                                 in_quotes(std::string(lanes_key) + " = 1") +
                                 "; with more, mode = \"poll\" reads the table");
  }
  if (section.has("retained_wal_max") && relay.reading.mode == ReadMode::poll) {
    section.wrong("retained_wal_max",
                  "with mode = \"poll\" the server keeps no WAL for the relay; remove it");
  }
  check_foreign_slot(section, relay, config);
}

void check_reader_name(Section& section, const std::string& name, const Config& config) {
  for (const RelayConfig* other : config.readers()) {
    if (other->name != name) continue;
    section.wrong("name", "two relays or consumers have the name " + in_quotes(name) +
                              "; each needs its own name, because it keeps its progress by it");
  }
}

std::string_view to_string(ReadMode mode) {
  for (const auto& [name, meaning] : kModes)
    if (meaning == mode) return name;
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
