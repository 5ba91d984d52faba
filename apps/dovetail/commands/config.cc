#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "assembly/brokers/brokers.h"
#include "commands/command_line.h"
#include "commands/commands.h"
#include "commands/output.h"
#include "config/reference.h"

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
      "  dovetail config --json         all tables",
      [options](const CommandContext& context) { return config_reference(context, *options); });
  command.option("table", options->table, "One table only, such as relay or gateway");
}

}  // namespace dovetail::app
