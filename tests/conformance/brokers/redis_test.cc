// The Redis adapters pass the suites for all adapters, on a real server.
#include <memory>
#include <string>
#include <vector>

#include "conformance/brokers/redis_stored.h"
#include "conformance/limits_suite.h"
#include "conformance/sink_suite.h"
#include "conformance/source_suite.h"
#include "redis/sink.h"
#include "redis/source.h"
#include "redis/test_server.h"

namespace dovetail::conformance {
namespace {

using redis::RedisSink;
using redis::RedisSource;
using redis::TestDatabase;

// Separate, because some tests stop it.
servers::Started& server() {
  static servers::Started started("redis");
  return started;
}

void restart() { ASSERT_TRUE(server().crash()); }

class Streams final : public SinkUnderTest {
 public:
  SinkAbilities abilities() const override { return {true, false, true, true}; }
  std::unique_ptr<Sink> make() override {
    redis::Options options = database_.options();
    options.payload_bytes_max = 2 << 20;
    return std::make_unique<RedisSink>(options, system_clock());
  }
  std::size_t payload_bytes_max(const Event&) override { return 2 << 20; }
  std::vector<StoredEvent> stored() override { return stored_in(database_); }
  void make_poison(Event& event) override {
    database_.run({"SET", "no_stream", "1"});
    event.topic = "no_stream";
  }
  void restart_server() override {
    restart();
    database_.disconnect();
  }

 private:
  TestDatabase database_{server().server()};
};

class Group final : public SourceUnderTest {
 public:
  SourceAbilities abilities() const override {
    SourceAbilities abilities;
    abilities.can_restart = true;
    return abilities;
  }
  std::unique_ptr<Source> make() override {
    redis::Options options = database_.options();
    options.streams = {"orders", "own.topic"};
    return std::make_unique<RedisSource>(std::move(options), system_clock());
  }
  void publish(const NewEvent& event) override {
    const Result<std::string> headers = encode_headers(event.headers);
    ASSERT_TRUE(headers);
    Event one;
    one.id = *event.id;
    one.topic = event.topic.empty() ? "orders" : event.topic;
    one.aggregate_type = event.aggregate_type;
    one.aggregate_id = event.aggregate_id;
    one.type = event.type;
    one.content_type = event.content_type;
    one.headers = event.headers.empty() ? "" : std::string_view(*headers);
    one.payload = event.payload;
    one.aggregate_version = event.aggregate_version;
    one.created_at = system_clock().wall();
    RedisSink sink(database_.options(), system_clock());
    ASSERT_TRUE(sink.open());
    const Event* const events[] = {&one};
    ASSERT_TRUE(sink.submit(events));
    Outcome outcome;
    const Result<bool> known = sink.collect({&outcome, 1}, seconds(30));
    ASSERT_TRUE(known && *known);
    ASSERT_EQ(outcome.fate, Fate::confirmed) << outcome.reason;
  }
  void restart_server() override { restart(); }

 private:
  TestDatabase database_{server().server()};
};

template <class Base, class Derived>
std::unique_ptr<Base> make() {
  return std::make_unique<Derived>();
}

INSTANTIATE_TEST_SUITE_P(Redis, SinkSuite,
                         testing::Values(SinkCase{"streams", make<SinkUnderTest, Streams>}),
                         case_name<SinkCase>);
INSTANTIATE_TEST_SUITE_P(Redis, LimitsSuite,
                         testing::Values(SinkCase{"streams", make<SinkUnderTest, Streams>}),
                         case_name<SinkCase>);
INSTANTIATE_TEST_SUITE_P(Redis, SourceSuite,
                         testing::Values(SourceCase{"group", make<SourceUnderTest, Group>}),
                         case_name<SourceCase>);

}  // namespace
}  // namespace dovetail::conformance
