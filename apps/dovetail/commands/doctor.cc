#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "assembly/database.h"
#include "commands/command_line.h"
#include "commands/commands.h"
#include "commands/output.h"
#include "documents/findings.h"

namespace dovetail::app {

using namespace assembly;
namespace {

std::string text_of(const config::StoreConfig& store, const std::vector<Finding>& findings,
                    std::optional<std::size_t> width) {
  std::string text = "store " + store.name + " (" + printable(store.shown) + "):";
  if (findings.empty()) return text + " no problems found\n";
  text += "\n";
  for (const Finding& one : findings) {
    text += wrapped(
        std::string(to_string(one.severity)) + " " + one.code + ": " + printable(one.what, 1000),
        width, "  ");
    if (!one.what_to_do.empty()) text += wrapped(printable(one.what_to_do, 1000), width, "      ");
  }
  return text;
}

Answer doctor(const CommandContext& context, const std::string& store_name) {
  const auto config = load(context);
  if (!config) return tl::unexpected(config.error());
  if (!store_name.empty() && config->find_store(store_name) == nullptr) {
    return tl::unexpected(choose_store(*config, store_name).error());
  }
  Json stores = Json::array();
  std::string text;
  const auto width = terminal_width();
  Exit exit = Exit::ok;
  for (const config::StoreConfig& store : config->stores) {
    if (!store_name.empty() && store.name != store_name) continue;
    const std::vector<Finding> findings = examine(store, *config);
    for (const Finding& one : findings)
      if (one.severity == Severity::error) exit = Exit::negative;
    stores.push_back(json_of(store, findings));
    text += text_of(store, findings, width);
  }
  if (context.json) {
    print_json({{"ok", exit == Exit::ok}, {"stores", stores}});
  } else {
    print(text);
  }
  return exit;
}

}  // namespace

void add_doctor(Command& app) {
  const auto store = std::make_shared<std::string>();
  Command sub = app.command(
      "doctor", "Check the stores and say what to do about problems",
      "It changes nothing permanently. If a relay reads the WAL, doctor writes a message into the "
      "WAL and\n"
      "reads it back through a temporary slot. Exit 1 if a finding is an error; exit 0 for "
      "warnings and notes.",
      [store](const CommandContext& context) { return doctor(context, *store); });
  sub.option("--store", *store, "Check only this store");
}

}  // namespace dovetail::app
