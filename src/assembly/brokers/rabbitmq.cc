// Turns the configuration of a RabbitMQ server into the adapter's options.
#include <charconv>
#include <chrono>
#include <string>
#include <string_view>
#include <utility>

#include "assembly/brokers/brokers.h"
#include "assembly/brokers/findings.h"
#include "assembly/brokers/settings.h"
#include "host/host.h"
#include "rabbitmq/examine.h"
#include "rabbitmq/sink.h"
#include "rabbitmq/source.h"

namespace dovetail::assembly {
namespace {

using config::Settings;
using config::StoreConfig;
using std::chrono::milliseconds;
using std::chrono::seconds;

void declare_server(rabbitmq::Options& options, Settings& keys) {
  keys.text("management_url", options.management_url,
            "`http://HOST:15672` or `https://HOST:15672`, for `dovetail doctor`, with the same "
            "user.");
  declare_server_name(options.server_name, options.tls, keys);
  keys.text("connection_name", options.connection_name,
            "The name of the connection in the "
            "server's list.");
  keys.duration("connect_timeout", options.connect_timeout, milliseconds(100),
                "How long connecting may take.");
  keys.duration("request_timeout", options.request_timeout, milliseconds(100),
                "How long the server may take to answer.");
  keys.renamed("answer_timeout", "request_timeout");
  keys.duration("heartbeat", options.heartbeat, seconds(1),
                "The connection is lost after twice this time without a sign of life.");
}

void declare(rabbitmq::Options& options, Settings& keys) {
  keys.text("exchange", options.exchange,
            "A name, or a template such as `{aggregate_type}`. Without it the server's default "
            "exchange, where the routing key is the name of a queue.");
  keys.text("routing_key", options.routing_key, "A template.");
  keys.text("key_header", options.key_header, "The header that carries the key.")
      .otherwise("the subject in CloudEvents, else the header `key`");
  keys.flag("declare", options.declare,
            "Makes what is missing: a durable topic exchange, durable queues. Needs the right to "
            "configure.");
  keys.choice<std::string>("queue_type", options.queue_type,
                           {{"quorum", "quorum"}, {"classic", "classic"}},
                           "The type of queues that `declare` makes.");
  keys.flag("exclusive", options.exclusive,
            "Only one consumer at a time reads a queue, which keeps the order of each key after a "
            "crash.");
  keys.number(
      "prefetch", options.prefetch, 1, 65'535,
      "The most messages of each queue that are read and not acknowledged. Bounds memory, and "
      "what comes again after a crash.");
  keys.duration("blocked_wait_max", options.blocked_wait_max, seconds(1),
                "How long the relay waits in silence for a server that is blocked because it lacks "
                "memory or disk.");
  declare_server(options, keys);
}

// The virtual host is one segment of the url; %2f stands for a slash in its name.
bool decode_host(std::string_view path, std::string& out) {
  out.clear();
  for (std::size_t i = 0; i < path.size(); ++i) {
    if (path[i] == '/') return false;
    if (path[i] != '%') {
      out += path[i];
      continue;
    }
    unsigned code = 0;
    const char* const first = path.data() + i + 1;
    if (i + 2 >= path.size() || std::from_chars(first, first + 2, code, 16).ptr != first + 2)
      return false;
    out += static_cast<char>(code);
    i += 2;
  }
  return true;
}

Result<rabbitmq::Options> options_of(const StoreConfig& store) {
  const config::BrokerConfig& broker = store.broker;
  rabbitmq::Options options;
  options.host = broker.hosts.front().host;
  options.port = broker.hosts.front().port;
  if (!broker.path.empty() && !decode_host(broker.path, options.virtual_host))
    return fail(Errc::rejected, store.where +
                                    ": what follows the host must be the name of a virtual host, "
                                    "with %2f for each slash in it");
  const net::Access guest = options;
  static_cast<net::Access&>(options) = broker;
  // Without a user, the server's default applies, unless a certificate is the log-in.
  if (broker.user.empty() && broker.cert_file.empty()) {
    options.user = guest.user;
    options.password = guest.password;
  }
  options.message = broker.message;
  options.foreign = broker.foreign;
  if (store.payload_bytes_max > 0) options.payload_bytes_max = store.payload_bytes_max;
  options.queues = broker.read;
  DOVETAIL_TRY(read_settings(store, declare, options));
  return options;
}

Result<std::unique_ptr<Sink>> make_sink(const StoreConfig& to, Clock& clock) {
  Result<rabbitmq::Options> options = options_of(to);
  if (!options) return fail(options.error());
  Result<std::unique_ptr<rabbitmq::RabbitmqSink>> sink =
      rabbitmq::RabbitmqSink::make(std::move(*options), clock);
  if (!sink) return fail(sink.error().code, to.where + ": " + sink.error().text);
  return std::move(*sink);
}

std::vector<config::KeyReference> settings() { return describe(declare); }

Status prepare(const StoreConfig& store) {
  const Result<std::unique_ptr<Sink>> sink = make_sink(store, system_clock());
  if (!sink) return fail(sink.error());
  return {};
}

Result<std::unique_ptr<Source>> make_source(const StoreConfig& from, Duration call_max,
                                            Clock& clock) {
  return options_of(from).map([&](const rabbitmq::Options& options) {
    return rabbitmq::make_source(options, call_max, clock);
  });
}

Result<std::vector<Finding>> examine(const StoreConfig& store, const config::Config& config) {
  return options_of(store).and_then([&](const rabbitmq::Options& options) {
    return rabbitmq::examine(options, system_clock(), payload_bytes_max_for(store, config));
  });
}

Result<std::vector<Kept>> retention(const StoreConfig& store) {
  return options_of(store).and_then(rabbitmq::retention);
}

}  // namespace

const BrokerKind kRabbitmq = {settings, prepare, make_sink, make_source, examine, retention};

}  // namespace dovetail::assembly
