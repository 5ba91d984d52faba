// What the config says of a Redis server, as its adapter takes it.
#include <algorithm>
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

using config::StoreConfig;
using std::chrono::milliseconds;
using std::chrono::seconds;

Status read_settings(const StoreConfig& store, redis::Options& options) {
  BrokerSettings settings(store.broker);
  settings.text("payload_field", options.payload_field);
  settings.text("key_field", options.key_field);
  settings.text("server_name", options.server_name);
  settings.flag("create_streams", options.create_streams);
  settings.number("wait_replicas", options.wait_replicas, 0, 1000);
  settings.text("consumer", options.consumer);
  settings.flag("from_start", options.from_start);
  settings.flag("exclusive", options.exclusive);
  settings.flag("delete_settled", options.delete_settled);
  settings.duration("claim_after", options.claim_after, seconds(1));
  settings.number("fetch_events_max", options.fetch_events_max, 1, 100'000);
  settings.duration("connect_timeout", options.connect_timeout, milliseconds(100));
  settings.duration("reply_timeout", options.reply_timeout, milliseconds(100));
  if (!options.server_name.empty() && !options.tls)
    settings.wrong("server_name", "is for TLS only; let the url begin with rediss://");
  return settings.finish();
}

Result<redis::Options> options_of(const StoreConfig& store) {
  const config::BrokerConfig& broker = store.broker;
  redis::Options options;
  options.host = broker.hosts.front().name;
  if (broker.hosts.front().port != 0) options.port = broker.hosts.front().port;
  const char* const path_end = broker.path.data() + broker.path.size();
  const auto read = std::from_chars(broker.path.data(), path_end, options.database);
  if (!broker.path.empty() && (read.ec != std::errc() || read.ptr != path_end))
    return fail(Errc::rejected, store.where +
                                    ": what follows the host must be the number of a database, as "
                                    "in redis://host:6379/0");
  options.user = broker.user;
  options.password = broker.password;
  options.tls = broker.tls;
  options.ca_file = broker.ca_file.string();
  options.cert_file = broker.cert_file.string();
  options.key_file = broker.key_file.string();
  options.message = broker.message;
  options.foreign = broker.foreign;
  if (store.payload_bytes_max > 0) options.payload_bytes_max = store.payload_bytes_max;
  options.streams = broker.read;
  options.group = broker.group;
  DOVETAIL_TRY(read_settings(store, options));
  if (const Status checked = redis::check(options); !checked)
    return fail(checked.error().code, store.where + ": " + checked.error().text);
  return options;
}

Status prepare(const StoreConfig& store) {
  const Result<redis::Options> options = options_of(store);
  if (!options) return fail(options.error());
  return {};
}

Result<std::unique_ptr<Sink>> make_sink(const StoreConfig& to, Clock& clock) {
  Result<redis::Options> options = options_of(to);
  if (!options) return fail(options.error());
  return std::make_unique<redis::RedisSink>(std::move(*options), clock);
}

Result<std::unique_ptr<Source>> make_source(const StoreConfig& from, Duration call_max,
                                            Clock& clock) {
  Result<redis::Options> options = options_of(from);
  if (!options) return fail(options.error());
  options->reply_timeout = std::min(options->reply_timeout, call_max);
  return std::make_unique<redis::RedisSource>(std::move(*options), clock);
}

Result<std::vector<Finding>> examine(const StoreConfig& store, const config::Config& config) {
  const Result<redis::Options> options = options_of(store);
  if (!options) return fail(options.error());
  return redis::examine(*options, system_clock(), payload_bytes_max_for(store, config));
}

Result<std::vector<Kept>> retention(const StoreConfig& store) {
  const Result<redis::Options> options = options_of(store);
  if (!options) return fail(options.error());
  return redis::retention(*options);
}

}  // namespace

const BrokerKind kRedis = {prepare, make_sink, make_source, examine, retention};

}  // namespace dovetail::assembly
