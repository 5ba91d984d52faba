#include "rabbitmq/examine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "rabbitmq/test_broker.h"

namespace dovetail::rabbitmq {
namespace {

using Codes = std::set<std::string>;

class RabbitmqExamineTest : public testing::Test {
 protected:
  // The codes of the findings, without notes.
  Codes found(const Options& options) {
    const auto findings = examine(options, system_clock());
    EXPECT_TRUE(findings) << (findings ? "" : findings.error().text);
    Codes codes;
    if (!findings) return codes;
    for (const Finding& finding : *findings) {
      EXPECT_FALSE(finding.what_to_do.empty());
      if (finding.severity != Severity::note) codes.insert(finding.code);
    }
    return codes;
  }
  Codes found_in(const std::string& arguments, const std::string& more = R"("durable":true)") {
    broker_.make_queue("orders", arguments, more);
    Options options = broker_.options();
    options.queues = {"orders"};
    return found(options);
  }

  TestBroker broker_;
};

TEST_F(RabbitmqExamineTest, ASafeQueueIsFoundSafe) {
  EXPECT_EQ(
      found_in(R"({"x-queue-type":"quorum","x-single-active-consumer":true,"x-max-length":1000,
                         "x-overflow":"reject-publish"})"),
      Codes{});
}

TEST_F(RabbitmqExamineTest, AServerThatTakesLessThanTheOutboxIsNamed) {
  constexpr std::size_t kServerMax = 4 << 20;  // as the test server is configured
  const auto is_named = [&](std::size_t payload_bytes_max) {
    const auto findings = examine(broker_.options(), system_clock(), payload_bytes_max);
    EXPECT_TRUE(findings) << (findings ? "" : findings.error().text);
    return findings && std::any_of(findings->begin(), findings->end(), [](const Finding& one) {
             return one.code == "rabbitmq-message-size";
           });
  };
  EXPECT_FALSE(is_named(kServerMax));
  EXPECT_TRUE(is_named(kServerMax + 1));
}

TEST_F(RabbitmqExamineTest, AQueueThatDropsItsOldestIsNamed) {
  EXPECT_EQ(found_in(R"({"x-max-length":1000})"), Codes{"rabbitmq-drop-head"});
}

TEST_F(RabbitmqExamineTest, AQueueThatDropsByBytesIsNamed) {
  EXPECT_EQ(found_in(R"({"x-max-length-bytes":1000,"x-overflow":"drop-head"})"),
            Codes{"rabbitmq-drop-head"});
}

TEST_F(RabbitmqExamineTest, WhatAPolicySaysCountsToo) {
  broker_.put("policies/" + broker_.host() + "/limit",
              R"({"pattern":".*","apply-to":"queues","definition":{"max-length":10,
                  "message-ttl":60000}})");
  broker_.make_queue("orders");
  Options options = broker_.options();
  options.queues = {"orders"};
  // The management API shows it a few seconds after the queue was made.
  EXPECT_TRUE(eventually(
      [&] { return found(options) == Codes{"rabbitmq-drop-head", "rabbitmq-message-ttl"}; }));
}

TEST_F(RabbitmqExamineTest, ATimeToLiveIsNamed) {
  EXPECT_EQ(found_in(R"({"x-message-ttl":60000})"), Codes{"rabbitmq-message-ttl"});
}

TEST_F(RabbitmqExamineTest, QueuesSayForHowLongTheyKeepWhatNeverComesAgain) {
  broker_.make_queue("minute", R"({"x-message-ttl":60000})");
  broker_.make_queue("ever");
  Options options = broker_.options();
  options.queues = {"minute", "ever"};
  const auto kept = retention(options);
  ASSERT_TRUE(kept) << kept.error().text;
  ASSERT_EQ(kept->size(), 2U);
  EXPECT_EQ(kept->at(0).age, std::chrono::minutes(1));
  EXPECT_FALSE(kept->at(1).age);
  EXPECT_FALSE(kept->at(0).comes_again);
}

TEST_F(RabbitmqExamineTest, ADeliveryLimitWithoutADeadLetterExchangeIsNamed) {
  EXPECT_EQ(
      found_in(R"({"x-queue-type":"quorum","x-single-active-consumer":true,"x-delivery-limit":5})"),
      Codes{"rabbitmq-delivery-limit"});
}

TEST_F(RabbitmqExamineTest, DeadLetteringAtMostOnceIsNamed) {
  EXPECT_EQ(
      found_in(R"({"x-queue-type":"quorum","x-single-active-consumer":true,"x-delivery-limit":5,
                         "x-dead-letter-exchange":"dead"})"),
      Codes{"rabbitmq-dead-letter-at-most-once"});
}

TEST_F(RabbitmqExamineTest, AQueueThatIsNotDurableIsNamed) {
  EXPECT_EQ(found_in("{}", R"("durable":false)"), Codes{"rabbitmq-queue-not-durable"});
}

TEST_F(RabbitmqExamineTest, AQueueThatGoesWithItsConsumerOrItsTimeIsNamed) {
  EXPECT_EQ(found_in(R"({"x-expires":3600000})", R"("durable":true,"auto_delete":true)"),
            (Codes{"rabbitmq-queue-auto-delete", "rabbitmq-queue-expires"}));
}

TEST_F(RabbitmqExamineTest, SharedConsumersWithoutASingleActiveOneAreNamed) {
  broker_.make_queue("orders");
  broker_.make_queue("single", R"({"x-single-active-consumer":true})");
  Options options = broker_.options();
  options.exclusive = false;
  options.queues = {"orders"};
  EXPECT_EQ(found(options), Codes{"rabbitmq-order"});
  options.queues = {"single"};
  EXPECT_EQ(found(options), Codes{});
  broker_.make_queue("quorum", R"({"x-queue-type":"quorum"})");
  options.exclusive = true;
  options.queues = {"quorum"};
  EXPECT_EQ(found(options), Codes{"rabbitmq-order"}) << "it takes no notice of exclusive consumers";
}

TEST_F(RabbitmqExamineTest, MissingQueuesAndExchangesAreNamed) {
  Options options = broker_.options();
  options.queues = {"nowhere"};
  options.exchange = "nothing";
  EXPECT_EQ(found(options), (Codes{"rabbitmq-queue-missing", "rabbitmq-exchange-missing"}));
}

TEST_F(RabbitmqExamineTest, ASinkIsJudgedByTheQueuesBehindItsExchange) {
  broker_.make_exchange("events");
  broker_.make_queue("bound", R"({"x-max-length":1000})");
  broker_.make_queue("other", R"({"x-message-ttl":60000})");
  Options options = broker_.options();
  options.exchange = "events";
  EXPECT_EQ(found(options), Codes{"rabbitmq-no-binding"});
  broker_.bind("events", "bound", "#");
  EXPECT_EQ(found(options), Codes{"rabbitmq-drop-head"});
}

TEST_F(RabbitmqExamineTest, ASinkWithoutAnExchangeIsJudgedByAllQueues) {
  broker_.make_queue("other", R"({"x-message-ttl":60000})");
  EXPECT_EQ(found(broker_.options()), Codes{"rabbitmq-message-ttl"});
}

TEST_F(RabbitmqExamineTest, WithoutTheManagementApiItSaysSo) {
  broker_.make_queue("orders", R"({"x-max-length":1000})");
  Options options = broker_.options();
  options.queues = {"orders"};
  options.management_url.clear();
  const auto findings = examine(options, system_clock());
  ASSERT_TRUE(findings);
  ASSERT_EQ(findings->size(), 1U);
  EXPECT_EQ(findings->front().code, "rabbitmq-not-examined");
}

TEST_F(RabbitmqExamineTest, AWrongPasswordIsUnavailable) {
  Options options = broker_.options();
  options.password = "wrong";
  const auto findings = examine(options, system_clock());
  ASSERT_FALSE(findings);
  EXPECT_EQ(findings.error().code, Errc::unavailable);
}

TEST_F(RabbitmqExamineTest, AManagementUrlThatIsNoneIsRejected) {
  Options options = broker_.options();
  options.management_url = "localhost:15672";
  const auto findings = examine(options, system_clock());
  ASSERT_FALSE(findings);
  EXPECT_EQ(findings.error().code, Errc::rejected);
}

}  // namespace
}  // namespace dovetail::rabbitmq
