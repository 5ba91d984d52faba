#include "kafka/examine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "host/host.h"
#include "kafka/sink.h"
#include "kafka/test_cluster.h"
#include "kafka/test_events.h"

namespace dovetail::kafka {
namespace {

class KafkaExamineTest : public testing::Test {
 protected:
  std::vector<std::string> codes(const Examined& what) {
    const auto findings = examine(what);
    EXPECT_TRUE(findings) << (findings ? "" : findings.error().text);
    std::vector<std::string> found;
    if (!findings) return found;
    for (const Finding& one : *findings) {
      EXPECT_FALSE(one.what.empty());
      EXPECT_FALSE(one.what_to_do.empty());
      found.push_back(one.code);
    }
    return found;
  }
  static bool has(const std::vector<std::string>& codes, const std::string& code) {
    return std::find(codes.begin(), codes.end(), code) != codes.end();
  }
  Examined written(const std::string& topic) {
    Examined what{cluster_.options(), {topic}};
    return what;
  }

  TestCluster cluster_;
};

using Codes = std::vector<std::string>;

TEST_F(KafkaExamineTest, ATopicThatIsSafeForOneNodeHasNothingToSayAbout) {
  cluster_.create_topic("orders", 1, {{"retention.ms", "3600000"}});
  Examined what = written("*");
  what.inbox_retention = std::chrono::hours(2);
  EXPECT_EQ(codes(what), Codes{});
}

TEST_F(KafkaExamineTest, OneReplicaIsUnsafeUnlessTheConfigSaysThatThereIsOneNode) {
  cluster_.create_topic("orders");
  Examined what = written("orders");
  what.options.single_node = false;
  const Codes found = codes(what);
  EXPECT_TRUE(has(found, "few-brokers"));
  EXPECT_TRUE(has(found, "replication-factor"));
  EXPECT_TRUE(has(found, "min-insync-replicas"));
}

TEST_F(KafkaExamineTest, EachUnsafeSettingOfATopicIsNamed) {
  cluster_.create_topic("orders", 1,
                        {{"unclean.leader.election.enable", "true"},
                         {"cleanup.policy", "compact,delete"},
                         {"max.message.bytes", "1000"},
                         {"retention.ms", "604800000"}});
  Examined what = written("ord*");
  what.inbox_retention = std::chrono::hours(24);
  Codes found = codes(what);
  std::sort(found.begin(), found.end());
  EXPECT_EQ(found, (Codes{"compacted", "retention-over-inbox", "topic-bytes", "unclean-election"}));
}

TEST_F(KafkaExamineTest, TopicsSayForHowLongTheyKeepWhatCanComeAgain) {
  cluster_.create_topic("day", 1, {{"retention.ms", "86400000"}});
  cluster_.create_topic("ever", 1, {{"retention.ms", "-1"}});
  cluster_.create_topic("last", 1, {{"cleanup.policy", "compact"}});
  cluster_.create_topic("others");
  Options options = cluster_.options();
  const auto ages = [&](std::vector<std::string> topics) {
    options.topics = std::move(topics);
    std::map<std::string, std::optional<Duration>> found;
    const auto kept = retention(options);
    EXPECT_TRUE(kept) << kept.error().text;
    for (const Kept& one : kept.value_or(std::vector<Kept>{})) {
      EXPECT_TRUE(one.comes_again);
      found[one.what] = one.age;
    }
    return found;
  };
  const std::map<std::string, std::optional<Duration>> all = {
      {"topic " + cluster_.prefix() + "day", std::chrono::hours(24)},
      {"topic " + cluster_.prefix() + "ever", {}},
      {"topic " + cluster_.prefix() + "last", {}}};
  EXPECT_EQ(ages({"day", "ever", "last"}), all);
  EXPECT_EQ(ages({"^(day|ever|last)$"}), all);
}

TEST_F(KafkaExamineTest, OnlyTopicsThatAreUsedAreLookedAt) {
  cluster_.create_topic("others", 1, {{"cleanup.policy", "compact"}});
  cluster_.create_topic("orders");
  EXPECT_EQ(codes(written("orders")), Codes{});
}

TEST_F(KafkaExamineTest, ATopicThatIsNotThereIsNamed) {
  EXPECT_EQ(codes(written("orders")), Codes{"topic-missing"});
  EXPECT_EQ(codes(written("*.events")), Codes{}) << "no event may have gone there yet";
  Examined what{cluster_.options()};
  what.options.topics = {"orders"};
  what.is_read = true;
  EXPECT_EQ(codes(what), Codes{"topic-missing"});
}

TEST_F(KafkaExamineTest, ATopicThatIsNotChangedTakesWhateverAnOutboxAccepts) {
  cluster_.create_topic("orders");
  Examined what = written("orders");
  what.payload_bytes_max = EventLimits{}.payload_bytes_max;
  EXPECT_EQ(codes(what), Codes{});
}

TEST_F(KafkaExamineTest, LimitsBelowThatOfTheOutboxAreNamed) {
  cluster_.create_topic("orders", 1, {{"max.message.bytes", "1000000"}});
  Examined what = written("orders");
  what.payload_bytes_max = EventLimits{}.payload_bytes_max;
  EXPECT_EQ(codes(what), Codes{"topic-bytes"});
  what.options.message_bytes_max = 1'000'000;
  EXPECT_EQ(codes(what), (Codes{"message-bytes", "topic-bytes"}));
}

TEST_F(KafkaExamineTest, WhatThisUserMayNotSeeIsSaid) {
  cluster_.create_topic("orders");
  cluster_.reserve_topic("orders", "somebody");
  Examined what = written("orders");
  what.options.brokers = cluster_.address("sasl_port");
  what.options.user = "limited";
  what.options.password = "limited-secret";
  what.options.sasl_mechanism = "SCRAM-SHA-256";
  EXPECT_EQ(codes(what), Codes{"topic-missing"});
}

// The test's own server, with unsafe broker settings.
const servers::Started& unsafe_server() {
  static const servers::Started started("kafka_unsafe");
  return started;
}

TEST_F(KafkaExamineTest, ABrokerThatCreatesTopicsIsNotAskedTo) {
  const TestCluster unsafe(unsafe_server().server());
  KafkaSink sink(unsafe.options(), system_clock());
  ASSERT_TRUE(sink.open());
  TestEvents events;
  EXPECT_EQ(deliver_once(sink, {&events.make("misspelt", "a", "1")})[0].fate, Fate::busy);
}

TEST_F(KafkaExamineTest, EachUnsafeSettingOfABrokerIsNamed) {
  const servers::Started& unsafe = unsafe_server();
  ASSERT_FALSE(unsafe.server().conninfo.empty()) << unsafe.server().missing;
  Examined what{cluster_.options()};
  what.options.brokers = "127.0.0.1:" + unsafe.server().field("port");
  what.options.topics = {"^.*"};
  what.is_read = true;
  Codes found = codes(what);
  std::sort(found.begin(), found.end());
  EXPECT_EQ(found, (Codes{"auto-created-topics", "offsets-expire", "unclean-election"}));
}

TEST_F(KafkaExamineTest, ABrokerThatIsNotThereIsUnavailable) {
  Examined what{cluster_.options()};
  what.options.brokers = "127.0.0.1:1";
  what.options.connect_timeout = std::chrono::seconds(2);
  const auto findings = examine(what);
  ASSERT_FALSE(findings);
  EXPECT_EQ(findings.error().code, Errc::unavailable);
}

TEST(KafkaPatterns, AStarStandsForAnything) {
  EXPECT_TRUE(matches("orders", "orders"));
  EXPECT_FALSE(matches("orders", "orders2"));
  EXPECT_TRUE(matches("*.events", "order.events"));
  EXPECT_TRUE(matches("*", ""));
  EXPECT_TRUE(matches("a*b*c", "a-b-b-c"));
  EXPECT_FALSE(matches("a*b*c", "a-c-b"));
}

}  // namespace
}  // namespace dovetail::kafka
