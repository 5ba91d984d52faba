#include "config/config.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <optional>
#include <sstream>
#include <utility>

#include "config/consumer.h"
#include "config/gateway.h"
#include "config/http.h"
#include "config/keys/section.h"
#include "config/keys/toml.h"
#include "config/keys/variables.h"
#include "config/relay.h"
#include "config/stores.h"
#include "config/tables.h"

namespace dovetail::config {
namespace {

namespace fs = std::filesystem;

void declare_file(Settings& keys) {
  keys.table("store", "Databases and brokers.");
  keys.tables("relay", "Relays.");
  keys.tables("consumer", "Consumers.");
  keys.table("gateway", "The gateway.");
  keys.table("http", "The HTTP listener of the daemon.");
  keys.table("alerts", "What is worth an alert, and who gets it.");
  keys.table("retention", "What is deleted, and when.");
  keys.table("log", "The log.");
}

void read_alerts(Section& section, Config& config) {
  Settings keys;
  declare_alerts(config.alerts, keys);
  section.read(keys);
  if (config.alerts.to.empty()) return;
  check_store_name(section, "to", config.alerts.to, config);
  const StoreConfig* const store = config.find_store(config.alerts.to);
  if (store != nullptr && store->scheme != StoreScheme::http)
    section.wrong("to", "the store " + in_quotes(config.alerts.to) + " is " +
                            std::string(to_string(store->scheme)) +
                            "; alerts need one with an http or https url");
}

void read_file(Section& root, Config& config) {
  read_stores(root, config);
  read_relays(root, config);
  read_consumers(root, config);
  root.table("gateway", [&config](Section& section) { read_gateway(section, config); });
  root.table("http", [&config](Section& section) { read_http(section, config); });
  root.table("alerts", [&config](Section& section) { read_alerts(section, config); });
  Settings retention;
  declare_retention(config.retention, retention);
  root.table("retention", [&](Section& section) { section.read(retention); });
  Settings log;
  declare_log(config.log, log);
  root.table("log", [&](Section& section) { section.read(log); });
  Settings tables;
  declare_file(tables);
  root.read(tables);
}

}  // namespace

void declare_retention(RetentionConfig& retention, Settings& keys) {
  keys.duration("delivered", retention.delivered, std::chrono::seconds(1),
                "Events that every relay has delivered or parked are deleted after this time.")
      .otherwise("for ever");
  keys.renamed("sent", "delivered");
  keys.duration("inbox", retention.inbox, std::chrono::seconds(1),
                "How long ids are remembered. Must exceed the time in which any event can come "
                "again.")
      .otherwise("for ever");
  keys.duration("every", retention.every, std::chrono::seconds(1),
                "How often the daemon prunes. Also how often a gateway deletes expired requests "
                "and logs its counts.");
}

void declare_alerts(AlertsConfig& alerts, Settings& keys) {
  keys.text("to", alerts.to,
            "A store with an `http` or `https` url: the daemon posts there what is wrong, and when "
            "it is over. Settings of the store sign the posts.");
  keys.duration("away_max", alerts.away_max, std::chrono::seconds(1),
                "For how long a broker or a database may be away before `/readyz` answers 503 and "
                "the alert is posted.");
  keys.duration("lag_max", alerts.lag_max, std::chrono::seconds(1),
                "The oldest event of a relay that delivers may be this old.");
}

void declare_log(LogConfig& log, Settings& keys) {
  keys.choice<LogFormat>("format", log.format,
                         {{"text", LogFormat::text}, {"json", LogFormat::json}},
                         "`json`: one object for each line.");
  keys.choice<LogLevel>("level", log.level,
                        {{"debug", LogLevel::debug},
                         {"info", LogLevel::info},
                         {"warn", LogLevel::warn},
                         {"error", LogLevel::error}},
                        "The least important lines that are logged.");
}

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
  Problems problems(file.string());
  TomlError error;
  if (std::optional<Value> table = read_toml(text, file.string(), error)) {
    replace_variables(*table, "", config.variables, problems);
    Section root(*table, "", problems);
    if (!problems.any()) read_file(root, config);
  } else {
    problems.add(error.place, "", error.text + "; check the TOML syntax");
  }
  if (problems.any())
    return fail(Errc::rejected, without_values(problems.first(), config.variables));
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
                                       "); \"dovetail init\" writes one, --config selects another");
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
