#include "ops/config.h"

#include <toml++/toml.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <limits>
#include <sstream>
#include <utility>

#include "ops/units.h"

namespace dovetail::ops {
namespace {

namespace fs = std::filesystem;

std::string join(const std::vector<std::string_view>& names) {
  std::string text;
  for (const std::string_view name : names) {
    if (!text.empty()) text += ", ";
    text += name;
  }
  return text;
}

std::string in_quotes(std::string_view text) { return "\"" + std::string(text) + "\""; }

// Keeps the first thing that is wrong with the file.
class Problems {
 public:
  explicit Problems(const fs::path& file) : file_(file.string()) {}

  void add(const toml::source_region& where, std::string_view key, std::string_view what) {
    if (first_.empty()) first_ = place(where, key) + ": " + std::string(what);
  }
  std::string place(const toml::source_region& where, std::string_view key) const {
    std::ostringstream text;
    text << file_;
    if (where.begin.line != 0) text << ':' << where.begin.line << ':' << where.begin.column;
    if (!key.empty()) text << ": " << key;
    return text.str();
  }
  bool any() const { return !first_.empty(); }
  const std::string& first() const { return first_; }

 private:
  std::string file_;
  std::string first_;
};

// One table of the file. Each getter leaves `out` as it is when the key is absent, and reports when
// the value does not fit. close() reports keys that nobody asked for.
class Section {
 public:
  Section(const toml::table& table, std::string name, Problems& problems)
      : table_(table), name_(std::move(name)), problems_(problems) {}

  bool has(std::string_view key) {
    know(key);
    return table_.contains(key);
  }

  void require(std::string_view key) {
    if (!has(key)) wrong_here("needs " + in_quotes(key));
  }

  void text(std::string_view key, std::string& out) {
    if (const toml::node* node = find(key)) {
      if (const auto value = node->value_exact<std::string>()) {
        if (value->empty()) return wrong(*node, key, "must not be empty");
        out = *value;
      } else {
        wrong(*node, key, "must be a string");
      }
    }
  }

  // The same, where an empty string means something.
  void text_or_none(std::string_view key, std::map<std::string, std::string, std::less<>>& out) {
    const toml::node* node = find(key);
    if (node == nullptr) return;
    if (const auto value = node->value_exact<std::string>()) {
      out.emplace(key, *value);
    } else {
      wrong(*node, key, "must be a string");
    }
  }

  void flag(std::string_view key, std::optional<bool>& out) {
    if (const toml::node* node = find(key)) {
      out = node->value_exact<bool>();
      if (!out) wrong(*node, key, "must be true or false");
    }
  }

  void texts(std::string_view key, std::vector<std::string>& out, bool one_is_enough = false) {
    const toml::node* node = find(key);
    if (node == nullptr) return;
    const std::string_view form =
        one_is_enough ? "must be a string, or a list of strings" : "must be a list of strings";
    const auto add = [&](const toml::node& item) {
      const auto value = item.value_exact<std::string>();
      if (!value || value->empty()) return wrong(item, key, form);
      out.push_back(*value);
    };
    if (const toml::array* array = node->as_array()) {
      for (const toml::node& item : *array) add(item);
    } else if (one_is_enough) {
      add(*node);
    } else {
      wrong(*node, key, form);
    }
  }

  void duration(std::string_view key, Duration& out, Duration least) {
    if (const toml::node* node = find(key)) {
      const auto written = node->value_exact<std::string>();
      const auto value = written ? parse_duration(*written) : std::nullopt;
      if (!value) return wrong(*node, key, "must be " + std::string(kDurationForm));
      if (*value < least) return wrong(*node, key, "must be at least " + human_duration(least));
      out = *value;
    }
  }

  void size(std::string_view key, std::size_t& out, std::size_t least) {
    if (const toml::node* node = find(key)) {
      const auto written = node->value_exact<std::string>();
      const auto value = written ? parse_size(*written) : std::nullopt;
      if (!value) return wrong(*node, key, "must be " + std::string(kSizeForm));
      if (*value < least) {
        return wrong(*node, key, "must be at least " + std::to_string(least) + "B");
      }
      out = *value;
    }
  }

  template <class Number>
  void number(std::string_view key, Number& out, std::int64_t least, std::int64_t most) {
    if (const toml::node* node = find(key)) {
      const auto value = node->value_exact<std::int64_t>();
      if (!value || *value < least || *value > most) {
        return wrong(
            *node, key,
            "must be a whole number from " + std::to_string(least) + " to " + std::to_string(most));
      }
      out = static_cast<Number>(*value);
    }
  }

  template <class Enum>
  void choice(std::string_view key, Enum& out,
              const std::vector<std::pair<std::string_view, Enum>>& choices) {
    const toml::node* node = find(key);
    if (node == nullptr) return;
    const auto value = node->value_exact<std::string>();
    std::string allowed;
    for (const auto& [name, meaning] : choices) {
      if (value && *value == name) {
        out = meaning;
        return;
      }
      allowed += (allowed.empty() ? "" : ", ") + in_quotes(name);
    }
    wrong(*node, key, "must be one of " + allowed);
  }

  void wrong(std::string_view key, std::string_view what) {
    const toml::node* node = table_.get(key);
    problems_.add(node != nullptr ? node->source() : table_.source(), full(key), what);
  }
  // Where a key stands, as errors say it.
  std::string place(std::string_view key) const {
    const toml::node* node = table_.get(key);
    return problems_.place(node != nullptr ? node->source() : table_.source(), full(key));
  }
  void wrong_here(std::string_view what) { problems_.add(table_.source(), name_, what); }

  // Reads the table of that name, when there is one.
  template <class Read>
  void table(std::string_view key, Read read) {
    const toml::node* node = find(key);
    if (node == nullptr) return;
    if (const toml::table* one = node->as_table()) {
      read(Section(*one, full(key), problems_));
    } else {
      wrong(*node, key, "must be a table [" + full(key) + "]");
    }
  }
  // Reads every key of this table, where any name is one.
  template <class Read>
  void each_key(Read read) {
    for (const auto& [key, node] : table_) read(key.str());
  }

  void close() {
    for (const auto& [key, node] : table_) {
      const std::string_view name = key.str();
      if (std::find(known_.begin(), known_.end(), name) != known_.end()) continue;
      const std::string_view near = nearest_name(name, known_);
      std::string what = "unknown key; ";
      if (!near.empty()) what += "did you mean " + in_quotes(near) + "? ";
      problems_.add(key.source(), full(name), what + "Allowed here: " + join(known_));
    }
  }

 private:
  const toml::node* find(std::string_view key) {
    know(key);
    return table_.get(key);
  }
  void know(std::string_view key) {
    if (std::find(known_.begin(), known_.end(), key) == known_.end()) known_.push_back(key);
  }
  std::string full(std::string_view key) const {
    return name_.empty() ? std::string(key) : name_ + "." + std::string(key);
  }
  void wrong(const toml::node& node, std::string_view key, std::string_view what) {
    problems_.add(node.source(), full(key), what);
  }

  const toml::table& table_;
  std::string name_;
  Problems& problems_;
  std::vector<std::string_view> known_;
};

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
  section.size("payload_max", store.payload_bytes_max, 1);
  section.texts("topics", store.topics);
  section.text("password_env", store.password_env);
  section.text("password_file", password_file);
  section.close();

  if (url.empty()) return;
  store.where = section.place("url");
  if (const auto conninfo = conninfo_of(url)) {
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
  constexpr std::string_view kScheme = "sqlite:";
  if (!url.starts_with(kScheme) || url.size() == kScheme.size()) {
    section.wrong("url",
                  "must be \"sqlite:PATH\", \"postgres:KEY=VALUE ...\" or \"postgres://...\"; "
                  "no other kind of store is built in");
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
                            " is PostgreSQL, and a relay fills the mailbox of a SQLite store only; "
                            "name one of those");
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

TableConfig read_mapped_table(Section section, std::string where) {
  TableConfig table;
  table.where = std::move(where);
  section.text("preset", table.preset);
  section.text("name", table.name);
  for (const std::string_view key : kTableTexts) section.text_or_none(key, table.texts);
  section.flag("delete_when_done", table.delete_when_done);
  for (const std::string_view key : kTableLists) {
    if (section.has(key)) section.texts(key, table.lists[std::string(key)], true);
  }
  section.table("header_columns", [&](Section headers) {
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
  section.table("table", [&](Section mapped) {
    table = read_mapped_table(std::move(mapped), section.place("table"));
  });
  read_relay_options(section, relay);
  section.close();

  if (!relay.name.empty() && !is_plain_name(relay.name)) section.wrong("name", kNameForm);
  check_store_name(section, "from", relay.from, config);
  check_store_name(section, "to", relay.to, config);
  check_schemes(section, relay, config);
  for (const RelayConfig& other : config.relays) {
    if (other.name == relay.name) {
      section.wrong("name",
                    "two relays are called " + in_quotes(relay.name) +
                        "; each needs a name of its own, because it keeps its progress by it");
    }
  }
  if (const auto topic = TopicTemplate::parse(relay.topic); !topic) {
    section.wrong("topic", topic.error().text);
  }
  for (StoreConfig& store : config.stores) {
    if (table && store.name == relay.from) store.tables.emplace(relay.name, std::move(*table));
  }
}

void read_stores(Section& root, const toml::table& table, Config& config, Problems& problems) {
  if (!root.has("store")) {
    root.wrong_here("needs at least one [store.NAME]");
    return;
  }
  const toml::table* stores = table["store"].as_table();
  if (stores == nullptr) return root.wrong("store", "must be tables named [store.NAME]");
  for (const auto& [name, node] : *stores) {
    const toml::table* one = node.as_table();
    const std::string full = "store." + std::string(name.str());
    if (one == nullptr) {
      problems.add(node.source(), full, "must be a table [store.NAME]");
      continue;
    }
    StoreConfig store;
    store.name = name.str();
    Section section(*one, full, problems);
    read_store(section, store, config.file.parent_path());
    config.stores.push_back(std::move(store));
  }
}

void read_relays(Section& root, const toml::table& table, Config& config, Problems& problems) {
  if (!root.has("relay")) return;
  const toml::array* relays = table["relay"].as_array();
  if (relays == nullptr || !relays->is_array_of_tables()) {
    return root.wrong("relay", "must be tables that begin with [[relay]]");
  }
  for (const toml::node& node : *relays) {
    Section section(*node.as_table(), "relay", problems);
    RelayConfig relay;
    read_relay(section, relay, config);
    config.relays.push_back(std::move(relay));
  }
}

void read_retention(Section section, RetentionConfig& retention) {
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

void read_log(Section section, LogConfig& log) {
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
  try {
    const toml::table table = toml::parse(text, file.string());
    Section root(table, "", problems);
    read_stores(root, table, config, problems);
    read_relays(root, table, config, problems);
    root.table("retention",
               [&](Section section) { read_retention(std::move(section), config.retention); });
    root.table("log", [&](Section section) { read_log(std::move(section), config.log); });
    root.close();
  } catch (const toml::parse_error& error) {
    problems.add(error.source(), "", std::string(error.description()) + "; check the TOML syntax");
  }
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
