#include <chrono>

#include "conformance/brokers/rabbitmq_stored.h"
#include "conformance/limits_suite.h"
#include "conformance/sink_suite.h"
#include "conformance/source_suite.h"
#include "rabbitmq/sink.h"
#include "rabbitmq/source.h"
#include "rabbitmq/test_broker.h"

namespace dovetail::conformance {
namespace {

using rabbitmq::Options;
using rabbitmq::RabbitmqSink;
using rabbitmq::RabbitmqSource;
using rabbitmq::TestBroker;

std::unique_ptr<Sink> make_sink(const Options& options) {
  auto sink = RabbitmqSink::make(options, system_clock());
  EXPECT_TRUE(sink) << (sink ? "" : sink.error().text);
  return sink ? std::move(*sink) : nullptr;
}

// The suites send to "orders"; here that is a queue, reached through the default exchange.
class QueueUnderTest final : public SinkUnderTest {
 public:
  explicit QueueUnderTest(const std::string& arguments) { broker_.make_queue("orders", arguments); }
  SinkAbilities abilities() const override { return {.can_refuse = true}; }
  std::unique_ptr<Sink> make() override {
    Options options = broker_.options();
    options.payload_bytes_max = kPayloadBytesMax;
    return make_sink(options);
  }
  std::size_t payload_bytes_max(const Event&) override { return kPayloadBytesMax; }
  std::vector<StoredEvent> stored() override { return stored_in(broker_, "orders"); }
  void make_poison(Event& event) override { event.topic = "a.queue.that.is.not.there"; }

 private:
  // Equal to the server's own limit, so that only the sink's check comes before it.
  static constexpr std::size_t kPayloadBytesMax = 4 << 20;
  TestBroker broker_;
};

// Publishes through our sink; other tests cover other publishers.
class ReadQueueUnderTest final : public SourceUnderTest {
 public:
  explicit ReadQueueUnderTest(const std::string& arguments) {
    broker_.make_exchange("events");
    broker_.make_queue("orders", arguments);
    broker_.bind("events", "orders", "#");
    Options options = broker_.options();
    options.exchange = "events";
    publisher_ = make_sink(options);
    EXPECT_TRUE(publisher_->open());
  }
  SourceAbilities abilities() const override { return {}; }
  std::unique_ptr<Source> make() override {
    Options options = broker_.options();
    options.queues = {"orders"};
    return std::make_unique<RabbitmqSource>(options, system_clock());
  }
  void publish(const NewEvent& event) override {
    const std::lock_guard lock(mutex_);
    Event one;
    one.id = *event.id;
    one.topic = event.topic;
    one.aggregate_type = event.aggregate_type;
    one.aggregate_id = event.aggregate_id;
    one.type = event.type;
    one.content_type = event.content_type;
    one.payload = event.payload;
    one.aggregate_version = event.aggregate_version;
    const std::string headers = *encode_headers(event.headers);
    if (!event.headers.empty()) one.headers = headers;
    const Event* pointer = &one;
    ASSERT_TRUE(publisher_->submit({&pointer, 1}));
    std::vector<Outcome> outcome(1);
    const Result<bool> known = publisher_->collect(outcome, seconds(30));
    ASSERT_TRUE(known && *known);
    ASSERT_EQ(outcome[0].fate, Fate::confirmed) << outcome[0].reason;
  }

 private:
  TestBroker broker_;
  std::mutex mutex_;
  std::unique_ptr<Sink> publisher_;
};

constexpr const char* kClassic = R"({"x-queue-type":"classic"})";
constexpr const char* kQuorum = R"({"x-queue-type":"quorum"})";

std::unique_ptr<SinkUnderTest> classic_sink() { return std::make_unique<QueueUnderTest>(kClassic); }
std::unique_ptr<SinkUnderTest> quorum_sink() { return std::make_unique<QueueUnderTest>(kQuorum); }
std::unique_ptr<SourceUnderTest> classic_source() {
  return std::make_unique<ReadQueueUnderTest>(kClassic);
}
std::unique_ptr<SourceUnderTest> quorum_source() {
  return std::make_unique<ReadQueueUnderTest>(kQuorum);
}

INSTANTIATE_TEST_SUITE_P(Rabbitmq, SinkSuite,
                         testing::Values(SinkCase{"classic", classic_sink},
                                         SinkCase{"quorum", quorum_sink}),
                         case_name<SinkCase>);
INSTANTIATE_TEST_SUITE_P(Rabbitmq, LimitsSuite, testing::Values(SinkCase{"classic", classic_sink}),
                         case_name<SinkCase>);
INSTANTIATE_TEST_SUITE_P(Rabbitmq, SourceSuite,
                         testing::Values(SourceCase{"classic", classic_source},
                                         SourceCase{"quorum", quorum_source}),
                         case_name<SourceCase>);

}  // namespace
}  // namespace dovetail::conformance
