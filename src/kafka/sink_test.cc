#include "kafka/sink.h"

#include <gtest/gtest.h>

#include <chrono>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "host/host.h"
#include "kafka/test_cluster.h"
#include "kafka/test_events.h"

namespace dovetail::kafka {
namespace {

class KafkaSinkTest : public testing::Test {
 protected:
  KafkaSink& open(const Options& options) {
    sink_ = std::make_unique<KafkaSink>(options, system_clock());
    const Status opened = sink_->open();
    EXPECT_TRUE(opened) << opened.error().text;
    return *sink_;
  }
  // Like the relay with a busy receiver.
  static Outcome until_confirmed(KafkaSink& sink, const Event* event) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(90);
    Outcome last;
    while (last.fate != Fate::confirmed && std::chrono::steady_clock::now() < end) {
      last = deliver_once(sink, {event})[0];
      if (last.fate == Fate::again) {
        EXPECT_TRUE(sink.open());
      }
      if (last.fate != Fate::confirmed) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    return last;
  }
  std::vector<std::string> payloads(const std::string& topic, int partitions = 1) {
    std::vector<std::string> found;
    for (const RawMessage& one : cluster_.messages(topic, partitions)) found.push_back(one.payload);
    return found;
  }

  TestCluster cluster_;
  TestEvents events_;
  std::unique_ptr<KafkaSink> sink_;
};

TEST_F(KafkaSinkTest, WhatIsLargerThanTheClientTakesIsRejectedBeforeItIsSent) {
  cluster_.create_topic("orders");
  Options options = cluster_.options();
  options.message_bytes_max = 10'000;
  const auto outcomes =
      deliver_once(open(options), {&events_.make("orders", "a", "1"),
                                   &events_.make("orders", "b", std::string(10'001, 'x')),
                                   &events_.make("orders", "c", "3")});
  EXPECT_EQ(outcomes[0].fate, Fate::confirmed);
  EXPECT_EQ(outcomes[1].fate, Fate::rejected);
  EXPECT_NE(outcomes[1].reason.find("message_max"), std::string::npos);
  EXPECT_EQ(outcomes[2].fate, Fate::confirmed);
  EXPECT_EQ(payloads("orders"), (std::vector<std::string>{"1", "3"}));
}

TEST_F(KafkaSinkTest, WhatIsLargerThanTheTopicTakesIsRejectedAndItsNeighboursAreNot) {
  cluster_.create_topic("small", 1, {{"max.message.bytes", "3000"}});
  std::vector<const Event*> events;
  for (int i = 0; i < 30; ++i)
    events.push_back(&events_.make("small", "k" + std::to_string(i),
                                   i == 17 ? std::string(5000, 'x') : std::to_string(i)));
  const auto outcomes = deliver(open(cluster_.options()), events);
  for (std::size_t i = 0; i < outcomes.size(); ++i)
    EXPECT_EQ(outcomes[i].fate, i == 17 ? Fate::rejected : Fate::confirmed)
        << i << " " << outcomes[i].reason;
  EXPECT_NE(outcomes[17].reason.find("max.message.bytes"), std::string::npos);
  // What was confirmed beside the refused event may be there twice.
  const std::vector<std::string> stored = payloads("small");
  EXPECT_EQ(std::set<std::string>(stored.begin(), stored.end()).size(), 29U);
}

TEST_F(KafkaSinkTest, AnEventJustOverTheTopicsLimitIsRejectedAndOneJustBelowIsNot) {
  cluster_.create_topic("small", 1, {{"max.message.bytes", "3000"}});
  std::vector<const Event*> events;
  for (std::size_t bytes = 2000; bytes < 3000; bytes += 50)
    events.push_back(&events_.make("small", "k", std::string(bytes, 'x')));
  const auto outcomes = deliver(open(cluster_.options()), events);
  EXPECT_EQ(outcomes.front().fate, Fate::confirmed) << outcomes.front().reason;
  EXPECT_EQ(outcomes.back().fate, Fate::rejected) << outcomes.back().reason;
  bool refused = false;
  for (const Outcome& one : outcomes) {
    EXPECT_TRUE(one.fate == Fate::rejected || (one.fate == Fate::confirmed && !refused));
    refused = refused || one.fate == Fate::rejected;
  }
}

TEST_F(KafkaSinkTest, ATopicThatTakesOnlySmallBatchesTakesManyEvents) {
  cluster_.create_topic("small", 1, {{"max.message.bytes", "3000"}});
  std::vector<const Event*> events;
  for (int i = 0; i < 300; ++i)
    events.push_back(&events_.make("small", std::to_string(i), std::to_string(i)));
  for (const Outcome& one : deliver(open(cluster_.options()), events))
    EXPECT_EQ(one.fate, Fate::confirmed) << one.reason;
  // The new producer sends again what was stored and not confirmed yet.
  const auto stored = payloads("small");
  EXPECT_EQ(std::set(stored.begin(), stored.end()).size(), 300U);
}

TEST_F(KafkaSinkTest, ATopicThatIsNotThereIsBusyAtOnceAndFoundOnceItWasCreated) {
  KafkaSink& sink = open(cluster_.options());
  cluster_.create_topic("there");
  const Event* const early = &events_.make("missing", "a", "1");
  for (int i = 0; i < 5; ++i) {
    const auto outcomes = deliver_once(sink, {early, &events_.make("there", "b", "2")});
    EXPECT_EQ(outcomes[0].fate, Fate::busy);
    EXPECT_NE(outcomes[0].reason.find("create the topic"), std::string::npos) << outcomes[0].reason;
    EXPECT_EQ(outcomes[1].fate, Fate::confirmed) << outcomes[1].reason;
  }
  cluster_.create_topic("missing");
  const auto created = std::chrono::steady_clock::now();
  const Outcome found = until_confirmed(sink, early);
  EXPECT_EQ(found.fate, Fate::confirmed) << found.reason;
  // librdkafka by itself asks every five minutes.
  EXPECT_LT(std::chrono::steady_clock::now() - created, std::chrono::seconds(60));
}

TEST_F(KafkaSinkTest, ATopicThatIsDeletedAndMadeAgainIsFoundAgain) {
  cluster_.create_topic("fickle");
  KafkaSink& sink = open(cluster_.options());
  const Event* const one = &events_.make("fickle", "a", "1");
  ASSERT_EQ(deliver_once(sink, {one})[0].fate, Fate::confirmed);
  cluster_.delete_topic("fickle");
  const Outcome gone = deliver(sink, {one})[0];
  EXPECT_EQ(gone.fate, Fate::busy) << gone.reason;
  cluster_.create_topic("fickle");
  const Outcome found = until_confirmed(sink, one);
  EXPECT_EQ(found.fate, Fate::confirmed) << found.reason;
}

TEST_F(KafkaSinkTest, APartitionThatIsAddedLaterIsFound) {
  cluster_.create_topic("narrow", 1);
  Options options = cluster_.options();
  options.message.partition = "1";
  KafkaSink& sink = open(options);
  const Event* const one = &events_.make("narrow", "a", "1");
  EXPECT_EQ(deliver_once(sink, {one})[0].fate, Fate::busy);
  cluster_.add_partitions("narrow", 2);
  const Outcome found = until_confirmed(sink, one);
  EXPECT_EQ(found.fate, Fate::confirmed) << found.reason;
}

TEST_F(KafkaSinkTest, ATopicThatIsForbiddenIsBusyUntilItIsAllowedAndOthersGoOn) {
  cluster_.create_topic("free");
  cluster_.create_topic("forbidden");
  cluster_.reserve_topic("forbidden", "somebody");
  Options options = cluster_.options();
  options.brokers = cluster_.address("sasl_port");
  options.user = "limited";
  options.password = "limited-secret";
  const auto outcomes = deliver_once(
      open(options), {&events_.make("forbidden", "a", "1"), &events_.make("free", "b", "2")});
  EXPECT_EQ(outcomes[0].fate, Fate::busy);
  EXPECT_NE(outcomes[0].reason.find("allow this user to write"), std::string::npos)
      << outcomes[0].reason;
  EXPECT_EQ(outcomes[1].fate, Fate::confirmed) << outcomes[1].reason;
  cluster_.reserve_topic("forbidden", "limited");
  const Outcome found = until_confirmed(*sink_, &events_.make("forbidden", "a", "1"));
  EXPECT_EQ(found.fate, Fate::confirmed) << found.reason;
}

// The broker tells of the topic, so only the answer to a batch says that it may not be written.
TEST_F(KafkaSinkTest, ATopicThatMayOnlyBeReadIsBusyAndOthersGoOn) {
  cluster_.create_topic("free");
  cluster_.create_topic("readable");
  cluster_.reserve_topic("readable", "limited", RD_KAFKA_ACL_OPERATION_READ);
  Options options = cluster_.options();
  options.brokers = cluster_.address("sasl_port");
  options.user = "limited";
  options.password = "limited-secret";
  const auto outcomes = deliver(
      open(options), {&events_.make("readable", "a", "1"), &events_.make("readable", "a", "2"),
                      &events_.make("free", "b", "3")});
  EXPECT_EQ(outcomes[0].fate, Fate::busy) << outcomes[0].reason;
  EXPECT_NE(outcomes[0].reason.find("allow this user to write"), std::string::npos)
      << outcomes[0].reason;
  EXPECT_NE(outcomes[1].fate, Fate::confirmed);
  EXPECT_EQ(outcomes[2].fate, Fate::confirmed) << outcomes[2].reason;
  cluster_.reserve_topic("readable", "limited", RD_KAFKA_ACL_OPERATION_WRITE);
  const Outcome found = until_confirmed(*sink_, &events_.make("readable", "a", "1"));
  EXPECT_EQ(found.fate, Fate::confirmed) << found.reason;
}

TEST_F(KafkaSinkTest, WhatIsBehindARefusedRecordOfItsKeyIsNotStored) {
  cluster_.create_topic("small", 1, {{"max.message.bytes", "3000"}});
  Options options = cluster_.options();
  options.properties["batch.num.messages"] = "1";
  std::vector<const Event*> events = {&events_.make("small", "k", std::string(5000, 'x'))};
  for (int i = 1; i < 50; ++i)
    events.push_back(&events_.make("small", i % 2 == 0 ? "k" : "other", std::to_string(i)));
  KafkaSink& sink = open(options);
  // From now on the broker knows the producer, and many events of the key may be out.
  ASSERT_EQ(deliver_once(sink, {&events_.make("small", "k", "first")})[0].fate, Fate::confirmed);
  std::vector<Outcome> outcomes = deliver_once(sink, events);
  for (int tries = 0; tries < 10 && outcomes[0].fate == Fate::again; ++tries) {
    // As the relay does. Meanwhile librdkafka could send what is behind.
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    ASSERT_TRUE(sink.open());
    outcomes = deliver_once(sink, events);
  }
  ASSERT_EQ(outcomes[0].fate, Fate::rejected) << outcomes[0].reason;
  for (std::size_t i = 1; i < events.size(); ++i)
    EXPECT_EQ(outcomes[i].fate, i % 2 == 0 ? Fate::again : Fate::confirmed) << outcomes[i].reason;
  for (const RawMessage& one : cluster_.messages("small"))
    EXPECT_TRUE(one.key != "k" || one.payload == "first") << one.payload;
}

TEST_F(KafkaSinkTest, ACompactedTopicRefusesAnEventWithoutKeyAndTakesItsNeighbours) {
  cluster_.create_topic("compacted", 1, {{"cleanup.policy", "compact"}});
  const auto outcomes = deliver(open(cluster_.options()), {&events_.make("compacted", "a", "1"),
                                                           &events_.make("compacted", "", "2"),
                                                           &events_.make("compacted", "c", "3")});
  EXPECT_EQ(outcomes[0].fate, Fate::confirmed) << outcomes[0].reason;
  EXPECT_EQ(outcomes[1].fate, Fate::rejected) << outcomes[1].reason;
  EXPECT_EQ(outcomes[2].fate, Fate::confirmed) << outcomes[2].reason;
}

TEST_F(KafkaSinkTest, ANameThatNoTopicCanHaveIsRejected) {
  for (const std::string& name :
       {std::string("a b"), std::string("caf\xc3\xa9"), std::string(250, 'x')}) {
    const auto outcomes = deliver_once(open(cluster_.options()), {&events_.make(name, "a", "1")});
    EXPECT_EQ(outcomes[0].fate, Fate::rejected);
    EXPECT_NE(outcomes[0].reason.find("invalid topic name"), std::string::npos);
  }
}

// The hashes are from the tests of Kafka's own Java client.
TEST_F(KafkaSinkTest, AKeyGoesToThePartitionThatOtherClientsChoose) {
  constexpr int kPartitions = 7;
  cluster_.create_topic("spread", kPartitions);
  const std::vector<std::pair<std::string, std::int32_t>> hashes = {
      {"21", -973932308},
      {"foobar", -790332482},
      {"a-little-bit-long-string", -985981536},
      {"a-little-bit-longer-string", -1486304829},
      {"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971},
      {"abc", 479470107}};
  std::vector<const Event*> events;
  for (const auto& [key, hash] : hashes) events.push_back(&events_.make("spread", key, key));
  for (const Outcome& one : deliver_once(open(cluster_.options()), events))
    ASSERT_EQ(one.fate, Fate::confirmed) << one.reason;
  for (const RawMessage& one : cluster_.messages("spread", kPartitions))
    for (const auto& [key, hash] : hashes)
      EXPECT_TRUE(key != one.payload || one.partition == (hash & 0x7fffffff) % kPartitions) << key;
}

TEST_F(KafkaSinkTest, ATemplateCanChooseThePartition) {
  cluster_.create_topic("spread", 3);
  Options options = cluster_.options();
  options.message.partition = "{header.shard}";
  const auto outcomes = deliver_once(
      open(options), {&events_.make("spread", "a", "1", "{\"shard\":\"2\"}"),
                      &events_.make("spread", "b", "2", "{\"shard\":\"99\"}"),
                      &events_.make("spread", "c", "3", "{\"shard\":\"99999999999999999999\"}")});
  EXPECT_EQ(outcomes[0].fate, Fate::confirmed) << outcomes[0].reason;
  EXPECT_EQ(outcomes[1].fate, Fate::busy) << "the topic may get more partitions";
  EXPECT_EQ(outcomes[2].fate, Fate::rejected);
  const auto found = cluster_.messages("spread", 3);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].partition, 2);
}

TEST_F(KafkaSinkTest, AQueueThatIsFullIsBusyAfterAWhileAndLosesNothing) {
  cluster_.create_topic("orders");
  Options options = cluster_.options();
  options.properties["queue.buffering.max.messages"] = "10";
  std::vector<const Event*> events;
  for (int i = 0; i < 500; ++i)
    events.push_back(&events_.make("orders", std::to_string(i), std::to_string(i)));
  KafkaSink& sink = open(options);
  const std::vector<Outcome> outcomes = deliver_once(sink, events);
  for (std::size_t i = 0; i < events.size(); ++i) {
    if (outcomes[i].fate == Fate::confirmed) continue;
    ASSERT_EQ(outcomes[i].fate, Fate::busy) << outcomes[i].reason;
    EXPECT_EQ(until_confirmed(sink, events[i]).fate, Fate::confirmed);
  }
  EXPECT_EQ(payloads("orders").size(), 500U);
}

TEST_F(KafkaSinkTest, WhatIsInFlightWhenItIsOpenedAgainDoesNotConfirmWhatComesLater) {
  cluster_.create_topic("orders");
  Options options = cluster_.options();
  KafkaSink& sink = open(options);
  for (int i = 0; i < 3; ++i) {
    std::vector<const Event*> old;
    for (int j = 0; j < 200; ++j) old.push_back(&events_.make("orders", "k", "old"));
    ASSERT_TRUE(sink.submit(old));
    ASSERT_TRUE(sink.open());
    const auto outcomes = deliver_once(sink, {&events_.make("missing", "k", "new")});
    EXPECT_EQ(outcomes[0].fate, Fate::busy);
  }
}

TEST_F(KafkaSinkTest, ABrokerThatIsNotThereIsUnavailableWithWhy) {
  Options options = cluster_.options();
  options.brokers = "127.0.0.1:1";
  KafkaSink sink(options, system_clock());
  const Status opened = sink.open();
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Errc::unavailable);
  EXPECT_NE(opened.error().text.find("refused"), std::string::npos) << opened.error().text;
}

TEST_F(KafkaSinkTest, APropertyThatLibrdkafkaDoesNotKnowIsRejected) {
  Options options = cluster_.options();
  options.properties["no.such.property"] = "1";
  KafkaSink sink(options, system_clock());
  const Status opened = sink.open();
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Errc::rejected);
  EXPECT_NE(opened.error().text.find("no.such.property"), std::string::npos);
}

}  // namespace
}  // namespace dovetail::kafka
