// What the benchmarks of the brokers share. Each has a file of its own, brokers_NAME.cc, which
// compares our sink with a bare loop: the same client library, the same guarantee of confirmation,
// the same bytes on the wire.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/event/batch.h"
#include "core/relay/sink.h"
#include "report.h"
#include "servers/servers.h"

namespace dovetail::bench {

// Ends the benchmark of this broker with the text, and stops its server.
void require(bool holds, const std::string& otherwise);

// The real server of tests/servers by that name, until the end of the scope.
class Broker {
 public:
  explicit Broker(const std::string& name);
  const servers::Server& server() const { return started_.server(); }

 private:
  servers::Started started_;
};

// `count` events of the topic over a thousand keys, each behind the last one of its key, with ids
// of their own and one header. All stay valid as long as this object.
class BenchEvents {
 public:
  BenchEvents(std::size_t count, const std::string& topic);
  const std::vector<const Event*>& all() const { return pointers_; }

 private:
  std::vector<Batch> batches_;
  std::vector<const Event*> pointers_;
};

struct Speed {
  double per_second = 0;  // events confirmed
  double cpu_us = 0;      // of this process, for each event
};

// One broker: our sink beside a bare loop over its client library.
struct Contest {
  const char* name;
  // Both begin with an empty topic, and confirm all events.
  std::function<std::unique_ptr<Sink>()> make_sink;
  std::function<Speed(const std::vector<const Event*>&)> bare_loop;
  // How much the broker has got of the side that ran last: both must send as much. Empty: it cannot
  // be asked.
  std::function<std::int64_t()> bytes;
};

// Measures `work`, which confirms `events` events.
Speed measured(std::size_t events, const std::function<void()>& work);

// Both sides in turn. Our sink is driven as by a relay: batches of 1000, four of them in flight.
// Adds the ratio, which must be 0.8 or more, both speeds and both costs to the report.
void compare(Report& report, const Contest& contest, const BenchEvents& events);

// Events of the topic for a new and empty place of a broker.
struct Place {
  const char* name;  // of the server in tests/servers
  const char* topic;
  std::unique_ptr<Sink> (*make_sink)(const servers::Server& server);
};
Place kafka_place();
Place rabbitmq_place();
Place nats_place();
Place redis_place();

// Only those are there whose broker this program was built with.
void bench_kafka(Report& report);
void bench_rabbitmq(Report& report);
void bench_nats(Report& report);
void bench_redis(Report& report);
void bench_http(Report& report);

}  // namespace dovetail::bench
