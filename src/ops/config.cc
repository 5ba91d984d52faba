#include "ops/config.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <limits>
#include <sstream>
#include <utility>

#include "ops/config_brokers.h"
#include "ops/config_gateway.h"
#include "ops/config_section.h"

namespace dovetail::ops {
namespace {

namespace fs = std::filesystem;

bool is_plain_name(std::string_view name) {
  return !name.empty() && name.size() <= 64 && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  });
}

constexpr std::string_view kNameForm = "a name is made of letters, digits, '-', '_' and '.'";

// What libpq takes, out of "postgres:KEY=VALUE ..." or "postgres://..." or "postgresql://...".
std::optional<std::string> conninfo_of(const std::string& url) {
  if (url.starts_with("postgres://") || url.starts_with("postgresql://")) return url;
  for (const std::string_view scheme : {"postgres:", "postgresql:"}) {
    if (url.starts_with(scheme)) return url.substr(scheme.size());
  }
  return std::nullopt;
}

void read_store(Section& section, StoreConfig& store, const fs::path& folder) {
  if (!is_plain_name(store.name)) section.wrong_here(kNameForm);
  std::string url;
  std::string password_file;
  section.require("url");
  section.text("url", url);
  if (is_broker_url(url)) return read_broker(section, store, url, folder);
  constexpr std::string_view kScheme = "sqlite:";
  const auto conninfo = conninfo_of(url);
  const bool is_file = url.starts_with(kScheme) && url.size() > kScheme.size();
  if (!url.empty() && !conninfo && !is_file) {
    // Which keys may stand here is not known, so nothing is said about them.
    return section.wrong(
        "url",
        "must be \"sqlite:PATH\", \"postgres:KEY=VALUE ...\" or \"postgres://...\", or "
        "that of a broker: kafka://, kafka+tls://, amqp://, amqps://, nats://, "
        "nats+tls://, redis://, rediss://, http:// or https://");
  }
  section.size("payload_max", store.payload_bytes_max, 1);
  section.texts("topics", store.topics);
  section.text("password_env", store.password_env);
  section.text("password_file", password_file);
  section.close();

  if (url.empty()) return;
  store.where = section.place("url");
  if (conninfo) {
    store.scheme = StoreScheme::postgres;
    store.conninfo = *conninfo;
    if (!password_file.empty()) store.password_file = (folder / password_file).lexically_normal();
    if (!password_file.empty() && !store.password_env.empty()) {
      section.wrong("password_file", "there is password_env too; keep one of them");
    }
    if (section.has("topics")) {
      section.wrong("topics",
                    "a PostgreSQL store has no mailbox that could refuse topics; remove it");
    }
    return;
  }
  for (const std::string_view key : {"password_env", "password_file"}) {
    if (section.has(key)) section.wrong(key, "a SQLite store has no password; remove it");
  }
  store.path = (folder / url.substr(kScheme.size())).lexically_normal();
  store.shown = store.path.string();
}

void read_relay_options(Section& section, RelayConfig& relay) {
  using namespace std::chrono_literals;
  RelayOptions& options = relay.options;
  section.choice<bool>("order", options.order_relaxed, {{"strict", false}, {"relaxed", true}});
  section.number("attempts_max", options.attempts_max, 1, 1'000'000);
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

void check_schemes(Section& section, const RelayConfig& relay, const Config& config) {
  const StoreConfig* from = config.find_store(relay.from);
  const StoreConfig* to = config.find_store(relay.to);
  if (to != nullptr && to->scheme == StoreScheme::postgres) {
    section.wrong("to", "the store " + in_quotes(relay.to) +
                            " is PostgreSQL, and a relay fills the mailbox of a SQLite store, or a "
                            "broker; name one of those");
  }
  if (from == nullptr || from->scheme != StoreScheme::sqlite) return;
  if (section.has("lanes")) {
    section.wrong("lanes", "the store " + in_quotes(relay.from) +
                               " is SQLite, which is read in one lane; remove it");
  }
  if (section.has("table")) {
    section.wrong("table", "the store " + in_quotes(relay.from) +
                               " is SQLite; only a table of PostgreSQL is served as it is: remove "
                               "it");
  }
}

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

TableConfig read_mapped_table(Section& section, std::string where) {
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

void read_relay(Section& section, RelayConfig& relay, Config& config) {
  section.require("name");
  section.require("from");
  section.require("to");
  section.text("name", relay.name);
  section.text("from", relay.from);
  section.text("to", relay.to);
  section.text("topic", relay.topic);
  section.number("lanes", relay.lanes, 1, 256);
  std::optional<TableConfig> table;
  section.table(
      "table", [&](Section& mapped) { table = read_mapped_table(mapped, section.place("table")); });
  read_relay_options(section, relay);
  section.close();

  if (!relay.name.empty() && !is_plain_name(relay.name)) section.wrong("name", kNameForm);
  check_store_name(section, "from", relay.from, config);
  check_store_name(section, "to", relay.to, config);
  check_schemes(section, relay, config);
  read_broker_relay(section, relay, config);
  for (const RelayConfig& other : config.relays) {
    if (other.name == relay.name) {
      section.wrong("name",
                    "two relays are called " + in_quotes(relay.name) +
                        "; each needs a name of its own, because it keeps its progress by it");
    }
  }
  if (const auto topic = TopicTemplate::parse(relay.topic); !topic && !relay.topic.empty()) {
    section.wrong("topic", topic.error().text);
  }
  for (StoreConfig& store : config.stores) {
    if (table && store.name == relay.from) store.tables.emplace(relay.name, std::move(*table));
  }
}

void read_stores(Section& root, Config& config) {
  if (!root.has("store")) return root.wrong_here("needs at least one [store.NAME]");
  root.named_tables("store", "[store.NAME]", [&](std::string_view name, Section& section) {
    StoreConfig store;
    store.name = name;
    read_store(section, store, config.file.parent_path());
    config.stores.push_back(std::move(store));
  });
}

void read_relays(Section& root, Config& config) {
  root.repeated_table("relay", [&](Section& section) {
    RelayConfig relay;
    read_relay(section, relay, config);
    config.relays.push_back(std::move(relay));
  });
}

void read_retention(Section& section, RetentionConfig& retention) {
  using namespace std::chrono_literals;
  Duration sent{};
  Duration inbox{};
  section.duration("sent", sent, 1s);
  section.duration("inbox", inbox, 1s);
  section.duration("every", retention.every, 1s);
  if (section.has("sent")) retention.sent = sent;
  if (section.has("inbox")) retention.inbox = inbox;
  section.close();
}

void read_log(Section& section, LogConfig& log) {
  section.choice<LogFormat>("format", log.format,
                            {{"text", LogFormat::text}, {"json", LogFormat::json}});
  section.choice<LogLevel>("level", log.level,
                           {{"debug", LogLevel::debug},
                            {"info", LogLevel::info},
                            {"warn", LogLevel::warn},
                            {"error", LogLevel::error}});
  section.close();
}

}  // namespace

const StoreConfig* Config::find_store(std::string_view name) const {
  const auto found = std::find_if(stores.begin(), stores.end(),
                                  [name](const StoreConfig& store) { return store.name == name; });
  return found == stores.end() ? nullptr : &*found;
}

Result<Config> parse_config(std::string_view text, const fs::path& file) {
  Config config;
  config.file = file;
  Problems problems(file);
  Section::read_document(text, file.string(), problems, [&config](Section& root) {
    read_stores(root, config);
    read_relays(root, config);
    root.table("gateway", [&config](Section& section) { read_gateway(section, config); });
    root.table("retention",
               [&config](Section& section) { read_retention(section, config.retention); });
    root.table("log", [&config](Section& section) { read_log(section, config.log); });
    root.close();
  });
  if (problems.any()) return fail(Errc::rejected, problems.first());
  return config;
}

Result<Config> load_config(const fs::path& file) {
  std::error_code ignored;
  if (fs::is_directory(file, ignored)) {
    return fail(Errc::unavailable, file.string() + ": is a directory; name the file itself");
  }
  std::ifstream stream(file, std::ios::binary);
  if (!stream) {
    return fail(Errc::unavailable, file.string() + ": cannot be read (" + std::strerror(errno) +
                                       "); \"dovetail init\" writes one, --config names another");
  }
  std::ostringstream text;
  text << stream.rdbuf();
  if (stream.bad())
    return fail(Errc::unavailable, file.string() + ": cannot be read; check the disk");
  return parse_config(text.str(), file);
}

std::string_view nearest_name(std::string_view unknown,
                              const std::vector<std::string_view>& known) {
  std::string_view best;
  std::size_t best_distance = std::max<std::size_t>(1, unknown.size() / 3) + 1;
  for (const std::string_view name : known) {
    // Edit distance, one row at a time.
    std::vector<std::size_t> row(name.size() + 1);
    for (std::size_t j = 0; j <= name.size(); ++j) row[j] = j;
    for (std::size_t i = 1; i <= unknown.size(); ++i) {
      std::size_t diagonal = row[0];
      row[0] = i;
      for (std::size_t j = 1; j <= name.size(); ++j) {
        const std::size_t change = diagonal + (unknown[i - 1] == name[j - 1] ? 0 : 1);
        diagonal = row[j];
        row[j] = std::min({change, row[j] + 1, row[j - 1] + 1});
      }
    }
    if (row.back() < best_distance) {
      best_distance = row.back();
      best = name;
    }
  }
  return best;
}

}  // namespace dovetail::ops
