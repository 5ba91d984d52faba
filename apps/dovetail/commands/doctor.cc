#include <nlohmann/json.hpp>
#include <string>

#include "assembly/consumer_lane.h"
#include "assembly/database.h"
#include "commands/command_line.h"
#include "commands/commands.h"
#include "commands/output.h"
#include "host/host.h"

namespace dovetail::app {

using namespace assembly;
namespace {

// The handlers of a consumer are checked together with the store of its inbox.
void add_handlers(const config::Config& config, const config::ConsumerConfig& consumer,
                  std::vector<Finding>& findings) {
  const Status usable = check_handlers(config, consumer, system_clock());
  if (usable) return;
  findings.push_back({Severity::error, "handler",
                      "the consumer " + consumer.relay.name + " cannot handle events",
                      usable.error().text});
}

// A store that does not answer is a finding, too.
std::vector<Finding> examine(const config::StoreConfig& store, const config::Config& config) {
  if (!store.unusable.empty()) {
    return {
        {Severity::error, "secret", "cannot check the store: a secret is missing", store.unusable}};
  }
  auto findings = database_of(store)->examine(config);
  if (findings) {
    for (const config::ConsumerConfig& consumer : config.consumers) {
      if (consumer.relay.to == store.name) add_handlers(config, consumer, *findings);
    }
    return std::move(*findings);
  }
  const Failure failure = refuse_in(store, findings.error()).value();
  return {{Severity::error, std::string(to_string(failure.exit)), "cannot check the store",
           findings.error().text}};
}

std::string text_of(const config::StoreConfig& store, const std::vector<Finding>& findings) {
  std::string text = "store " + store.name + " (" + printable(store.shown) + "):";
  if (findings.empty()) return text + " no problems found\n";
  text += "\n";
  for (const Finding& one : findings) {
    text += "  " + std::string(to_string(one.severity)) + " " + one.code + ": " +
            printable(one.what, 1000) + "\n      " + printable(one.what_to_do, 1000) + "\n";
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
  Exit exit = Exit::ok;
  for (const config::StoreConfig& store : config->stores) {
    if (!store_name.empty() && store.name != store_name) continue;
    const std::vector<Finding> findings = examine(store, *config);
    Json list = Json::array();
    for (const Finding& one : findings) {
      if (one.severity == Severity::error) exit = Exit::negative;
      list.push_back({{"severity", to_string(one.severity)},
                      {"code", one.code},
                      {"what", one.what},
                      {"what_to_do", one.what_to_do}});
    }
    stores.push_back({{"name", store.name}, {"path", store.shown}, {"findings", list}});
    text += text_of(store, findings);
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
