// The Kafka adapters pass the suites for all adapters, on a real server.
#include <memory>
#include <string>
#include <vector>

#include "conformance/brokers/kafka_stored.h"
#include "conformance/limits_suite.h"
#include "conformance/sink_suite.h"
#include "conformance/source_suite.h"
#include "core/message/message.h"
#include "host/host.h"
#include "kafka/sink.h"
#include "kafka/source.h"

namespace dovetail::conformance {
namespace {

using kafka::KafkaSink;
using kafka::KafkaSource;
using kafka::TestCluster;

// Separate, because some tests stop it.
servers::Started& server() {
  static servers::Started started("kafka");
  return started;
}

class Topic final : public SinkUnderTest {
 public:
  Topic() { cluster_.create_topic("orders"); }
  SinkAbilities abilities() const override { return {true, false, true, true}; }
  std::unique_ptr<Sink> make() override {
    return std::make_unique<KafkaSink>(cluster_.options(), system_clock());
  }
  std::vector<StoredEvent> stored() override { return events_of(cluster_.messages("orders")); }
  void make_poison(Event& event) override { event.topic = "no topic has a blank in its name"; }
  void restart_server() override { ASSERT_TRUE(server().crash()); }
  // Payload, key and headers count.
  std::size_t payload_bytes_max(const Event& event) override {
    const auto writer = MessageWriter::make({}, kKafkaDialect);
    Arena arena;
    Message message;
    EXPECT_TRUE(writer && writer->write(event, arena, message));
    std::size_t left = kafka::Options{}.message_bytes_max - message.key.size();
    for (const MessageHeader& one : message.headers) left -= one.name.size() + one.value.size();
    return left;
  }

 private:
  TestCluster cluster_{server().server()};
};

class Group final : public SourceUnderTest {
 public:
  Group() {
    cluster_.create_topic("orders");
    cluster_.create_topic("own.topic");
  }
  SourceAbilities abilities() const override {
    SourceAbilities abilities;
    abilities.can_restart = true;
    abilities.arrival_max = seconds(1);
    return abilities;
  }
  std::unique_ptr<Source> make() override {
    kafka::Options options = cluster_.options();
    options.topics = {"orders", "own.topic"};
    // A killed server keeps its former members this long. On a machine that stalls for longer, a
    // member loses its place, and settled but uncommitted offsets with it.
    options.properties["session.timeout.ms"] = "10000";
    return std::make_unique<KafkaSource>(std::move(options), system_clock());
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
    if (!sink_) {
      sink_ = std::make_unique<KafkaSink>(cluster_.options(), system_clock());
      ASSERT_TRUE(sink_->open());
    }
    const Event* const events[] = {&one};
    ASSERT_TRUE(sink_->submit(events));
    Outcome outcome;
    const Result<bool> known = sink_->collect({&outcome, 1}, seconds(30));
    ASSERT_TRUE(known && *known);
    ASSERT_EQ(outcome.fate, Fate::confirmed) << outcome.reason;
  }
  void restart_server() override { ASSERT_TRUE(server().crash()); }

 private:
  TestCluster cluster_{server().server()};
  std::unique_ptr<KafkaSink> sink_;
};

template <class Base, class Derived>
std::unique_ptr<Base> make() {
  return std::make_unique<Derived>();
}

INSTANTIATE_TEST_SUITE_P(Kafka, SinkSuite,
                         testing::Values(SinkCase{"topic", make<SinkUnderTest, Topic>}),
                         case_name<SinkCase>);
INSTANTIATE_TEST_SUITE_P(Kafka, SourceSuite,
                         testing::Values(SourceCase{"group", make<SourceUnderTest, Group>}),
                         case_name<SourceCase>);

INSTANTIATE_TEST_SUITE_P(Kafka, LimitsSuite,
                         testing::Values(SinkCase{"topic", make<SinkUnderTest, Topic>}),
                         case_name<SinkCase>);

}  // namespace
}  // namespace dovetail::conformance
