// Turns the configuration of NATS servers into the adapter's options.
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

struct NatsOptions : nats::Options {
  bool password_is_token = false;
};

void declare_source(NatsOptions& options, Settings& keys) {
  keys.flag("declare", options.declare,
            "A source makes the stream, of the subjects in `read`, when it is missing.");
  keys.flag("from_end", options.from_end,
            "A consumer that is made now begins at the end of the stream, not at the beginning.");
  keys.renamed("only_new", "from_end");
  keys.duration(
      "redeliver_after", options.redeliver_after, seconds(1),
      "A message that is not acknowledged in this time comes again. Make it longer than the "
      "slowest handler. A consumer that exists keeps its own.");
  keys.renamed("ack_wait", "redeliver_after");
  keys.number("ack_pending_max", options.ack_pending_max, 1, 1'000'000,
              "The most messages that are delivered and not acknowledged, by all who read with "
              "this consumer.");
  keys.number("prefetch", options.prefetch, 1, 100'000, "The most messages that are read ahead.");
  keys.renamed("prefetch_events", "prefetch");
  keys.size("prefetch_bytes", options.prefetch_bytes, 1,
            "The same in bytes; at least one message of the largest size.");
}

void declare(NatsOptions& options, Settings& keys) {
  keys.flag("jetstream", options.jetstream,
            "`false`: core NATS, which keeps nothing for a receiver that is not there.");
  keys.text("stream", options.stream,
            "A sink refuses another stream that takes the subject. A source reads this stream.")
      .otherwise("any");
  keys.text("domain", options.domain, "The domain of JetStream.").otherwise("that of the server");
  keys.flag("key_in_subject", options.key_in_subject, "The key is the last token of the subject.");
  keys.text("key_header", options.key_header,
            "The header that carries the key, where the format does not carry it.");
  declare_source(options, keys);
  keys.flag("token", options.password_is_token, "The password is a token, and there is no user.");
  keys.text("inbox_prefix", options.inbox_prefix,
            "The subjects of answers, for users who may not subscribe to `_INBOX.>`.");
  declare_server_name(options.server_name, options.tls, keys);
  keys.duration("connect_timeout", options.connect_timeout, milliseconds(100),
                "How long connecting may take.");
  keys.duration("request_timeout", options.request_timeout, milliseconds(100),
                "How long JetStream may take to answer.");
}

Result<nats::Options> options_of(const StoreConfig& store) {
  const config::BrokerConfig& broker = store.broker;
  NatsOptions options;
  options.servers = broker.hosts;
  for (net::Endpoint& server : options.servers)
    if (server.port == 0) server.port = 4222;
  static_cast<net::Access&>(options) = broker;
  options.message = broker.message;
  options.foreign = broker.foreign;
  options.subjects = broker.read;
  options.group = broker.group;
  DOVETAIL_TRY(read_settings(store, declare, options));
  // A token is a password without a user.
  if (options.password_is_token) options.token = std::exchange(options.password, {});
  return nats::Options(std::move(options));
}

std::vector<config::KeyReference> settings() { return describe(declare); }

Status prepare(const StoreConfig& store) {
  return options_of(store).map([](const nats::Options&) {});
}

Result<std::unique_ptr<Sink>> make_sink(const StoreConfig& to, Clock& clock) {
  Result<nats::Options> options = options_of(to);
  if (!options) return fail(options.error());
  return std::make_unique<nats::NatsSink>(std::move(*options), clock);
}

std::string_view caution(const StoreConfig& to) {
  const Result<nats::Options> options = options_of(to);
  if (!options || options->jetstream) return {};
  return "core NATS is fire-and-forget: who does not listen when an event is sent never gets it";
}

Result<std::unique_ptr<Source>> make_source(const StoreConfig& from, Duration call_max,
                                            Clock& clock) {
  Result<nats::Options> options = options_of(from);
  if (!options) return fail(options.error());
  if (!options->jetstream)
    return fail(Errc::rejected, from.where +
                                    ": core NATS keeps nothing that could be read later; set "
                                    "jetstream = true in its settings");
  return nats::make_source(std::move(*options), call_max, clock);
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

// What the settings say of the streams, and of nothing else.
nats::Examined examined_by(const nats::Options& options) {
  nats::Examined what;
  what.connection = options;
  what.domain = options.domain;
  what.jetstream = options.jetstream;
  what.stream = options.stream;
  return what;
}

Result<std::vector<Finding>> examine(const StoreConfig& store, const config::Config& config) {
  const Result<nats::Options> options = options_of(store);
  if (!options) return fail(options.error());
  nats::Examined what = examined_by(*options);
  what.inbox_retention = config.retention.inbox;
  what.payload_bytes_max = payload_bytes_max_for(store, config);
  for (const config::RelayConfig* const reader : config.readers()) {
    const config::RelayConfig& relay = *reader;
    if (relay.to == store.name) {
      std::string subject = pattern_of(relay.topic);
      if (options->key_in_subject) subject += ".*";
      what.subjects.push_back(std::move(subject));
    }
    if (relay.from == store.name) {
      what.durable = options->group;
      what.subjects.insert(what.subjects.end(), store.broker.read.begin(), store.broker.read.end());
    }
  }
  return nats::examine(what);
}

Result<std::vector<Kept>> retention(const StoreConfig& store) {
  return options_of(store).and_then([](const nats::Options& options) {
    nats::Examined what = examined_by(options);
    what.subjects = options.subjects;
    return nats::retention(what);
  });
}

}  // namespace

const BrokerKind kNats = {settings, prepare, make_sink, make_source, examine, retention, caution};

}  // namespace dovetail::assembly
