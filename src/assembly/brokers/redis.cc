// Turns the configuration of a Redis server into the adapter's options.
#include <charconv>
#include <chrono>
#include <utility>

#include "assembly/brokers/brokers.h"
#include "assembly/brokers/findings.h"
#include "assembly/brokers/settings.h"
#include "host/host.h"
#include "redis/examine.h"
#include "redis/sink.h"
#include "redis/source.h"

namespace dovetail::assembly {
namespace {

using config::Settings;
using config::StoreConfig;
using std::chrono::milliseconds;
using std::chrono::seconds;

void declare(redis::Options& options, Settings& keys) {
  keys.text("payload_field", options.payload_field, "The field of the payload.");
  keys.text("key_header", options.key_header, "The field that carries the key.");
  keys.renamed("key_field", "key_header");
  declare_server_name(options.server_name, options.tls, keys);
  keys.flag("declare", options.declare,
            "`false`: an event for a stream that does not exist waits for it (XADD NOMKSTREAM).");
  keys.renamed("create_streams", "declare");
  keys.number("wait_replicas", options.wait_replicas, 0, 1000,
              "How many replicas must have an event before it is confirmed (WAIT).");
  keys.text("consumer", options.consumer,
            "The name of the source in its group. Must be the same after a restart.")
      .otherwise("the host's name");
  keys.flag("from_end", options.from_end,
            "A group that is made now begins at the end of its streams, not at the beginning.");
  keys.renamed("from_start", "from_end", "It means the opposite: write true for false.");
  keys.flag("exclusive", options.exclusive,
            "Waits for what other consumers of the group hold, which keeps the order of each key. "
            "`false`: several consumers share the group.");
  keys.flag("delete_settled", options.delete_settled,
            "Deletes entries after they are acknowledged (XDEL). Only where no other group reads "
            "the stream.");
  keys.duration("redeliver_after", options.redeliver_after, seconds(1),
                "What another consumer has not acknowledged in this time is taken over.");
  keys.renamed("claim_after", "redeliver_after");
  keys.number("prefetch", options.prefetch, 1, 100'000,
              "The most entries of each stream that are read at once; fewer where they are "
              "large.");
  keys.renamed("fetch_events_max", "prefetch");
  keys.duration("connect_timeout", options.connect_timeout, milliseconds(100),
                "How long connecting may take, and each reply while it connects.");
  keys.duration("request_timeout", options.request_timeout, milliseconds(100),
                "How long the server may take to answer a source.");
  keys.renamed("reply_timeout", "request_timeout");
}

Result<redis::Options> options_of(const StoreConfig& store) {
  const config::BrokerConfig& broker = store.broker;
  redis::Options options;
  options.host = broker.hosts.front().host;
  if (broker.hosts.front().port != 0) options.port = broker.hosts.front().port;
  const char* const path_end = broker.path.data() + broker.path.size();
  const auto read = std::from_chars(broker.path.data(), path_end, options.database);
  if (!broker.path.empty() && (read.ec != std::errc() || read.ptr != path_end))
    return fail(Errc::rejected, store.where +
                                    ": what follows the host must be the number of a database, as "
                                    "in redis://host:6379/0");
  static_cast<net::Access&>(options) = broker;
  options.message = broker.message;
  options.foreign = broker.foreign;
  if (store.payload_bytes_max > 0) options.payload_bytes_max = store.payload_bytes_max;
  options.streams = broker.read;
  options.group = broker.group;
  DOVETAIL_TRY(read_settings(store, declare, options));
  if (const Status checked = redis::check(options); !checked)
    return fail(checked.error().code, store.where + ": " + checked.error().text);
  return options;
}

std::vector<config::KeyReference> settings() { return describe(declare); }

Status prepare(const StoreConfig& store) {
  return options_of(store).map([](const redis::Options&) {});
}

Result<std::unique_ptr<Sink>> make_sink(const StoreConfig& to, Clock& clock) {
  Result<redis::Options> options = options_of(to);
  if (!options) return fail(options.error());
  return std::make_unique<redis::RedisSink>(std::move(*options), clock);
}

Result<std::unique_ptr<Source>> make_source(const StoreConfig& from, Duration call_max,
                                            Clock& clock) {
  return options_of(from).map(
      [&](const redis::Options& options) { return redis::make_source(options, call_max, clock); });
}

Result<std::vector<Finding>> examine(const StoreConfig& store, const config::Config& config) {
  return options_of(store).and_then([&](const redis::Options& options) {
    return redis::examine(options, system_clock(), payload_bytes_max_for(store, config));
  });
}

Result<std::vector<Kept>> retention(const StoreConfig& store) {
  return options_of(store).map(redis::retention);
}

}  // namespace

const BrokerKind kRedis = {settings, prepare, make_sink, make_source, examine, retention};

}  // namespace dovetail::assembly
