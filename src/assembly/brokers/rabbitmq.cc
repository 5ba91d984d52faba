// What the config says of a RabbitMQ server, as its adapter takes it.
#include <algorithm>
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

using config::StoreConfig;
using std::chrono::milliseconds;
using std::chrono::seconds;

Status read_settings(const StoreConfig& store, rabbitmq::Options& options) {
  BrokerSettings settings(store.broker);
  settings.text("exchange", options.exchange);
  settings.text("routing_key", options.routing_key);
  settings.text("key_header", options.key_header);
  settings.flag("declare", options.declare);
  settings.text("queue_type", options.queue_type);
  settings.duration("blocked_wait_max", options.blocked_wait_max, seconds(1));
  settings.flag("exclusive", options.exclusive);
  settings.number("prefetch", options.prefetch, 1, 65'535);
  settings.text("management_url", options.management_url);
  settings.text("server_name", options.tls_files.server_name);
  settings.text("connection_name", options.connection_name);
  settings.duration("connect_timeout", options.connect_timeout, milliseconds(100));
  settings.duration("answer_timeout", options.answer_timeout, milliseconds(100));
  Duration heartbeat = options.heartbeat;
  settings.duration("heartbeat", heartbeat, seconds(1));
  options.heartbeat = std::chrono::duration_cast<seconds>(heartbeat);
  if (options.queue_type != "quorum" && options.queue_type != "classic")
    settings.wrong("queue_type", "must be quorum or classic");
  if (!options.tls_files.server_name.empty() && !options.tls)
    settings.wrong("server_name", "is for TLS only; let the url begin with amqps://");
  return settings.finish();
}

// The virtual host is one segment of the url: a slash in its name is written as %2f.
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
  options.server.host = broker.hosts.front().name;
  options.server.port =
      broker.hosts.front().port != 0 ? broker.hosts.front().port : (broker.tls ? 5671 : 5672);
  if (!broker.path.empty() && !decode_host(broker.path, options.virtual_host))
    return fail(Errc::rejected, store.where +
                                    ": what follows the host must be the name of a virtual host, "
                                    "with %2f for each slash in it");
  // Without a user the server's own default is meant, unless a certificate says who we are.
  if (!broker.user.empty() || !broker.cert_file.empty()) {
    options.user = broker.user;
    options.password = broker.password;
  }
  options.tls = broker.tls;
  options.tls_files.ca_file = broker.ca_file.string();
  options.tls_files.cert_file = broker.cert_file.string();
  options.tls_files.key_file = broker.key_file.string();
  options.message = broker.message;
  options.foreign = broker.foreign;
  if (store.payload_bytes_max > 0) options.payload_bytes_max = store.payload_bytes_max;
  options.queues = broker.read;
  DOVETAIL_TRY(read_settings(store, options));
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

Status prepare(const StoreConfig& store) {
  const Result<std::unique_ptr<Sink>> sink = make_sink(store, system_clock());
  if (!sink) return fail(sink.error());
  return {};
}

Result<std::unique_ptr<Source>> make_source(const StoreConfig& from, Duration call_max,
                                            Clock& clock) {
  Result<rabbitmq::Options> options = options_of(from);
  if (!options) return fail(options.error());
  options->answer_timeout = std::min(options->answer_timeout, call_max);
  return std::make_unique<rabbitmq::RabbitmqSource>(std::move(*options), clock);
}

Result<std::vector<Finding>> examine(const StoreConfig& store, const config::Config& config) {
  const Result<rabbitmq::Options> options = options_of(store);
  if (!options) return fail(options.error());
  return rabbitmq::examine(*options, system_clock(), payload_bytes_max_for(store, config));
}

Result<std::vector<Kept>> retention(const StoreConfig& store) {
  const Result<rabbitmq::Options> options = options_of(store);
  if (!options) return fail(options.error());
  return rabbitmq::retention(*options);
}

}  // namespace

const BrokerKind kRabbitmq = {prepare, make_sink, make_source, examine, retention};

}  // namespace dovetail::assembly
