// Against librdkafka's mock cluster instead of a real server: errors that a single real broker
// cannot produce.
#include <gtest/gtest.h>
#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "host/host.h"
#include "kafka/client.h"
#include "kafka/sink.h"
#include "kafka/test_events.h"

namespace dovetail::kafka {
namespace {

// Numbers of requests in Kafka's protocol.
constexpr std::int16_t kProduce = 0;
constexpr std::int16_t kInitProducerId = 22;

class KafkaMockClusterTest : public testing::Test {
 protected:
  KafkaMockClusterTest()
      : client_(make_client(Role::admin, make_configuration({}).value()).value()),
        cluster_(rd_kafka_mock_cluster_new(client_.get(), 3)) {
    rd_kafka_mock_topic_create(cluster_, "orders", 1, 3);
    rd_kafka_mock_topic_create(cluster_, "bills", 1, 3);
  }
  ~KafkaMockClusterTest() override {
    sink_.reset();
    rd_kafka_mock_cluster_destroy(cluster_);
  }
  KafkaSink& open() {
    Options options;
    options.brokers = rd_kafka_mock_cluster_bootstraps(cluster_);
    options.properties["batch.num.messages"] = "1";
    sink_ = std::make_unique<KafkaSink>(options, system_clock());
    const Status opened = sink_->open();
    EXPECT_TRUE(opened) << opened.error().text;
    return *sink_;
  }

  // The payloads in partition 0, at least `count` unless that takes too long.
  std::vector<std::string> stored(const std::string& topic, std::size_t count) {
    const auto consumer =
        make_client(
            Role::consumer,
            make_configuration({{"bootstrap.servers", rd_kafka_mock_cluster_bootstraps(cluster_)},
                                {"group.id", "outside"},
                                {"auto.offset.reset", "earliest"}})
                .value())
            .value();
    rd_kafka_poll_set_consumer(consumer.get());
    const Handle<rd_kafka_topic_partition_list_s> list(rd_kafka_topic_partition_list_new(1));
    rd_kafka_topic_partition_list_add(list.get(), topic.c_str(), 0)->offset = 0;
    rd_kafka_assign(consumer.get(), list.get());
    std::vector<std::string> found;
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (found.size() < count && std::chrono::steady_clock::now() < end) {
      const Handle<rd_kafka_message_s> message(rd_kafka_consumer_poll(consumer.get(), 100));
      if (message == nullptr || message->err != RD_KAFKA_RESP_ERR_NO_ERROR) continue;
      found.emplace_back(static_cast<const char*>(message->payload), message->len);
    }
    return found;
  }

  Handle<rd_kafka_s> client_;
  rd_kafka_mock_cluster_t* cluster_;
  TestEvents events_;
  std::unique_ptr<KafkaSink> sink_;
};

// A broker that does not know the producer yet accepts any first sequence number, and so does this
// one. While the partitions of a new topic get their leaders, it refuses one batch and could accept
// the next one.
TEST_F(KafkaMockClusterTest, ABatchThatIsRefusedForAMomentIsNotOvertaken) {
  KafkaSink& sink = open();
  ASSERT_EQ(deliver_once(sink, {&events_.make("orders", "a", "0")})[0].fate, Fate::confirmed);
  for (std::int32_t broker = 1; broker <= 3; ++broker)
    rd_kafka_mock_broker_set_rtt(cluster_, broker, 500);
  rd_kafka_mock_push_request_errors(cluster_, kProduce, 1,
                                    RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION);
  const auto outcomes =
      deliver_once(sink, {&events_.make("orders", "a", "1"), &events_.make("orders", "a", "2")});
  EXPECT_EQ(outcomes[0].fate, Fate::confirmed) << outcomes[0].reason;
  EXPECT_EQ(outcomes[1].fate, Fate::confirmed) << outcomes[1].reason;
  EXPECT_EQ(stored("orders", 3), (std::vector<std::string>{"0", "1", "2"}));
}

// Unlike this one, a real broker refuses what does not follow the last batch of a producer that it
// knows: then more than one event of a key may be out.
TEST_F(KafkaMockClusterTest, BehindAFirstBatchThatIsRefusedForGoodNothingOfItsKeyIsSent) {
  KafkaSink& sink = open();
  for (std::int32_t broker = 1; broker <= 3; ++broker)
    rd_kafka_mock_broker_set_rtt(cluster_, broker, 100);
  rd_kafka_mock_push_request_errors(cluster_, kProduce, 1, RD_KAFKA_RESP_ERR_INVALID_RECORD);
  std::vector<const Event*> events;
  for (int i = 0; i < 20; ++i) events.push_back(&events_.make("orders", "a", std::to_string(i)));
  for (const Outcome& one : deliver_once(sink, events)) EXPECT_EQ(one.fate, Fate::again);
  for (const Outcome& one : deliver(sink, events)) EXPECT_EQ(one.fate, Fate::confirmed);
  const std::vector<std::string> found = stored("orders", 20);
  ASSERT_GE(found.size(), 20U);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(found[static_cast<std::size_t>(i)], std::to_string(i));
}

TEST_F(KafkaMockClusterTest, AnEventWaitsForTheOneOfItsKeyInAnotherTopic) {
  rd_kafka_mock_partition_set_leader(cluster_, "orders", 0, 1);
  rd_kafka_mock_partition_set_leader(cluster_, "bills", 0, 2);
  KafkaSink& sink = open();
  ASSERT_EQ(deliver_once(sink, {&events_.make("orders", "a", "0")})[0].fate, Fate::confirmed);
  rd_kafka_mock_broker_set_rtt(cluster_, 1, 2000);
  const auto outcomes =
      deliver_once(sink, {&events_.make("orders", "a", "1"), &events_.make("bills", "a", "2"),
                          &events_.make("bills", "b", "3")});
  for (const Outcome& one : outcomes) EXPECT_EQ(one.fate, Fate::confirmed) << one.reason;
  EXPECT_EQ(stored("bills", 2), (std::vector<std::string>{"3", "2"})) << "another key passed by";
}

TEST_F(KafkaMockClusterTest, AChangeOfTheLeaderIsNoFailure) {
  KafkaSink& sink = open();
  for (std::int32_t leader = 1; leader <= 3; ++leader) {
    ASSERT_EQ(rd_kafka_mock_partition_set_leader(cluster_, "orders", 0, leader),
              RD_KAFKA_RESP_ERR_NO_ERROR);
    const auto outcomes =
        deliver_once(sink, {&events_.make("orders", "a", "1"), &events_.make("orders", "b", "2")});
    for (const Outcome& one : outcomes) EXPECT_EQ(one.fate, Fate::confirmed) << one.reason;
  }
}

// A single real broker counts itself as enough replicas, whatever min.insync.replicas says.
TEST_F(KafkaMockClusterTest, TooFewReplicasAreWaitedForWithoutAnAttempt) {
  KafkaSink& sink = open();
  rd_kafka_mock_push_request_errors(cluster_, kProduce, 3, RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS,
                                    RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS,
                                    RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS_AFTER_APPEND);
  const auto outcomes = deliver_once(sink, {&events_.make("orders", "a", "1")});
  EXPECT_EQ(outcomes[0].fate, Fate::confirmed) << outcomes[0].reason;
}

TEST_F(KafkaMockClusterTest, AProducerThatCannotGoOnIsInDoubtAndIsBuiltAnew) {
  KafkaSink& sink = open();
  rd_kafka_mock_push_request_errors(cluster_, kInitProducerId, 2,
                                    RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED,
                                    RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED);
  ASSERT_TRUE(sink.open());
  const Event* const event = &events_.make("orders", "a", "1");
  Error failed{Errc::stopped, "no error"};
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  Status submitted = sink.submit(std::vector<const Event*>{event});
  if (!submitted) failed = submitted.error();
  std::vector<Outcome> fate(1);
  while (failed.code == Errc::stopped && std::chrono::steady_clock::now() < end) {
    const auto known = sink.collect(fate, std::chrono::milliseconds(100));
    if (!known) failed = known.error();
  }
  EXPECT_EQ(failed.code, Errc::in_doubt) << failed.text;
  rd_kafka_mock_clear_request_errors(cluster_, kInitProducerId);
  ASSERT_TRUE(sink.open());
  EXPECT_EQ(deliver_once(sink, {event})[0].fate, Fate::confirmed);
}

}  // namespace
}  // namespace dovetail::kafka
