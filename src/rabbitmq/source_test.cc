// What only queues can do: other publishers, take-overs, cancellations.
#include "rabbitmq/source.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "memory/stored_event.h"
#include "rabbitmq/test_broker.h"

namespace dovetail::rabbitmq {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class RabbitmqSourceTest : public testing::Test {
 protected:
  Options reading(const std::string& queue) const {
    Options options = broker_.options();
    options.queues = {queue};
    return options;
  }
  std::unique_ptr<RabbitmqSource> open(const Options& options) {
    auto source = std::make_unique<RabbitmqSource>(options, system_clock());
    const Status opened = source->open();
    EXPECT_TRUE(opened) << (opened ? "" : opened.error().text);
    return source;
  }
  void publish_numbers(const std::string& queue, int from, int to) {
    for (int i = from; i <= to; ++i)
      broker_.publish("amq.default", queue, number(i),
                      R"({"message_id":"id-)" + std::to_string(i) + R"(","delivery_mode":2})");
  }
  // "n0001" and so on, in base64 without padding.
  static std::string number(int i) {
    std::string text = "n" + std::to_string(10'000 + i);
    std::string out;
    constexpr std::string_view kDigits =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (std::size_t at = 0; at < text.size(); at += 3) {
      const auto group = static_cast<std::uint32_t>(text[at]) << 16 |
                         static_cast<std::uint32_t>(text[at + 1]) << 8 |
                         static_cast<std::uint32_t>(text[at + 2]);
      for (int j = 3; j >= 0; --j) out += kDigits[group >> (6 * j) & 63];
    }
    return out;
  }
  static std::string text(int i) { return "n" + std::to_string(10'000 + i); }

  // Reads until `count` events came, and keeps their batches for settle_all().
  std::vector<StoredEvent> read(RabbitmqSource& source, std::size_t count,
                                std::size_t events_max = 1000) {
    std::vector<StoredEvent> events;
    const auto end = std::chrono::steady_clock::now() + seconds(30);
    while (events.size() < count && std::chrono::steady_clock::now() < end) {
      Batch batch;
      const Status status =
          source.read(batch, Limits{events_max, 4 << 20, milliseconds(100)}, std::stop_token{});
      EXPECT_TRUE(status) << (status ? "" : status.error().text);
      if (!status) break;
      for (const Event& event : batch.events()) {
        events.emplace_back(event);
        defects_.emplace_back(event.defect);
      }
      batches_.push_back(std::move(batch));
    }
    EXPECT_EQ(events.size(), count);
    return events;
  }
  void settle_all(RabbitmqSource& source) {
    for (const Batch& batch : batches_) {
      const std::vector<Settled> fates(batch.size(), Settled::delivered);
      ASSERT_TRUE(source.settle(batch, fates));
    }
    batches_.clear();
    ASSERT_TRUE(source.flush());
  }
  std::map<std::string, std::string> headers(const StoredEvent& event) {
    std::map<std::string, std::string> found;
    const auto decoded = decode_headers(event.headers);
    EXPECT_TRUE(decoded);
    if (!decoded) return found;
    for (const Header& header : *decoded) found[header.name] = header.value;
    return found;
  }

  TestBroker broker_;
  std::vector<Batch> batches_;
  std::vector<std::string> defects_;
};

TEST_F(RabbitmqSourceTest, AForeignMessageIsTakenByItsMessageId) {
  broker_.make_queue("orders");
  broker_.publish("amq.default", "orders", "aGVsbG8=",
                  R"({"message_id":"order-17","content_type":"text/plain","timestamp":1700000000,
                      "type":"placed","headers":{"key":"17"}})");
  Options options = reading("orders");
  options.foreign.type = "amqp.type";
  auto source = open(options);
  const auto events = read(*source, 1);
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(defects_[0], "");
  EXPECT_EQ(events[0].payload, "hello");
  EXPECT_EQ(events[0].content_type, "text/plain");
  EXPECT_EQ(events[0].topic, "orders");
  EXPECT_EQ(events[0].aggregate_id, "17");
  EXPECT_EQ(events[0].type, "placed");
  EXPECT_EQ(events[0].created_at, WallTime(seconds(1'700'000'000)));
  // The same name gives the same id, each time it is read.
  ASSERT_TRUE(source->open());
  EXPECT_EQ(read(*source, 1)[0].id, events[0].id);
}

TEST_F(RabbitmqSourceTest, HeadersThatAreNestedTooDeepAreADefectOfTheirMessageAlone) {
  broker_.make_queue("orders");
  const auto publish = [&](const std::string& id, std::size_t depth) {
    const std::string headers = R"("h":)" + std::string(depth, '[') + std::string(depth, ']');
    broker_.publish("amq.default", "orders",
                    "aGVsbG8=", R"({"message_id":")" + id + R"(","headers":{)" + headers + "}}");
  };
  publish("deep", 20'000);
  publish("flat", 3);
  auto source = open(reading("orders"));
  const auto events = read(*source, 2);
  ASSERT_EQ(events.size(), 2U);
  EXPECT_NE(defects_[0].find("nested"), std::string::npos) << defects_[0];
  EXPECT_EQ(events[0].payload, "hello");
  EXPECT_EQ(defects_[1], "");
  settle_all(*source);
}

TEST_F(RabbitmqSourceTest, AForeignIdIsTakenFromTheConfiguredHeader) {
  broker_.make_queue("orders");
  const std::string id = "018f2b1e-7b0a-7000-8000-000000000001";
  broker_.publish("amq.default", "orders",
                  "e30=", R"({"message_id":"other","headers":{"x-order-id":")" + id + R"("}})");
  Options options = reading("orders");
  options.foreign.id = "x-order-id";
  auto source = open(options);
  EXPECT_EQ(read(*source, 1)[0].id.to_string(), id);
}

TEST_F(RabbitmqSourceTest, AMessageWithoutAnyIdComesWithADefect) {
  broker_.make_queue("orders");
  broker_.publish("amq.default", "orders", "e30=", "{}");
  auto source = open(reading("orders"));
  read(*source, 1);
  ASSERT_EQ(defects_.size(), 1U);
  EXPECT_NE(defects_[0], "");
  settle_all(*source);  // as the relay does once it is parked
  source.reset();
  EXPECT_TRUE(broker_.messages("orders").empty());
}

TEST_F(RabbitmqSourceTest, HeadersThatAreNoTextBecomeText) {
  broker_.make_queue("orders");
  broker_.publish("amq.default", "orders", "e30=",
                  R"({"message_id":"1","headers":{"number":42,"yes":true,"half":0.5,
                      "table":{"a":1,"b":"c\"d"},"list":[1,"x",false]}})");
  auto source = open(reading("orders"));
  const auto found = headers(read(*source, 1)[0]);
  EXPECT_EQ(found.at("number"), "42");
  EXPECT_EQ(found.at("yes"), "true");
  EXPECT_EQ(found.at("half"), "0.5");
  EXPECT_EQ(found.at("table"), R"({"a":1,"b":"c\"d"})");
  EXPECT_EQ(found.at("list"), R"([1,"x",false])");
}

TEST_F(RabbitmqSourceTest, WhatTheServerAddsWhenItMovesAMessageIsKept) {
  broker_.make_exchange("dead", "fanout");
  broker_.make_queue("graveyard");
  broker_.bind("dead", "graveyard", "");
  broker_.make_queue("orders", R"({"x-message-ttl":1,"x-dead-letter-exchange":"dead"})");
  broker_.publish("amq.default", "orders", "e30=", R"({"message_id":"1"})");
  auto source = open(reading("graveyard"));
  const auto found = headers(read(*source, 1)[0]);
  EXPECT_NE(found.at("x-death").find(R"("queue":"orders")"), std::string::npos);
  EXPECT_NE(found.at("x-death").find(R"("reason":"expired")"), std::string::npos);
  EXPECT_EQ(found.at("x-first-death-queue"), "orders");
}

TEST_F(RabbitmqSourceTest, AnActiveConsumerThatDiesIsFollowedByAnotherInOrder) {
  broker_.make_queue("orders", R"({"x-queue-type":"quorum","x-single-active-consumer":true})");
  publish_numbers("orders", 1, 40);
  Options options = reading("orders");
  options.exclusive = false;
  auto first = open(options);
  auto second = open(options);
  const auto taken = read(*first, 20, 10);
  EXPECT_EQ(taken.back().payload, text(20));
  batches_.resize(1);  // ten of them are settled
  settle_all(*first);
  Batch none;
  ASSERT_TRUE(second->read(none, Limits{}, std::stop_token{}));
  EXPECT_TRUE(none.empty()) << "only one is active";
  first.reset();
  const auto rest = read(*second, 30);
  for (int i = 0; i < 30; ++i) EXPECT_EQ(rest[static_cast<std::size_t>(i)].payload, text(11 + i));
}

TEST_F(RabbitmqSourceTest, AnExclusiveConsumerKeepsOthersOut) {
  broker_.make_queue("orders");
  auto first = open(reading("orders"));
  RabbitmqSource second(reading("orders"), system_clock());
  const Status refused = second.open();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::unavailable);
  EXPECT_NE(refused.error().text.find("no other consumer"), std::string::npos);
  first.reset();
  EXPECT_TRUE(second.open());
}

TEST_F(RabbitmqSourceTest, AQueueThatIsDeletedIsUnavailable) {
  broker_.make_queue("orders");
  auto source = open(reading("orders"));
  broker_.remove_queue("orders");
  Status status;
  EXPECT_TRUE(eventually([&] {
    Batch batch;
    status = source->read(batch, Limits{10, 1 << 20, milliseconds(50)}, std::stop_token{});
    return !status;
  }));
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Errc::unavailable);
  EXPECT_NE(status.error().text.find("\"orders\""), std::string::npos) << status.error().text;
  const Status again = source->open();
  ASSERT_FALSE(again);
  EXPECT_NE(again.error().text.find("create it"), std::string::npos) << again.error().text;
  broker_.make_queue("orders");
  ASSERT_TRUE(source->open()) << "it heals by itself once the queue is there";
  publish_numbers("orders", 1, 2);
  EXPECT_EQ(read(*source, 2).size(), 2U);
}

TEST_F(RabbitmqSourceTest, ARightThatIsTakenAndGivenBackHeals) {
  broker_.make_queue("orders");
  broker_.put("users/reader", R"({"password":"reader","tags":""})");
  const auto allow = [&](const std::string& read) {
    broker_.put("permissions/" + broker_.host() + "/reader",
                R"({"configure":"","write":"","read":")" + read + R"("})");
  };
  allow("orders");
  Options options = reading("orders");
  options.user = options.password = "reader";
  auto source = open(options);
  allow("nothing");
  const Status refused = source->open();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::unavailable) << refused.error().text;
  allow("orders");
  ASSERT_TRUE(source->open());
  publish_numbers("orders", 1, 2);
  EXPECT_EQ(read(*source, 2).size(), 2U);
}

TEST_F(RabbitmqSourceTest, SeveralQueuesAreReadAtOnce) {
  broker_.make_queue("one");
  broker_.make_queue("two");
  publish_numbers("one", 1, 5);
  publish_numbers("two", 6, 10);
  Options options = reading("one");
  options.queues.push_back("two");
  auto source = open(options);
  EXPECT_EQ(read(*source, 10, 3).size(), 10U);
  settle_all(*source);
  source.reset();  // what it held would be back now
  EXPECT_TRUE(broker_.messages("one").empty());
  EXPECT_TRUE(broker_.messages("two").empty());
}

TEST_F(RabbitmqSourceTest, ThePrefetchBoundsWhatIsHeldHere) {
  broker_.make_queue("orders");
  publish_numbers("orders", 1, 60);
  Options options = reading("orders");
  options.prefetch = 7;
  auto source = open(options);
  EXPECT_EQ(read(*source, 7).size(), 7U);
  Batch more;
  ASSERT_TRUE(source->read(more, Limits{100, 1 << 20, milliseconds(100)}, std::stop_token{}));
  EXPECT_TRUE(more.empty());
  settle_all(*source);
  const auto next = read(*source, 7);
  EXPECT_EQ(next.front().payload, text(8));
}

TEST_F(RabbitmqSourceTest, WithDeclareTheQueueIsMade) {
  Options options = reading("made.here");
  options.declare = true;
  auto source = open(options);
  EXPECT_EQ(broker_.queue("made.here").get("arguments").get("x-queue-type").text(), "quorum");
  EXPECT_TRUE(
      broker_.queue("made.here").get("arguments").get("x-single-active-consumer").is_true());
  publish_numbers("made.here", 1, 1);
  EXPECT_EQ(read(*source, 1).size(), 1U);
}

TEST_F(RabbitmqSourceTest, ASecondReaderOfADeclaredQueueGetsNothingWhileTheFirstHoldsMessages) {
  Options options = reading("made.single");
  options.declare = true;
  auto first = open(options);
  publish_numbers("made.single", 1, 3);
  EXPECT_EQ(read(*first, 3).size(), 3U);
  auto second = open(options);
  publish_numbers("made.single", 4, 5);
  Batch batch;
  ASSERT_TRUE(second->read(batch, Limits{100, 1 << 20, milliseconds(500)}, std::stop_token{}));
  EXPECT_TRUE(batch.empty()) << "they would overtake what the first holds";
  first.reset();
  EXPECT_EQ(read(*second, 5).front().payload, text(1));
}

TEST_F(RabbitmqSourceTest, PositionsGrowOverSessions) {
  broker_.make_queue("orders");
  publish_numbers("orders", 1, 3);
  auto source = open(reading("orders"));
  const std::int64_t last = read(*source, 3).back().position;
  ASSERT_TRUE(source->open());
  EXPECT_GT(read(*source, 3).front().position, last);
}

TEST_F(RabbitmqSourceTest, PositionsAreGreaterThanThoseOfAClockThatWasAhead) {
  broker_.make_queue("orders");
  publish_numbers("orders", 1, 2);
  const std::int64_t parked =
      (system_clock().wall() + std::chrono::hours(48)).time_since_epoch().count();
  RabbitmqSource source(reading("orders"), system_clock());
  source.begin_after(parked);
  ASSERT_TRUE(source.open());
  const auto events = read(source, 2);
  EXPECT_GT(events.front().position, parked);
  EXPECT_GT(events.back().position, events.front().position);
}

TEST_F(RabbitmqSourceTest, NoQueueAtAllIsRejected) {
  RabbitmqSource source(broker_.options(), system_clock());
  const Status opened = source.open();
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Errc::rejected);
}

}  // namespace
}  // namespace dovetail::rabbitmq
