// Turns the configuration of an HTTP endpoint, as target or source, into the adapter's options.
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

namespace fs = std::filesystem;
using config::Settings;
using config::StoreConfig;
using std::chrono::milliseconds;

// A store may be target and source of relays, so it accepts the settings of both.
struct Both {
  http::SinkOptions sink;
  http::SourceOptions source;
};

// Where signature secrets are; they are never in the config file.
struct SecretPlace {
  std::string variable;
  std::string file;
};

void declare_secrets(SecretPlace& secret, const fs::path& folder, Settings& keys) {
  keys.text("secret_env", secret.variable,
            "The environment variable that holds the secrets of signatures.");
  keys.file("secret_file", secret.file, folder, "The file that holds them.")
      .check([&secret]() -> std::string {
        return secret.variable.empty() ? "" : "there is secret_env too; keep one of them";
      });
}

void declare(Both& both, Settings& keys) {
  keys.flag("allow_private", both.sink.allow_private,
            "Lets private, loopback and link-local addresses be connected to.");
  keys.duration("connect_timeout", both.sink.connect_timeout, milliseconds(100),
                "How long connecting may take.");
  keys.duration("request_timeout", both.sink.request_timeout, milliseconds(100),
                "How long a request may take. Keep it below the relay's `confirm_timeout`.");
  keys.duration("retry_after_max", both.sink.retry_after_max, milliseconds(0),
                "A longer `Retry-After` is cut to this.");
  keys.number("requests_max", both.sink.requests_in_flight_max, 1, 1000,
              "The most requests at once, and the most connections.");
  keys.renamed("requests_in_flight_max", "requests_max");
  keys.duration("signature_age_max", both.source.signature_age_max, std::chrono::seconds(1),
                "Source: how old a signature may be, or how far in the future.");
  keys.duration("answer_timeout", both.source.answer_timeout, milliseconds(100),
                "Source: a request whose event is not delivered or parked in this time gets 503. "
                "Keep it below the "
                "time that senders wait.");
  keys.duration("head_timeout", both.source.head_timeout, milliseconds(100),
                "Source: how long the head of a request may take to arrive, and the handshake of "
                "TLS.");
  keys.duration("receive_timeout", both.source.receive_timeout, milliseconds(100),
                "Source: how long a body may take to arrive, and a client to take an answer, plus "
                "one second for each 16 KiB that moved. Also how long an idle connection stays "
                "open.");
  keys.number("connections_per_client", both.source.connections_per_client_max, 1, 100'000,
              "Source: the most connections of one address, or of one IPv6 network of 64 bits.")
      .otherwise("three quarters of all");
  keys.number("waiting_max", both.source.waiting_max, 1, 100'000,
              "Source: the most requests that wait for their answer.");
  keys.size("waiting_bytes", both.source.waiting_bytes_max, 1 << 20,
            "Source: the most bytes that these requests hold.");
  keys.renamed("waiting_bytes_max", "waiting_bytes");
}

Result<std::string> read_secrets(const StoreConfig& store, const SecretPlace& secret) {
  const auto missing = [&](std::string_view key, const std::string& what) {
    return fail(Errc::unavailable, place_of(store, key) + ": " + what);
  };
  std::string secrets;
  if (!secret.variable.empty()) {
    const char* const value = std::getenv(secret.variable.c_str());
    if (value == nullptr) return missing("secret_env", "that variable is not set");
    secrets = value;
  }
  if (!secret.file.empty()) {
    std::ifstream in(secret.file);
    std::string word;
    if (!in) return missing("secret_file", "that file cannot be read");
    while (in >> word) secrets += (secrets.empty() ? "" : " ") + word;
  }
  return secrets;
}

Status read_settings_of(const StoreConfig& store, Both& both) {
  SecretPlace secret;
  Settings keys;
  declare_secrets(secret, store.broker.file.parent_path(), keys);
  declare(both, keys);
  DOVETAIL_TRY(read_settings(store, keys));
  auto secrets = read_secrets(store, secret);
  if (!secrets) return fail(secrets.error());
  both.sink.secrets = both.source.secrets = std::move(*secrets);
  return {};
}

std::vector<config::KeyReference> settings() {
  SecretPlace secret;
  Both both;
  Settings keys;
  declare_secrets(secret, "", keys);
  declare(both, keys);
  return keys.describe();
}

Result<Both> options_of(const StoreConfig& store) {
  const config::BrokerConfig& broker = store.broker;
  Both both;
  both.sink.url = broker.url;
  both.sink.message = broker.message;
  both.sink.user = broker.user;
  both.sink.password = broker.password;
  both.sink.ca_file = broker.ca_file;
  both.sink.cert_file = both.source.cert_file = broker.cert_file;
  both.sink.key_file = both.source.key_file = broker.key_file;
  if (store.payload_bytes_max > 0)
    both.sink.payload_bytes_max = both.source.payload_bytes_max = store.payload_bytes_max;
  both.source.address = broker.hosts.front().host;
  both.source.port = broker.hosts.front().port;
  if (both.source.port == 0) both.source.port = broker.tls ? 443 : 80;
  both.source.path = "/" + broker.path;
  both.source.foreign = broker.foreign;
  both.source.token = broker.password;
  DOVETAIL_TRY(read_settings_of(store, both));
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

// An endpoint keeps nothing: only its senders repeat events.
Result<std::vector<Kept>> retention(const StoreConfig&) { return std::vector<Kept>{}; }

}  // namespace

const BrokerKind kHttp = {settings, prepare, make_sink, make_source, examine, retention};

}  // namespace dovetail::assembly
