#include "documents/findings.h"

#include <nlohmann/json.hpp>

#include "assembly/consumer_lane.h"
#include "assembly/database.h"
#include "commands/command.h"
#include "host/host.h"

namespace dovetail::app {

using namespace assembly;

namespace {

// The text of an error ends with what to do.
Finding failed(std::string code, const std::string& what, const std::string& text) {
  const std::size_t end = text.rfind("; ");
  return {Severity::error, std::move(code), what + ": " + text.substr(0, end),
          end == std::string::npos ? "" : text.substr(end + 2)};
}

// The handlers of a consumer are checked together with the store of its inbox.
void add_handlers(const config::Config& config, const config::ConsumerConfig& consumer,
                  std::vector<Finding>& findings) {
  const Status usable = check_handlers(config, consumer, system_clock());
  if (usable) return;
  findings.push_back(failed("handler",
                            "the consumer " + consumer.relay.name + " cannot handle events",
                            usable.error().text));
}

}  // namespace

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
  return {failed(std::string(to_string(failure.exit)), "cannot check the store",
                 findings.error().text)};
}

Json json_of(const config::StoreConfig& store, const std::vector<Finding>& findings) {
  Json list = Json::array();
  for (const Finding& one : findings)
    list.push_back({{"severity", to_string(one.severity)},
                    {"code", one.code},
                    {"what", one.what},
                    {"what_to_do", one.what_to_do}});
  return {{"name", store.name}, {"path", store.shown}, {"findings", list}};
}

}  // namespace dovetail::app
