#include "assembly/brokers/findings.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "assembly/brokers/settings.h"
#include "host/stream.h"

namespace dovetail::assembly {
namespace {

using config::StoreConfig;
using config::StoreScheme;

// `url`: up to the end of its host.
bool is_plain_and_far(std::string_view url) {
  constexpr std::string_view kPlain = "http://";
  if (!url.starts_with(kPlain)) return false;
  url.remove_prefix(kPlain.size());
  url = url.substr(0, url.find('/'));
  return !net::is_loopback(url.substr(0, url.rfind(':')));
}

void look_at_password(const StoreConfig& store, std::vector<Finding>& findings) {
  const config::BrokerConfig& broker = store.broker;
  // HTTP endpoints have several kinds of secrets and check them themselves.
  if (broker.password.empty() || store.scheme == StoreScheme::http) return;
  const auto add = [&](const std::string& where, const std::string& what_to_do) {
    findings.push_back({Severity::warning, "password-in-clear",
                        "the password travels readable to " + where, what_to_do});
  };
  const bool is_hidden =
      store.scheme == StoreScheme::kafka && text_of(store, "sasl_mechanism").starts_with("SCRAM");
  const auto far = std::find_if(broker.hosts.begin(), broker.hosts.end(),
                                [](const auto& host) { return !net::is_loopback(host.name); });
  if (!broker.tls && !is_hidden && far != broker.hosts.end())
    add(far->name, "let the url begin with " +
                       std::string(url_scheme_of(store.scheme, true).prefix) +
                       ", with ca_file where the certificate is not of a public authority");
  if (is_plain_and_far(text_of(store, "management_url")))
    add("the management API", "let management_url begin with https://");
}

void look_at_limit(const StoreConfig& store, const config::Config& config,
                   std::vector<Finding>& findings) {
  const std::size_t wanted = payload_bytes_max_for(store, config);
  if (store.payload_bytes_max == 0 || wanted <= store.payload_bytes_max) return;
  findings.push_back({Severity::warning, "payload-limit",
                      "an outbox accepts payloads of " + std::to_string(wanted) +
                          " bytes, and at most " + std::to_string(store.payload_bytes_max) +
                          " are sent here: larger events are parked",
                      "raise payload_max of this store, or lower that of the outbox"});
}

}  // namespace

std::size_t payload_bytes_max_for(const StoreConfig& broker, const config::Config& config) {
  std::size_t largest = 0;
  for (const config::RelayConfig* const relay : config.readers()) {
    const StoreConfig* const from = config.find_store(relay->from);
    // A mapped table has its own limits, which are unknown.
    if (relay->to != broker.name || from == nullptr || from->tables.contains(relay->name)) continue;
    largest = std::max(largest, from->payload_bytes_max);
  }
  return largest;
}

std::vector<Finding> examine_config(const StoreConfig& broker, const config::Config& config) {
  std::vector<Finding> findings;
  look_at_password(broker, findings);
  look_at_limit(broker, config, findings);
  return findings;
}

}  // namespace dovetail::assembly
