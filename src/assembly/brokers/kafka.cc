// Turns the configuration of a Kafka cluster into the adapter's options.
#include <algorithm>
#include <chrono>
#include <utility>

#include "assembly/brokers/brokers.h"
#include "assembly/brokers/findings.h"
#include "assembly/brokers/settings.h"
#include "kafka/client.h"
#include "kafka/examine.h"
#include "kafka/lookup/find_event.h"
#include "kafka/lookup/topic_scan.h"
#include "kafka/sink.h"
#include "kafka/source.h"

namespace dovetail::assembly {
namespace {

using config::Settings;
using config::StoreConfig;
using std::chrono::milliseconds;

constexpr std::uint16_t kPort = 9092;

std::string brokers_of(const config::BrokerConfig& broker) {
  std::string all;
  for (net::Endpoint host : broker.hosts) {
    if (host.port == 0) host.port = kPort;
    all += (all.empty() ? "" : ",") + host.to_string();
  }
  return all;
}

void declare(kafka::Options& options, Settings& keys) {
  keys.choice<std::string>(
      "sasl_mechanism", options.sasl_mechanism,
      {{"PLAIN", "PLAIN"}, {"SCRAM-SHA-256", "SCRAM-SHA-256"}, {"SCRAM-SHA-512", "SCRAM-SHA-512"}},
      "How the user logs in. Used when there is a `user`.");
  keys.text("topic_prefix", options.topic_prefix,
            "Is put before every topic, written or read. Events do not show it.");
  keys.size("message_max", options.message_bytes_max, 1000,
            "The largest message: payload, key and headers together. A larger event is parked "
            "before it is sent.");
  keys.renamed("message_bytes_max", "message_max");
  keys.duration(
      "linger", options.linger, Duration{0},
      "How long a batch waits for more messages. With zero it takes what has piled up while "
      "the last request was out: the lowest latency. A longer one costs the broker less "
      "CPU while few events flow.");
  keys.duration("connect_timeout", options.connect_timeout, milliseconds(100),
                "How long opening waits for a broker.");
  keys.flag("from_end", options.from_end,
            "A group that has no offsets yet begins at the end of its topics, not at the "
            "beginning.");
  keys.flag("skip_deleted", options.skip_deleted,
            "Continues behind events that a topic deleted unread. Otherwise the relay halts and "
            "says which are missing.");
  keys.flag("single_node", options.single_node,
            "Tells `dovetail doctor` that the cluster is meant to have no replicas.");
}

// Properties of librdkafka have a dot in their names; our keys have none.
void declare_properties(const StoreConfig& store, kafka::Options& options, Settings& keys) {
  for (const config::Member& one : *store.broker.settings.as<config::Value::Table>()) {
    if (one.key.find('.') == std::string::npos) continue;
    std::string& value = options.properties[one.key];
    keys.any_text(one.key, value, "").check([&value, name = one.key]() -> std::string {
      kafka::Options alone;
      alone.properties[name] = value;
      const auto allowed = kafka::properties_of(alone, kafka::Role::admin);
      return allowed ? "" : "is refused: " + allowed.error().text;
    });
  }
}

Status read_settings_of(const StoreConfig& store, kafka::Options& options) {
  Settings keys;
  declare(options, keys);
  declare_properties(store, options, keys);
  return read_settings(store, keys);
}

Result<kafka::Options> options_of(const StoreConfig& store) {
  const config::BrokerConfig& broker = store.broker;
  kafka::Options options;
  options.brokers = brokers_of(broker);
  static_cast<net::Access&>(options) = broker;
  options.message = broker.message;
  options.foreign = broker.foreign;
  options.topics = broker.read;
  options.group = broker.group;
  if (!broker.path.empty())
    return fail(Errc::rejected, store.where +
                                    ": nothing may follow the hosts, as in "
                                    "kafka://one:9092,two:9092");
  DOVETAIL_TRY(read_settings_of(store, options));
  // Only librdkafka can check these names and values.
  const auto properties = kafka::properties_of(options, kafka::Role::consumer);
  if (!properties) return fail(Errc::rejected, store.where + ": " + properties.error().text);
  if (const auto made = kafka::make_configuration(*properties); !made)
    return fail(Errc::rejected, store.where + ": " + made.error().text);
  return options;
}

std::vector<config::KeyReference> settings() { return describe(declare); }

Status prepare(const StoreConfig& store) {
  return options_of(store).map([](const kafka::Options&) {});
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

// A topic template as a name pattern: "{aggregate_type}.events" becomes "*.events".
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
  return options_of(store).and_then(kafka::retention);
}

Result<life::BrokerAnswer> find_event(const StoreConfig& store, const EventId& id,
                                      std::span<const PlaceRange> places, Duration time_max) {
  return options_of(store).and_then([&](const kafka::Options& options) {
    return kafka::find_event(options, id, places, time_max);
  });
}

Result<std::unique_ptr<reconcile::ReceiverScan>> scan_topic(const StoreConfig& store,
                                                            const std::string& topic, WallTime from,
                                                            const reconcile::Watch& watch) {
  return options_of(store).and_then([&](const kafka::Options& options) {
    return kafka::scan_topic(options, topic, from, watch);
  });
}

}  // namespace

const BrokerKind kKafka = {.settings = settings,
                           .prepare = prepare,
                           .make_sink = make_sink,
                           .make_source = make_source,
                           .examine = examine,
                           .retention = retention,
                           .find_event = find_event,
                           .scan_topic = scan_topic};

}  // namespace dovetail::assembly
