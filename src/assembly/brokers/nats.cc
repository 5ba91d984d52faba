// Turns the configuration of NATS servers into the adapter's options.
#include <algorithm>
#include <chrono>
#include <utility>

#include "assembly/brokers/brokers.h"
#include "assembly/brokers/findings.h"
#include "assembly/brokers/settings.h"
#include "nats/examine.h"
#include "nats/sink.h"
#include "nats/source.h"

namespace dovetail::assembly {
namespace {

using config::Settings;
using config::StoreConfig;
using std::chrono::milliseconds;
using std::chrono::seconds;

struct NatsOptions {
  nats::SinkOptions sink;
  nats::SourceOptions source;
  bool password_is_token = false;
};

nats::ConnectionOptions connection_of(const config::BrokerConfig& broker) {
  nats::ConnectionOptions connection;
  for (const net::Endpoint& host : broker.hosts)
    connection.servers.push_back({host.host, host.port == 0 ? std::uint16_t{4222} : host.port});
  static_cast<net::Access&>(connection) = broker;
  return connection;
}

void declare_source(NatsOptions& options, Settings& keys) {
  nats::SourceOptions& source = options.source;
  keys.flag("declare", source.declare,
            "A source makes the stream, of the subjects in `read`, when it is missing.");
  keys.flag("from_end", source.from_end,
            "A consumer that is made now begins at the end of the stream, not at the beginning.");
  keys.renamed("only_new", "from_end");
  keys.duration(
      "redeliver_after", source.ack_wait, seconds(1),
      "A message that is not acknowledged in this time comes again. Make it longer than the "
      "slowest handler. A consumer that exists keeps its own.");
  keys.renamed("ack_wait", "redeliver_after");
  keys.number("ack_pending_max", source.ack_pending_max, 1, 1'000'000,
              "The most messages that are delivered and not acknowledged, by all who read with "
              "this consumer.");
  keys.number("prefetch", source.prefetch_events, 1, 100'000,
              "The most messages that are read ahead.");
  keys.renamed("prefetch_events", "prefetch");
  keys.size("prefetch_bytes", source.prefetch_bytes, 1,
            "The same in bytes; at least one message of the largest size.");
}

void declare(NatsOptions& options, Settings& keys) {
  nats::ConnectionOptions& connection = options.sink.connection;
  nats::SinkOptions& sink = options.sink;
  keys.flag("jetstream", sink.jetstream,
            "`false`: core NATS, which keeps nothing for a receiver that is not there.");
  keys.text("stream", sink.expected_stream,
            "A sink refuses another stream that takes the subject. A source reads this stream.")
      .otherwise("any");
  keys.text("domain", sink.domain, "The domain of JetStream.").otherwise("that of the server");
  keys.flag("key_in_subject", sink.key_in_subject, "The key is the last token of the subject.");
  keys.text("key_header", sink.key_header,
            "The header that carries the key, where the format does not carry it.");
  declare_source(options, keys);
  keys.flag("token", options.password_is_token, "The password is a token, and there is no user.");
  keys.text("inbox_prefix", connection.inbox_prefix,
            "The subjects of answers, for users who may not subscribe to `_INBOX.>`.");
  declare_server_name(connection.server_name, connection.tls, keys);
  keys.duration("connect_timeout", connection.connect_timeout, milliseconds(100),
                "How long connecting may take.");
  keys.duration("request_timeout", connection.request_timeout, milliseconds(100),
                "How long JetStream may take to answer.");
}

Result<NatsOptions> options_of(const StoreConfig& store) {
  const config::BrokerConfig& broker = store.broker;
  NatsOptions options;
  nats::SinkOptions& sink = options.sink;
  nats::SourceOptions& source = options.source;
  nats::ConnectionOptions& connection = sink.connection;
  connection = connection_of(broker);
  Settings keys;
  declare(options, keys);
  DOVETAIL_TRY(read_settings(store, keys));
  // A token is a password without a user.
  if (options.password_is_token) connection.token = std::exchange(connection.password, {});
  source.connection = connection;
  sink.message = broker.message;
  source.foreign = broker.foreign;
  source.stream = sink.expected_stream;
  source.subjects = broker.read;
  source.domain = sink.domain;
  source.key_in_subject = sink.key_in_subject;
  source.key_header = sink.key_header;
  if (!broker.group.empty()) source.durable = broker.group;
  return options;
}

std::vector<config::KeyReference> settings() {
  NatsOptions options;
  Settings keys;
  declare(options, keys);
  return keys.describe();
}

Status prepare(const StoreConfig& store) {
  const Result<NatsOptions> options = options_of(store);
  if (!options) return fail(options.error());
  return {};
}

Result<std::unique_ptr<Sink>> make_sink(const StoreConfig& to, Clock& clock) {
  Result<NatsOptions> options = options_of(to);
  if (!options) return fail(options.error());
  return std::make_unique<nats::NatsSink>(std::move(options->sink), clock);
}

std::string_view caution(const StoreConfig& to) {
  const Result<NatsOptions> options = options_of(to);
  if (!options || options->sink.jetstream) return {};
  return "core NATS is fire-and-forget: who does not listen when an event is sent never gets it";
}

Result<std::unique_ptr<Source>> make_source(const StoreConfig& from, Duration call_max,
                                            Clock& clock) {
  Result<NatsOptions> options = options_of(from);
  if (!options) return fail(options.error());
  if (!options->sink.jetstream)
    return fail(Errc::rejected, from.where +
                                    ": core NATS keeps nothing that could be read later; set "
                                    "jetstream = true in its settings");
  Duration& request_timeout = options->source.connection.request_timeout;
  request_timeout = std::min(request_timeout, call_max);
  return std::make_unique<nats::NatsSource>(std::move(options->source), clock);
}

// A topic template as a subject with wildcards: "{aggregate_type}.events" becomes "*.events".
std::string pattern_of(std::string_view topic) {
  std::string pattern;
  std::string token;
  bool has_field = false;
  const auto end_token = [&] {
    pattern += (pattern.empty() ? "" : ".") + (has_field ? std::string("*") : token);
    token.clear();
    has_field = false;
  };
  bool inside = false;
  for (const char c : topic) {
    if (c == '{') inside = has_field = true;
    if (c == '.' && !inside)
      end_token();
    else
      token += c;
    if (c == '}') inside = false;
  }
  end_token();
  return pattern;
}

Result<std::vector<Finding>> examine(const StoreConfig& store, const config::Config& config) {
  const Result<NatsOptions> options = options_of(store);
  if (!options) return fail(options.error());
  nats::Examined what;
  what.connection = options->sink.connection;
  what.domain = options->sink.domain;
  what.jetstream = options->sink.jetstream;
  what.stream = options->sink.expected_stream;
  what.inbox_retention = config.retention.inbox;
  what.payload_bytes_max = payload_bytes_max_for(store, config);
  for (const config::RelayConfig* const reader : config.readers()) {
    const config::RelayConfig& relay = *reader;
    if (relay.to == store.name) {
      std::string subject = pattern_of(relay.topic);
      if (options->sink.key_in_subject) subject += ".*";
      what.subjects.push_back(std::move(subject));
    }
    if (relay.from == store.name) {
      what.durable = options->source.durable;
      what.subjects.insert(what.subjects.end(), store.broker.read.begin(), store.broker.read.end());
    }
  }
  return nats::examine(what);
}

Result<std::vector<Kept>> retention(const StoreConfig& store) {
  const Result<NatsOptions> options = options_of(store);
  if (!options) return fail(options.error());
  nats::Examined what;
  what.connection = options->sink.connection;
  what.domain = options->sink.domain;
  what.jetstream = options->sink.jetstream;
  what.stream = options->source.stream;
  what.subjects = options->source.subjects;
  return nats::retention(what);
}

}  // namespace

const BrokerKind kNats = {settings, prepare, make_sink, make_source, examine, retention, caution};

}  // namespace dovetail::assembly
