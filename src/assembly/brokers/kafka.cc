// What the config says of a Kafka cluster, as its adapter takes it.
#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include "assembly/brokers/brokers.h"
#include "assembly/brokers/findings.h"
#include "assembly/brokers/settings.h"
#include "kafka/client.h"
#include "kafka/examine.h"
#include "kafka/sink.h"
#include "kafka/source.h"

namespace dovetail::assembly {
namespace {

using config::StoreConfig;
using std::chrono::milliseconds;

constexpr std::uint16_t kPort = 9092;

std::string brokers_of(const config::BrokerConfig& broker) {
  std::string all;
  for (const config::BrokerConfig::Host& host : broker.hosts) {
    const bool is_ipv6 = host.name.find(':') != std::string::npos;
    all += (all.empty() ? "" : ",") + (is_ipv6 ? "[" + host.name + "]" : host.name) + ":" +
           std::to_string(host.port == 0 ? kPort : host.port);
  }
  return all;
}

Status read_settings(const config::BrokerConfig& broker, kafka::Options& options) {
  BrokerSettings settings(broker);
  settings.text("sasl_mechanism", options.sasl_mechanism);
  settings.text("topic_prefix", options.topic_prefix);
  settings.flag("from_end", options.from_end);
  settings.flag("skip_deleted", options.skip_deleted);
  settings.flag("single_node", options.single_node);
  settings.duration("linger", options.linger, Duration{0});
  settings.duration("connect_timeout", options.connect_timeout, milliseconds(100));
  settings.size("message_bytes_max", options.message_bytes_max, 1000);
  // Those of librdkafka have a dot in their names, and none of ours has.
  for (const auto& [name, setting] : broker.settings) {
    if (name.find('.') == std::string::npos) continue;
    settings.text(name, options.properties[name]);
    kafka::Options alone;
    alone.properties[name] = setting.value;
    const auto allowed = kafka::properties_of(alone, kafka::Role::admin);
    if (!allowed) settings.wrong(name, "is refused: " + allowed.error().text);
  }
  constexpr std::array kMechanisms = {"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"};
  if (std::find(kMechanisms.begin(), kMechanisms.end(), options.sasl_mechanism) ==
      kMechanisms.end())
    settings.wrong("sasl_mechanism", "must be PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512");
  return settings.finish();
}

Result<kafka::Options> options_of(const StoreConfig& store) {
  const config::BrokerConfig& broker = store.broker;
  kafka::Options options;
  options.brokers = brokers_of(broker);
  options.tls = broker.tls;
  options.ca_file = broker.ca_file;
  options.cert_file = broker.cert_file;
  options.key_file = broker.key_file;
  options.user = broker.user;
  options.password = broker.password;
  options.message = broker.message;
  options.foreign = broker.foreign;
  options.topics = broker.read;
  options.group = broker.group;
  if (!broker.path.empty())
    return fail(Errc::rejected, store.where +
                                    ": nothing may follow the hosts, as in "
                                    "kafka://one:9092,two:9092");
  DOVETAIL_TRY(read_settings(broker, options));
  // Names and values that only librdkafka can judge.
  const auto properties = kafka::properties_of(options, kafka::Role::consumer);
  if (!properties) return fail(Errc::rejected, store.where + ": " + properties.error().text);
  if (const auto made = kafka::make_configuration(*properties); !made)
    return fail(Errc::rejected, store.where + ": " + made.error().text);
  return options;
}

Status prepare(const StoreConfig& store) {
  const Result<kafka::Options> options = options_of(store);
  if (!options) return fail(options.error());
  return {};
}

Result<std::unique_ptr<Sink>> make_sink(const StoreConfig& to, Clock& clock) {
  Result<kafka::Options> options = options_of(to);
  if (!options) return fail(options.error());
  return std::make_unique<kafka::KafkaSink>(std::move(*options), clock);
}

Result<std::unique_ptr<Source>> make_source(const StoreConfig& from, Duration, Clock& clock) {
  Result<kafka::Options> options = options_of(from);
  if (!options) return fail(options.error());
  return std::make_unique<kafka::KafkaSource>(std::move(*options), clock);
}

// A template of topics as a pattern of names: "{aggregate_type}.events" is "*.events".
std::string pattern_of(std::string_view topic) {
  std::string pattern;
  bool inside = false;
  for (const char c : topic) {
    if (c == '{') pattern += '*';
    if (c == '{') inside = true;
    if (!inside) pattern += c;
    if (c == '}') inside = false;
  }
  return pattern;
}

Result<std::vector<Finding>> examine(const StoreConfig& store, const config::Config& config) {
  Result<kafka::Options> options = options_of(store);
  if (!options) return fail(options.error());
  kafka::Examined what{std::move(*options)};
  what.inbox_retention = config.retention.inbox;
  for (const config::RelayConfig* const relay : config.readers()) {
    if (relay->to == store.name) what.written.push_back(pattern_of(relay->topic));
    if (relay->from == store.name) what.is_read = true;
  }
  what.payload_bytes_max = payload_bytes_max_for(store, config);
  return kafka::examine(what);
}

Result<std::vector<Kept>> retention(const StoreConfig& store) {
  const Result<kafka::Options> options = options_of(store);
  if (!options) return fail(options.error());
  return kafka::retention(*options);
}

}  // namespace

const BrokerKind kKafka = {prepare, make_sink, make_source, examine, retention};

}  // namespace dovetail::assembly
