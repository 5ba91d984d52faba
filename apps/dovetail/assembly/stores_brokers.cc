// What the subcommands get when they ask a broker for what only a database has.
#include <string>
#include <utility>

#include "assembly/broker_findings.h"
#include "assembly/brokers.h"
#include "assembly/stores.h"
#include "commands/inbox_retention.h"
#include "process/secrets.h"

namespace dovetail::app {
namespace {

using config::StoreConfig;

std::string build_option(config::StoreScheme scheme) {
  std::string name(to_string(scheme));
  for (char& c : name) c = static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  return "DOVETAIL_" + name + "=ON";
}

Status prepare(StoreConfig& store) {
  const BrokerKind* kind = broker_of(store);
  if (kind == nullptr) {
    return fail(Errc::rejected, store.where + ": this dovetail was built without " +
                                    std::string(to_string(store.scheme)) + "; build it with " +
                                    build_option(store.scheme));
  }
  auto password = read_password(store);
  if (!password) {
    store.unusable = store.where + ": " + password.error().text;
    return {};
  }
  store.broker.password = std::move(*password);
  const Status prepared = kind->prepare(store);
  if (prepared || prepared.error().code != Errc::unavailable) return prepared;
  store.unusable = prepared.error().text;
  return {};
}

tl::unexpected<Error> no_database() {
  return fail(Errc::rejected,
              "it is a broker, which keeps no outbox and no mailbox; name a store that is a "
              "database, from which a relay carries events there");
}

Result<bool> create(const StoreConfig&, bool) { return false; }
Result<StoreStatus> status(const StoreConfig&) { return StoreStatus{}; }
Result<std::vector<EventRow>> list_events(const StoreConfig&, const EventFilter&) {
  return no_database();
}
Result<std::string> payload_of(const StoreConfig&, const EventId&) { return no_database(); }
Result<std::vector<ParkedRow>> list_parked(const StoreConfig&, const ParkedFilter&) {
  return std::vector<ParkedRow>{};
}
Result<std::vector<AuditRow>> list_audit(const StoreConfig&, const std::string&) {
  return std::vector<AuditRow>{};
}
Result<std::uint64_t> replay(const StoreConfig&, const std::string&, const EventId&) {
  return no_database();
}
Status discard(const StoreConfig&, const std::string&, const EventId&, const std::string&) {
  return no_database();
}
Result<PruneReport> prune(const StoreConfig&, const Retention&) { return PruneReport{}; }
Result<EventId> publish(const StoreConfig&, const NewEvent&, const EventLimits&) {
  return no_database();
}
Result<std::vector<Finding>> examine(const StoreConfig& store, const config::Config& config) {
  std::vector<Finding> findings = examine_config(store, config);
  auto found = broker_of(store)->examine(store, config);
  if (!found && findings.empty()) return found;
  if (!found) {
    findings.push_back({Severity::error, std::string(to_string(found.error().code)),
                        "it cannot be examined", found.error().text});
    return findings;
  }
  for (Finding& one : *found) findings.push_back(std::move(one));
  for (Finding& one : examine_retention(store, config)) findings.push_back(std::move(one));
  return findings;
}

}  // namespace

const StoreKind kBrokerStores = {.has_mailbox = false,
                                 .has_roles = false,
                                 .needs_maintenance = false,
                                 .prepare = prepare,
                                 .create = create,
                                 .status = status,
                                 .list_events = list_events,
                                 .payload_of = payload_of,
                                 .list_parked = list_parked,
                                 .list_audit = list_audit,
                                 .replay = replay,
                                 .discard = discard,
                                 .prune = prune,
                                 .publish = publish,
                                 .examine = examine,
                                 .make_lane = nullptr,
                                 .make_origin_store = nullptr,
                                 .retarget = nullptr};

}  // namespace dovetail::app
