#include "config/config.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <limits>
#include <sstream>
#include <utility>

#include "config/brokers.h"
#include "config/consumer.h"
#include "config/gateway.h"
#include "config/relay.h"
#include "config/section.h"

namespace dovetail::config {
namespace {

namespace fs = std::filesystem;

// What libpq takes, out of "postgres:KEY=VALUE ..." or "postgres://..." or "postgresql://...".
std::optional<std::string> conninfo_of(const std::string& url) {
  if (url.starts_with("postgres://") || url.starts_with("postgresql://")) return url;
  for (const std::string_view scheme : {"postgres:", "postgresql:"}) {
    if (url.starts_with(scheme)) return url.substr(scheme.size());
  }
  return std::nullopt;
}

void read_postgres(Section& section, StoreConfig& store, const std::string& password_file,
                   const std::string& replication_url, const fs::path& folder) {
  store.scheme = StoreScheme::postgres;
  if (!password_file.empty()) store.password_file = (folder / password_file).lexically_normal();
  if (!password_file.empty() && !store.password_env.empty()) {
    section.wrong("password_file", "there is password_env too; keep one of them");
  }
  if (section.has("topics")) {
    section.wrong("topics",
                  "a PostgreSQL store has no mailbox that could refuse topics; remove it");
  }
  if (replication_url.empty()) return;
  const auto conninfo = conninfo_of(replication_url);
  // What was written may hold a secret by mistake, and is not repeated.
  if (!conninfo) {
    return section.wrong("replication_url",
                         "must be \"postgres:KEY=VALUE ...\" or \"postgres://...\", and lead to "
                         "the same database as url, past any pooler");
  }
  store.replication_conninfo = *conninfo;
  store.replication_where = section.place("replication_url");
}

void read_store(Section& section, StoreConfig& store, const fs::path& folder) {
  if (!is_plain_name(store.name)) section.wrong_here(kNameForm);
  std::string url;
  std::string password_file;
  std::string replication_url;
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
        "that of a broker: " +
            broker_prefixes());
  }
  section.size("payload_max", store.payload_bytes_max, 1);
  section.texts("topics", store.topics);
  section.text("password_env", store.password_env);
  section.text("password_file", password_file);
  section.text("replication_url", replication_url);
  section.close();

  if (url.empty()) return;
  store.where = section.place("url");
  if (conninfo) {
    store.conninfo = *conninfo;
    return read_postgres(section, store, password_file, replication_url, folder);
  }
  for (const std::string_view key : {"password_env", "password_file"}) {
    if (section.has(key)) section.wrong(key, "a SQLite store has no password; remove it");
  }
  if (section.has("replication_url")) {
    section.wrong("replication_url", "a SQLite store has no replication; remove it");
  }
  store.path = (folder / url.substr(kScheme.size())).lexically_normal();
  store.shown = store.path.string();
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

const ConsumerConfig* Config::find_consumer(std::string_view name) const {
  const std::string_view wanted = name.substr(0, name.find('.'));
  const auto found =
      std::find_if(consumers.begin(), consumers.end(),
                   [wanted](const ConsumerConfig& one) { return one.relay.name == wanted; });
  return found == consumers.end() ? nullptr : &*found;
}

std::vector<const RelayConfig*> Config::readers() const {
  std::vector<const RelayConfig*> all;
  for (const RelayConfig& relay : relays) all.push_back(&relay);
  for (const ConsumerConfig& consumer : consumers) all.push_back(&consumer.relay);
  return all;
}

Result<Config> parse_config(std::string_view text, const fs::path& file) {
  Config config;
  config.file = file;
  Problems problems(file);
  Section::read_document(text, file.string(), problems, [&config](Section& root) {
    read_stores(root, config);
    read_relays(root, config);
    read_consumers(root, config);
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

}  // namespace dovetail::config
