#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "assembly/brokers/brokers.h"
#include "assembly/consumer_lane.h"
#include "assembly/database.h"
#include "commands/command_line.h"
#include "commands/commands.h"
#include "commands/output.h"
#include "config/reference.h"
#include "host/host.h"

namespace dovetail::app {
namespace {

using config::KeyReference;
using config::TableReference;
using config::Value;

constexpr std::size_t kWidthMax = 100;

Json json_of(const Value& value) {
  if (const auto* flag = value.as<bool>()) return *flag;
  if (const auto* number = value.as<std::int64_t>()) return *number;
  if (const auto* text = value.as<std::string>()) return *text;
  Json list = Json::array();
  for (const Value& item : *value.as<Value::List>()) list.push_back(json_of(item));
  return list;
}

Json json_of(const KeyReference& key) {
  Json json{{"key", key.key}, {"type", key.type}, {"required", key.is_required}};
  if (!key.allowed.empty()) json["allowed"] = key.allowed;
  if (!key.choices.empty()) json["choices"] = key.choices;
  if (key.initial) json["default"] = json_of(*key.initial);
  if (!key.otherwise.empty()) json["otherwise"] = key.otherwise;
  if (!key.only_for.empty()) json["only_for"] = key.only_for;
  json["help"] = key.help;
  if (!key.page.empty()) json["page"] = "docs/" + key.page;
  return json;
}

Json json_of(const std::vector<TableReference>& tables) {
  Json list = Json::array();
  for (const TableReference& table : tables) {
    Json keys = Json::array();
    for (const KeyReference& key : table.keys) keys.push_back(json_of(key));
    list.push_back({{"table", table.name},
                    {"title", table.title},
                    {"about", table.about},
                    {"keys", std::move(keys)}});
  }
  return {{"tables", std::move(list)}};
}

// The settings of brokers follow the keys that all brokers have.
std::vector<TableReference> all_references() {
  std::vector<TableReference> tables;
  for (TableReference& table : config::table_references()) {
    const bool is_broker = table.name == "broker";
    tables.push_back(std::move(table));
    if (!is_broker) continue;
    for (TableReference& settings : assembly::settings_references())
      tables.push_back(std::move(settings));
  }
  return tables;
}

struct ConfigOptions {
  std::string table{};
};

Answer config_reference(const CommandContext& context, const ConfigOptions& options) {
  const std::vector<TableReference> all = all_references();
  std::vector<TableReference> tables = all;
  if (!options.table.empty()) {
    std::string names;
    for (const TableReference& one : all) names += (names.empty() ? "" : ", ") + one.name;
    std::erase_if(tables, [&](const auto& one) { return one.name != options.table; });
    if (tables.empty())
      return refuse(Exit::usage, "there is no table \"" + printable(options.table, 60) +
                                     "\" in the config file; there are: " + names);
  }
  if (context.json) {
    print_json(json_of(tables));
  } else if (options.table.empty()) {
    print(config::to_markdown(tables));
  } else {
    const std::size_t width = std::min(terminal_width().value_or(kWidthMax), kWidthMax);
    print(config::to_text(tables.front(), width));
  }
  return Exit::ok;
}

struct CheckOptions {
  bool connect = false;
};

// What is wrong with a store; empty: nothing. It reads the store's secrets, and with `connect`
// reaches it.
std::optional<Failure> check_store(const config::StoreConfig& store, const config::Config& config,
                                   bool connect) {
  if (const auto checked = check_secrets(store); !checked) return checked.error();
  if (!connect) return std::nullopt;
  const auto database = assembly::database_of(store);
  if (store.is_broker()) {
    const auto reached = database->examine(config);
    if (!reached) return refuse_in(store, reached.error()).value();
    return std::nullopt;
  }
  const auto reached = database->status();
  if (!reached) return refuse_in(store, reached.error()).value();
  return std::nullopt;
}

Answer config_check(const CommandContext& context, const CheckOptions& options) {
  const auto config = load(context);
  if (!config) return tl::unexpected(config.error());
  Exit worst = Exit::ok;
  Json problems = Json::array();
  std::string text;
  const auto add = [&](const std::string& where, const Failure& failure) {
    worst = std::max(worst, failure.exit);
    problems.push_back(
        {{"where", where}, {"code", to_string(failure.exit)}, {"text", failure.text}});
    text += "! " + failure.text + "\n";
  };
  for (const config::StoreConfig& store : config->stores)
    if (const auto failure = check_store(store, *config, options.connect))
      add("store " + store.name, *failure);
  for (const config::ConsumerConfig& consumer : config->consumers) {
    if (!options.connect || !problems.empty()) break;
    const Status usable = assembly::check_handlers(*config, consumer, system_clock());
    if (!usable) add("consumer " + consumer.relay.name, refuse(usable.error()).value());
  }
  if (context.json) {
    print_json({{"file", config->file.string()},
                {"stores", config->stores.size()},
                {"relays", config->relays.size()},
                {"consumers", config->consumers.size()},
                {"connected", options.connect},
                {"problems", problems}});
    return worst;
  }
  if (!text.empty()) {
    print(text);
    return worst;
  }
  const auto counted = [](std::size_t count, const char* noun) {
    return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
  };
  print(wrapped(
      config->file.string() + " is well: " + counted(config->stores.size(), "store") + ", " +
          counted(config->relays.size(), "relay") + ", " +
          counted(config->consumers.size(), "consumer") +
          (options.connect ? "; every store answers" : "; no store was asked: see --connect"),
      terminal_width()));
  return worst;
}

}  // namespace

void add_config(Command& app) {
  const auto options = std::make_shared<ConfigOptions>();
  Command command = app.command(
      "config", "Explain every key of the config file",
      "It reads no config file. Without a table it prints docs/CONFIG.md; with --json it tells an "
      "editor\n"
      "every key with its type, its range and its default.\n\n"
      "  dovetail config relay          the keys of [[relay]]\n"
      "  dovetail config handler        the keys of [[consumer.handler]]\n"
      "  dovetail config --json         all tables\n"
      "  dovetail config check          whether dovetail.toml is well");
  command.otherwise(
      [options](const CommandContext& context) { return config_reference(context, *options); });
  command.option("table", options->table, "One table only, such as relay or gateway");
  const auto checked = std::make_shared<CheckOptions>();
  Command check = command.command(
      "check", "Check the config file, and the secrets that it names",
      "It names the first thing that is wrong in the file, and every secret that is missing. With "
      "--connect it\n"
      "also reaches every store, and checks the handlers of consumers. It changes nothing.",
      [checked](const CommandContext& context) { return config_check(context, *checked); });
  check.flag("--connect", checked->connect, "Also reach every store");
}

}  // namespace dovetail::app
