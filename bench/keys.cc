// What a relay carries to each broker with 1, 10, 100 and 1,000 keys: many events of a key are in
// flight, and their order holds.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <string_view>
#include <thread>

#include "brokers.h"
#include "core/relay/relay.h"
#include "host/host.h"
#include "memory/log.h"
#include "memory/reader.h"
#include "memory/source.h"

namespace dovetail::bench {

namespace {

constexpr std::size_t kEvents = 200'000;
constexpr double kSecondsMax = 3;
constexpr std::size_t kKeys[] = {1, 10, 100, 1000};

struct Ratio {
  std::size_t keys;  // beside 1,000
  double at_least;
};
struct Named {
  Place (*place)();
  std::vector<Ratio> ratios;
  // Debezium's rate with 1 and with 10 keys is the measure.
  bool beside_debezium = false;
};

const std::vector<Named> kBrokers = {
#ifdef DOVETAIL_HAS_KAFKA
    {kafka_place, {{100, 0.8}}, true},
#endif
#ifdef DOVETAIL_HAS_RABBITMQ
    {rabbitmq_place, {}},
#endif
#ifdef DOVETAIL_HAS_NATS
    {nats_place, {{10, 0.5}}},
#endif
#ifdef DOVETAIL_HAS_REDIS
    {redis_place, {{10, 0.5}}},
#endif
};

void fill(MemoryLog& log, const Place& place, std::size_t keys) {
  for (std::size_t i = 0; i < kEvents; ++i) {
    NewEvent event;
    event.aggregate_type = "order";
    event.aggregate_id = fmt::format("order-{:06}", i % keys);
    event.type = "order_placed";
    event.payload = kPayload;
    event.topic = place.topic;
    event.aggregate_version = static_cast<std::int64_t>(i / keys) + 1;
    event.id = new_event_id();
    const auto published = log.publish(event, system_clock().wall());
    require(published.has_value(), published ? "" : published.error().text);
  }
}

// Events confirmed per second, between the first and the last within the time.
double rate(const Place& place, const servers::Server& server, std::size_t keys) {
  MemoryLog log;
  fill(log, place, keys);
  MemoryReader reader;
  MemorySource source(log, reader);
  MemoryParking parking(reader);
  const std::unique_ptr<Sink> sink = place.make_sink(server);
  NoLease lease;
  RelayMetrics metrics;
  RelayOptions options;
  options.progress_interval = std::chrono::milliseconds(5);
  Relay relay(RelayPorts{source, *sink, parking, lease, system_clock(), metrics}, options);
  std::jthread thread([&](std::stop_token stop) { (void)relay.run(stop); });
  const auto confirmed = [&] { return static_cast<double>(metrics.confirmed.load()); };
  const auto rest = [] { std::this_thread::sleep_for(std::chrono::microseconds(200)); };
  const double patience = seconds_now() + 60;
  while (confirmed() == 0 && seconds_now() < patience) rest();
  const double start = seconds_now();
  const double before = confirmed();
  while (confirmed() < kEvents && seconds_now() < start + kSecondsMax) rest();
  const double events = confirmed() - before;
  const double seconds = seconds_now() - start;
  require(events > 0, "the relay confirms nothing; check the server");
  return events / seconds;
}

void run(Report& report, const Named& broker) {
  const Place place = broker.place();
  const Broker server(place.name);
  const std::string name = place.name;
  progress(name + ":");
  std::vector<Wanted> figures;
  for (const std::size_t keys : kKeys)
    figures.push_back({fmt::format("{}, keys: {}", name, keys), "events/s", {}, {}});
  for (const Ratio& one : broker.ratios)
    figures.push_back(
        {fmt::format("{}, keys: {} / 1000", name, one.keys), "ratio", one.at_least, {}});
  (void)rate(place, server.server(), 1000);
  report.measure(std::move(figures), [&] {
    std::vector<double> values;
    for (const std::size_t keys : kKeys) values.push_back(rate(place, server.server(), keys));
    for (const Ratio& one : broker.ratios) {
      const auto at = std::find(std::begin(kKeys), std::end(kKeys), one.keys) - std::begin(kKeys);
      values.push_back(values[static_cast<std::size_t>(at)] / values[3]);
    }
    return values;
  });
  if (!broker.beside_debezium) return;
  const std::string why = " / Debezium (not measured: it does not run beside this benchmark)";
  report.add({name + ", keys: 1" + why, 0, "ratio", 3, {}});
  report.add({name + ", keys: 10" + why, 0, "ratio", 5, {}});
}

// All brokers, or those that are named.
int run(const std::vector<std::string_view>& wanted) {
  Report report("keys");
  try {
    for (const Named& one : kBrokers)
      if (wanted.empty() ||
          std::find(wanted.begin(), wanted.end(), one.place().name) != wanted.end())
        run(report, one);
    return report.finish();
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench: {}\n", error.what());
    return 2;
  }
}

}  // namespace

}  // namespace dovetail::bench

int main(int count, char** arguments) {
  return dovetail::bench::run({arguments + 1, arguments + count});
}
