#include "dovetail/testing.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

namespace dovetail::test {
namespace {

NewEvent event_of(std::string_view key, std::string_view payload = "{}") {
  NewEvent event;
  event.aggregate_type = "order";
  event.aggregate_id = key;
  event.type = "placed";
  event.payload = payload;
  return event;
}

Fate fate_of(Consumer& consumer, const NewEvent& event) {
  const Result<Outcome> outcome = consumer.deliver(event);
  EXPECT_TRUE(outcome) << (outcome ? "" : outcome.error().text);
  return outcome ? outcome->fate : Fate::failed;
}

TEST(TestConsumer, AnEventThatComesAgainIsAppliedOnce) {
  int calls = 0;
  Consumer consumer([&](const Event& event) {
    EXPECT_EQ(event.payload, R"({"total":3})");
    ++calls;
    return Status{};
  });
  NewEvent event = event_of("1", R"({"total":3})");
  event.id = EventId::parse("018f0000-0000-7000-8000-000000000001").value();
  EXPECT_EQ(fate_of(consumer, event), Fate::applied);
  EXPECT_EQ(fate_of(consumer, event), Fate::duplicate);
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(consumer.applied(), 1U);
  EXPECT_EQ(consumer.duplicates(), 1U);
  event.payload = "{}";
  EXPECT_EQ(fate_of(consumer, event), Fate::parked) << "its id was used twice";
}

TEST(TestConsumer, SaysWhatBecameOfAFailure) {
  Status answer = fail(Errc::failed, "no stock");
  Consumer consumer([&](const Event& event) -> Status {
    if (event.payload == "[]") throw std::runtime_error("not an object");
    return answer;
  });
  const Result<Outcome> failed = consumer.deliver(event_of("1"));
  EXPECT_EQ(failed->fate, Fate::failed);
  EXPECT_EQ(failed->reason, "no stock");
  EXPECT_EQ(fate_of(consumer, event_of("1", "[]")), Fate::failed);
  answer = fail(Errc::unavailable, "the bank is closed");
  EXPECT_EQ(fate_of(consumer, event_of("1")), Fate::not_now);
  answer = fail(Errc::rejected, "never");
  EXPECT_EQ(fate_of(consumer, event_of("1")), Fate::parked);
  EXPECT_EQ(consumer.applied(), 0U);
  EXPECT_FALSE(consumer.deliver(event_of("1", ""))) << "not valid";
}

TEST(TestRelay, DeliversInTheOrderOfEachKey) {
  Relay relay;
  for (int i = 0; i < 50; ++i)
    ASSERT_TRUE(relay.publish(event_of(std::to_string(i % 3), std::to_string(i))));
  ASSERT_TRUE(relay.run());
  const std::vector<ReceivedEvent> received = relay.received();
  ASSERT_EQ(received.size(), 50U);
  for (std::size_t a = 0; a < received.size(); ++a)
    for (std::size_t b = a + 1; b < received.size(); ++b)
      EXPECT_FALSE(received[a].aggregate_id == received[b].aggregate_id &&
                   std::stoi(received[a].payload) > std::stoi(received[b].payload));
}

TEST(TestRelay, ParksWhatFailsWhileOthersPassAndReplaysIt) {
  bool fixed = false;
  Relay relay([&](const ReceivedEvent& event) -> Status {
    if (event.payload == "1" && !fixed) return fail(Errc::failed, "no stock");
    return {};
  });
  const Header headers[] = {{"traceparent", "00-1"}};
  NewEvent bad = event_of("bad", "1");
  bad.headers = headers;
  ASSERT_TRUE(relay.publish(bad));
  ASSERT_TRUE(relay.publish(event_of("bad", "2")));
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(relay.publish(event_of(std::to_string(i), "3")));
  const Status idle = relay.run();
  ASSERT_TRUE(idle) << idle.error().text;
  EXPECT_EQ(relay.received().size(), 20U);
  ASSERT_EQ(relay.parked().size(), 1U) << "the second one only waits behind it";
  EXPECT_EQ(relay.parked()[0].event.headers.at(0).value, "00-1");
  EXPECT_NE(relay.parked()[0].reason.find("no stock"), std::string::npos);

  fixed = true;
  ASSERT_TRUE(relay.replay(relay.parked()[0].event.id));
  ASSERT_TRUE(relay.run());
  EXPECT_EQ(relay.received().size(), 22U);
  EXPECT_EQ(relay.received().back().payload, "2");
  EXPECT_TRUE(relay.parked().empty());
}

TEST(TestRelay, AReceiverThatTakesNothingIsAnErrorAndNothingIsParked) {
  bool works = false;
  Relay relay([&](const ReceivedEvent&) -> Status {
    if (!works) return fail(Errc::failed, "all is broken");
    return {};
  });
  ASSERT_TRUE(relay.publish(event_of("1")));
  const Status ended = relay.run();
  ASSERT_FALSE(ended);
  EXPECT_NE(ended.error().text.find("all is broken"), std::string::npos) << ended.error().text;
  EXPECT_TRUE(relay.parked().empty());
  works = true;
  ASSERT_TRUE(relay.run());
  EXPECT_EQ(relay.received().size(), 1U);
}

}  // namespace
}  // namespace dovetail::test
