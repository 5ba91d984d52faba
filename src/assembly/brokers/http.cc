// What the config says of an HTTP endpoint: where events are posted to, or taken at.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <utility>

#include "assembly/brokers/brokers.h"
#include "assembly/brokers/settings.h"
#include "host/host.h"
#include "webhook/examine.h"
#include "webhook/sink.h"
#include "webhook/source.h"

namespace dovetail::assembly {
namespace {

using config::StoreConfig;
using std::chrono::milliseconds;

// A store may be both ends of relays: the settings of either are known to both.
struct Both {
  http::SinkOptions sink;
  http::SourceOptions source;
};

// Secrets of signatures, which are never in the config file.
void read_secrets(BrokerSettings& settings, const StoreConfig& store, std::string& secrets) {
  std::string variable;
  std::string file;
  settings.text("secret_env", variable);
  settings.text("secret_file", file);
  if (!variable.empty() && !file.empty())
    return settings.wrong("secret_file", "there is secret_env too; keep one of them");
  if (!variable.empty()) {
    const char* const value = std::getenv(variable.c_str());
    if (value == nullptr) return settings.missing("secret_env", "that variable is not set");
    secrets = value;
  }
  if (!file.empty()) {
    std::ifstream in(store.broker.folder / file);
    std::string word;
    if (!in) return settings.missing("secret_file", "that file cannot be read");
    while (in >> word) secrets += (secrets.empty() ? "" : " ") + word;
  }
}

Status read_settings(const StoreConfig& store, Both& both) {
  BrokerSettings settings(store.broker);
  read_secrets(settings, store, both.sink.secrets);
  both.source.secrets = both.sink.secrets;
  settings.flag("allow_private", both.sink.allow_private);
  settings.duration("connect_timeout", both.sink.connect_timeout, milliseconds(100));
  settings.duration("request_timeout", both.sink.request_timeout, milliseconds(100));
  settings.duration("retry_after_max", both.sink.retry_after_max, milliseconds(0));
  settings.number("requests_in_flight_max", both.sink.requests_in_flight_max, 1, 1000);
  settings.duration("signature_age_max", both.source.signature_age_max, std::chrono::seconds(1));
  settings.duration("answer_timeout", both.source.answer_timeout, milliseconds(100));
  settings.duration("head_timeout", both.source.head_timeout, milliseconds(100));
  settings.number("connections_per_client", both.source.connections_per_client_max, 1, 100'000);
  settings.duration("receive_timeout", both.source.receive_timeout, milliseconds(100));
  settings.number("waiting_max", both.source.waiting_max, 1, 100'000);
  settings.size("waiting_bytes_max", both.source.waiting_bytes_max, 1 << 20);
  return settings.finish();
}

Result<Both> options_of(const StoreConfig& store) {
  const config::BrokerConfig& broker = store.broker;
  Both both;
  both.sink.url = broker.url;
  both.sink.message = broker.message;
  both.sink.user = broker.user;
  both.sink.password = broker.password;
  both.sink.ca_file = broker.ca_file.string();
  both.sink.cert_file = both.source.cert_file = broker.cert_file.string();
  both.sink.key_file = both.source.key_file = broker.key_file.string();
  if (store.payload_bytes_max > 0)
    both.sink.payload_bytes_max = both.source.payload_bytes_max = store.payload_bytes_max;
  both.source.address = broker.hosts.front().name;
  both.source.port = broker.hosts.front().port;
  if (both.source.port == 0) both.source.port = broker.tls ? 443 : 80;
  both.source.path = "/" + broker.path;
  both.source.foreign = broker.foreign;
  both.source.token = broker.password;
  DOVETAIL_TRY(read_settings(store, both));
  if (const Status checked = http::check(both.sink); !checked)
    return fail(checked.error().code, store.where + ": " + checked.error().text);
  return both;
}

Status check_source(const StoreConfig& store, const http::SourceOptions& options) {
  Status checked = http::check(options);
  if (checked && !store.broker.user.empty())
    checked = fail(Errc::rejected,
                   "an endpoint asks for a bearer token, which is the password; "
                   "leave the user out");
  if (checked && store.broker.tls && options.cert_file.empty())
    checked = fail(Errc::rejected, "an endpoint with https needs cert_file and key_file");
  if (checked) return {};
  return fail(checked.error().code, store.where + ": " + checked.error().text);
}

Status prepare(const StoreConfig& store) {
  const Result<Both> options = options_of(store);
  if (!options) return fail(options.error());
  return {};
}

Result<std::unique_ptr<Sink>> make_sink(const StoreConfig& to, Clock& clock) {
  Result<Both> options = options_of(to);
  if (!options) return fail(options.error());
  return std::make_unique<http::HttpSink>(std::move(options->sink), clock);
}

Result<std::unique_ptr<Source>> make_source(const StoreConfig& from, Duration, Clock& clock) {
  Result<Both> options = options_of(from);
  if (!options) return fail(options.error());
  DOVETAIL_TRY(check_source(from, options->source));
  return std::make_unique<http::HttpSource>(std::move(options->source), clock);
}

void append(std::vector<Finding>& findings, std::vector<Finding> more) {
  std::move(more.begin(), more.end(), std::back_inserter(findings));
}

Result<std::vector<Finding>> examine(const StoreConfig& store, const config::Config& config) {
  const Result<Both> options = options_of(store);
  if (!options) return fail(options.error());
  std::vector<Finding> findings;
  Duration confirm_timeout{0};
  bool is_sink = false;
  bool is_source = false;
  const auto answers_within = [&](Duration timeout) {
    confirm_timeout = is_sink ? std::min(confirm_timeout, timeout) : timeout;
    is_sink = true;
  };
  for (const config::RelayConfig* const relay : config.readers()) {
    is_source = is_source || relay->from == store.name;
    if (relay->to == store.name) answers_within(relay->options.confirm_timeout);
  }
  for (const config::ConsumerConfig& consumer : config.consumers) {
    for (const config::HandlerConfig& handler : consumer.handlers) {
      if (handler.store == store.name) answers_within(consumer.claim);
    }
  }
  if (is_source) {
    DOVETAIL_TRY(check_source(store, options->source));
    auto found = http::examine(options->source);
    if (!found) return fail(found.error());
    append(findings, std::move(*found));
  }
  if (is_sink) {
    auto found = http::examine(options->sink, confirm_timeout, system_clock());
    if (!found) return fail(found.error());
    append(findings, std::move(*found));
  }
  return findings;
}

// An endpoint keeps nothing: what it is not given again is gone.
Result<std::vector<Kept>> retention(const StoreConfig&) { return std::vector<Kept>{}; }

}  // namespace

const BrokerKind kHttp = {prepare, make_sink, make_source, examine, retention};

}  // namespace dovetail::assembly
