// The answers of a broker to subcommands that need a database.
#include <algorithm>
#include <string>
#include <utility>

#include "assembly/brokers/brokers.h"
#include "assembly/brokers/findings.h"
#include "assembly/brokers/settings.h"
#include "assembly/database.h"
#include "assembly/inbox_retention.h"
#include "assembly/secrets.h"
#include "core/event/sha256.h"

namespace dovetail::assembly {

using config::StoreConfig;
using config::StoreScheme;

namespace {

class BrokerStore final : public Database {
 public:
  using Database::Database;
  Result<std::vector<Finding>> examine(const config::Config& config) override;
  std::string place(const StoreConfig& home) const override;
};

// Sorted, because the order in the url does not matter.
std::string hosts_of(const StoreConfig& store) {
  const std::uint16_t usual_port = url_scheme_of(store.scheme, store.broker.tls).port;
  std::vector<std::string> hosts;
  for (const net::Endpoint& host : store.broker.hosts) {
    const std::uint16_t port = host.port == 0 ? usual_port : host.port;
    hosts.push_back(host.host + ":" + std::to_string(port));
  }
  std::sort(hosts.begin(), hosts.end());
  std::string text;
  for (const std::string& host : hosts) text += (text.empty() ? "" : ",") + host;
  return text;
}

// An endpoint's path may be its secret, so only its digest is kept.
std::string digest_of(const std::string& path) {
  return path.empty() ? "" : " path " + to_hex(Sha256().add(path).finish()).substr(0, 12);
}

std::string BrokerStore::place(const StoreConfig&) const {
  std::string text(to_string(store_.scheme));
  text += " " + hosts_of(store_);
  const std::string path = store_.broker.path.empty()
                               ? std::string(url_scheme_of(store_.scheme, store_.broker.tls).path)
                               : store_.broker.path;
  if (store_.scheme == StoreScheme::http) return text + digest_of(path);
  if (!path.empty()) text += "/" + path;
  if (const std::string exchange = text_of(store_, "exchange"); !exchange.empty())
    text += " exchange " + exchange;
  if (const std::string prefix = text_of(store_, "topic_prefix"); !prefix.empty())
    text += " topics " + prefix + "*";
  return text;
}

Result<std::vector<Finding>> BrokerStore::examine(const config::Config& config) {
  std::vector<Finding> findings = examine_config(store_, config);
  auto found = broker_of(store_)->examine(store_, config);
  if (!found && findings.empty()) return found;
  if (!found) {
    findings.push_back({Severity::error, std::string(to_string(found.error().code)),
                        "it cannot be examined", found.error().text});
    return findings;
  }
  for (Finding& one : *found) findings.push_back(std::move(one));
  for (Finding& one : examine_retention(store_, config)) findings.push_back(std::move(one));
  return findings;
}

}  // namespace

Status prepare_broker(StoreConfig& store) {
  const BrokerKind* kind = broker_of(store);
  if (kind == nullptr) return fail(built_without(store));
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

std::unique_ptr<Database> open_broker(const StoreConfig& store) {
  return std::make_unique<BrokerStore>(store);
}

}  // namespace dovetail::assembly
