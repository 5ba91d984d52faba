#include "assembly/brokers/findings.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "assembly/brokers/settings.h"
#include "core/findings.h"
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

constexpr Check kPassword{Severity::warning, "password-in-clear", nullptr,
                          "the password travels readable to {host}",
                          "let the url begin with {scheme}, with ca_file where the certificate is "
                          "not of a public authority"};
constexpr Check kManagement{Severity::warning, "password-in-clear", nullptr,
                            "the password travels readable to the management API",
                            "let management_url begin with https://"};
constexpr Check kLimit{
    Severity::warning, "payload-limit",
    [](const Facts& f) {
      return f.number("allowed") > 0 && f.number("wanted") > f.number("allowed");
    },
    "an outbox accepts payloads of {wanted} bytes, and at most {allowed} are sent here: larger "
    "events are parked",
    "raise payload_max of this store, or lower that of the outbox"};

void look_at_password(const StoreConfig& store, Findings& findings) {
  const config::BrokerConfig& broker = store.broker;
  // HTTP endpoints have several kinds of secrets and check them themselves.
  if (broker.password.empty() || store.scheme == StoreScheme::http) return;
  const bool is_hidden =
      store.scheme == StoreScheme::kafka && text_of(store, "sasl_mechanism").starts_with("SCRAM");
  const auto far = std::find_if(broker.hosts.begin(), broker.hosts.end(),
                                [](const auto& host) { return !net::is_loopback(host.host); });
  if (!broker.tls && !is_hidden && far != broker.hosts.end())
    findings.add(
        kPassword,
        Facts().set("host", far->host).set("scheme", url_scheme_of(store.scheme, true).prefix));
  if (is_plain_and_far(text_of(store, "management_url"))) findings.add(kManagement, {});
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
  Findings findings;
  look_at_password(broker, findings);
  findings.check({&kLimit, 1}, Facts()
                                   .set("wanted", payload_bytes_max_for(broker, config))
                                   .set("allowed", broker.payload_bytes_max));
  return findings.take();
}

}  // namespace dovetail::assembly
