// What the real server refuses, and what then happens to the events.
#include "rabbitmq/sink.h"

#include <gtest/gtest.h>

#include <deque>
#include <string>
#include <vector>

#include "core/event/batch.h"
#include "kit/events.h"
#include "rabbitmq/test_broker.h"

namespace dovetail::rabbitmq {
namespace {

using std::chrono::seconds;

class RabbitmqSinkTest : public testing::Test {
 protected:
  void open(Options options) {
    auto made = RabbitmqSink::make(std::move(options), system_clock());
    ASSERT_TRUE(made) << made.error().text;
    sink_ = std::move(*made);
    const Status opened = sink_->open();
    ASSERT_TRUE(opened) << opened.error().text;
  }
  Options to_exchange(const std::string& exchange) const {
    Options options = broker_.options();
    options.exchange = exchange;
    return options;
  }

  const Event* event(std::string_view topic, std::string_view payload = "{}",
                     std::string_view type = "changed", std::string_view headers = {}) {
    Event one = event_with(topic, "7", payload, headers);
    one.type = type;
    one.created_at = WallTime(seconds(1'700'000'000));
    return &events_.add(one);
  }

  Result<std::vector<Outcome>> try_send(const std::vector<const Event*>& events) {
    if (const Status submitted = sink_->submit(events); !submitted) return fail(submitted.error());
    std::vector<Outcome> outcomes(events.size());
    const auto end = std::chrono::steady_clock::now() + seconds(60);
    while (std::chrono::steady_clock::now() < end) {
      const Result<bool> known = sink_->collect(outcomes, std::chrono::milliseconds(100));
      if (!known) return fail(known.error());
      if (*known) return outcomes;
    }
    return fail(Errc::unavailable, "no outcome within the limit");
  }
  std::vector<Outcome> send(const std::vector<const Event*>& events) {
    Result<std::vector<Outcome>> outcomes = try_send(events);
    EXPECT_TRUE(outcomes) << (outcomes ? "" : outcomes.error().text);
    return outcomes ? std::move(*outcomes) : std::vector<Outcome>(events.size());
  }
  // The server closed the channel: nothing failed, and all events are sent again.
  static void expect_doubt(const std::vector<Outcome>& outcomes) {
    for (const Outcome& one : outcomes)
      EXPECT_TRUE(one.fate == Fate::confirmed || one.fate == Fate::again) << one.reason;
    EXPECT_EQ(outcomes[1].fate, Fate::again) << outcomes[1].reason;
  }
  static void expect_reason(const Outcome& outcome, Fate fate, const std::string& text) {
    EXPECT_EQ(outcome.fate, fate) << outcome.reason;
    EXPECT_NE(outcome.reason.find(text), std::string::npos) << outcome.reason;
    EXPECT_NE(outcome.reason.find("check"), std::string::npos) << outcome.reason;
  }

  TestBroker broker_;
  std::unique_ptr<RabbitmqSink> sink_;
  TestEvents events_;
};

TEST_F(RabbitmqSinkTest, AMessageWithoutAQueueFindsTheBrokerBusyAndIsTakenOnceTheQueueIsThere) {
  broker_.make_queue("orders");
  open(broker_.options());
  const Event* lost = event("no.such.queue");
  const auto outcomes = send({event("orders"), lost, event("orders")});
  EXPECT_EQ(outcomes[0].fate, Fate::confirmed);
  expect_reason(outcomes[1], Fate::busy, "no RabbitMQ queue");
  EXPECT_EQ(outcomes[2].fate, Fate::confirmed);
  broker_.make_queue("no.such.queue");
  EXPECT_EQ(send({lost})[0].fate, Fate::confirmed);
}

TEST_F(RabbitmqSinkTest, ABindingThatIsTakenAwayIsNoticedFromThenOn) {
  broker_.make_exchange("events");
  broker_.make_queue("orders");
  broker_.bind("events", "orders", "orders.*");
  open(to_exchange("events"));
  EXPECT_EQ(send({event("orders.one")})[0].fate, Fate::confirmed);
  expect_reason(send({event("other.one")})[0], Fate::busy, "other.one");
  broker_.remove_queue("orders");
  expect_reason(send({event("orders.one")})[0], Fate::busy, "no RabbitMQ queue");
}

TEST_F(RabbitmqSinkTest, AMissingExchangeIsBusyForItsEventsAndNoOthers) {
  broker_.make_exchange("good", "fanout");
  broker_.make_queue("all");
  broker_.bind("good", "all", "");
  open(to_exchange("{type}"));
  const Event* early = event("x", "1", "missing");
  const auto outcomes =
      send({event("x", "0", "good"), early, event("x", "2", "missing"), event("x", "3", "good")});
  EXPECT_EQ(outcomes[0].fate, Fate::confirmed);
  expect_reason(outcomes[1], Fate::busy, "no exchange 'missing'");
  expect_reason(outcomes[2], Fate::busy, "no exchange 'missing'");
  EXPECT_EQ(outcomes[3].fate, Fate::confirmed);
  broker_.make_exchange("missing", "fanout");
  broker_.bind("missing", "all", "");
  EXPECT_EQ(send({early})[0].fate, Fate::confirmed);
}

TEST_F(RabbitmqSinkTest, AnExchangeThatIsDeletedLeavesDoubtAndIsThenBusyForItsOwnEventsOnly) {
  broker_.make_exchange("good", "fanout");
  broker_.make_exchange("doomed", "fanout");
  broker_.make_queue("all");
  broker_.bind("good", "all", "");
  broker_.bind("doomed", "all", "");
  open(to_exchange("{type}"));
  EXPECT_EQ(send({event("x", "1", "good"), event("x", "2", "doomed")})[1].fate, Fate::confirmed);
  broker_.remove_exchange("doomed");
  const std::vector<const Event*> events = {event("x", "3", "good"), event("x", "4", "doomed"),
                                            event("x", "5", "good")};
  expect_doubt(send(events));
  const auto outcomes = send(events);
  EXPECT_EQ(outcomes[0].fate, Fate::confirmed);
  expect_reason(outcomes[1], Fate::busy, "doomed");
  EXPECT_EQ(outcomes[2].fate, Fate::confirmed);
}

TEST_F(RabbitmqSinkTest, AnExchangeThatMustNotBeWrittenToIsBusyForItsOwnEventsUntilItMay) {
  broker_.make_exchange("good", "fanout");
  broker_.make_exchange("forbidden", "fanout");
  broker_.make_queue("all");
  broker_.bind("good", "all", "");
  broker_.bind("forbidden", "all", "");
  broker_.put("users/narrow", R"({"password":"narrow","tags":""})");
  broker_.allow("narrow", "good");
  Options options = to_exchange("{type}");
  options.user = options.password = "narrow";
  open(options);
  const std::vector<const Event*> events = {event("x", "1", "good"), event("x", "2", "forbidden"),
                                            event("x", "3", "good")};
  expect_doubt(send(events));
  auto outcomes = send(events);
  EXPECT_EQ(outcomes[0].fate, Fate::confirmed);
  expect_reason(outcomes[1], Fate::busy, "permissions");
  EXPECT_EQ(outcomes[2].fate, Fate::confirmed);
  // It is known now, so no neighbour is in doubt any more.
  outcomes = send({events[0], events[1], events[1], events[2]});
  EXPECT_EQ(outcomes[0].fate, Fate::confirmed);
  expect_reason(outcomes[1], Fate::busy, "permissions");
  expect_reason(outcomes[2], Fate::busy, "permissions");
  EXPECT_EQ(outcomes[3].fate, Fate::confirmed);
  broker_.allow("narrow", ".*");
  outcomes = send(events);
  for (const Outcome& outcome : outcomes) EXPECT_EQ(outcome.fate, Fate::confirmed);
}

TEST_F(RabbitmqSinkTest, AFullQueueThatRejectsIsBusyUntilThereIsRoom) {
  broker_.make_queue("full", R"({"x-max-length":1,"x-overflow":"reject-publish"})");
  broker_.make_queue("orders");
  open(broker_.options());
  EXPECT_EQ(send({event("full")})[0].fate, Fate::confirmed);
  const auto outcomes = send({event("orders"), event("full"), event("orders")});
  EXPECT_EQ(outcomes[0].fate, Fate::confirmed);
  expect_reason(outcomes[1], Fate::busy, "nack");
  EXPECT_EQ(outcomes[2].fate, Fate::confirmed);
  broker_.remove("queues/" + broker_.host() + "/full/contents");
  EXPECT_EQ(send({event("full")})[0].fate, Fate::confirmed);
}

TEST_F(RabbitmqSinkTest, APayloadBeyondTheConfiguredLimitIsRejectedAlone) {
  broker_.make_queue("orders");
  Options options = broker_.options();
  options.payload_bytes_max = 1000;
  open(options);
  const auto outcomes =
      send({event("orders", std::string(999, 'x')), event("orders", std::string(1000, 'x')),
            event("orders", std::string(1001, 'x'))});
  EXPECT_EQ(outcomes[0].fate, Fate::confirmed);
  EXPECT_EQ(outcomes[1].fate, Fate::confirmed);
  expect_reason(outcomes[2], Fate::rejected, "1001 bytes");
}

TEST_F(RabbitmqSinkTest, TheServersOwnLimitIsLearntAndItsEventRejected) {
  constexpr std::size_t kServerMax = 4 << 20;  // as the test server is configured
  broker_.make_queue("orders");
  open(broker_.options());
  const Event* at_limit = event("orders", std::string(kServerMax, 'x'));
  const Event* beyond = event("orders", std::string(kServerMax + 1, 'x'));
  EXPECT_EQ(send({event("orders", std::string(kServerMax - 1, 'x')), at_limit})[1].fate,
            Fate::confirmed);
  const std::vector<const Event*> events = {event("orders"), beyond, event("orders")};
  expect_doubt(send(events));
  const auto outcomes = send(events);
  EXPECT_EQ(outcomes[0].fate, Fate::confirmed);
  expect_reason(outcomes[1], Fate::rejected, "max_message_size");
  EXPECT_EQ(outcomes[2].fate, Fate::confirmed);
  EXPECT_EQ(send({at_limit})[0].fate, Fate::confirmed) << "the limit itself is still allowed";
  Event replayed = *beyond;
  replayed.replays = 1;
  const auto again = send({event("orders"), &replayed, event("orders")});
  EXPECT_EQ(again[0].fate, Fate::confirmed);
  expect_reason(again[1], Fate::rejected, "larger than configured max size");
  EXPECT_EQ(again[2].fate, Fate::confirmed) << "the server was asked by the replay alone";
}

TEST_F(RabbitmqSinkTest, NamesBeyond255BytesAreRejectedBeforeAnythingIsSent) {
  broker_.make_exchange("events");
  broker_.make_queue("all");
  broker_.bind("events", "all", "#");
  open(to_exchange("events"));
  const auto outcomes =
      send({event(std::string(255, 't')), event(std::string(256, 't')),
            event("x", "{}", "changed", "{\"" + std::string(256, 'h') + "\":\"v\"}"), event("x")});
  EXPECT_EQ(outcomes[0].fate, Fate::confirmed);
  expect_reason(outcomes[1], Fate::rejected, "routing key has 256 bytes");
  expect_reason(outcomes[2], Fate::rejected, "header");
  EXPECT_EQ(outcomes[3].fate, Fate::confirmed);
}

TEST_F(RabbitmqSinkTest, HeadersThatFillMoreThanAFrameAreRejected) {
  broker_.make_queue("orders");
  open(broker_.options());
  const auto headers = [](std::size_t size) {
    return "{\"h\":\"" + std::string(size, 'v') + "\"}";
  };
  const auto outcomes = send({event("orders", "{}", "changed", headers(100'000)),
                              event("orders", "{}", "changed", headers(140'000)), event("orders")});
  EXPECT_EQ(outcomes[0].fate, Fate::confirmed);
  expect_reason(outcomes[1], Fate::rejected, "frame_max");
  EXPECT_EQ(outcomes[2].fate, Fate::confirmed);
}

TEST_F(RabbitmqSinkTest, WithDeclareWhatIsMissingIsMade) {
  Options options = broker_.options();
  options.declare = true;
  options.queue_type = "classic";
  open(options);
  EXPECT_EQ(send({event("made.here")})[0].fate, Fate::confirmed);
  EXPECT_TRUE(broker_.queue("made.here").get("durable").is_true());
  broker_.remove_queue("made.here");
  EXPECT_EQ(send({event("made.here")})[0].fate, Fate::busy) << "it was there before";
  EXPECT_EQ(send({event("made.here")})[0].fate, Fate::confirmed) << "it is made again";
  options.exchange = "made.exchange";
  open(options);
  expect_reason(send({event("nobody.listens")})[0], Fate::busy, "no RabbitMQ queue");
  EXPECT_EQ(look_up(broker_.options(), "exchanges/" + broker_.host() + "/made.exchange")
                .value()
                .get("type")
                .text(),
            "topic");
}

TEST_F(RabbitmqSinkTest, WithDeclareAQueueOfAnotherKindIsUsedAsItIs) {
  broker_.make_queue("orders", R"({"x-max-length":1000})");
  Options options = broker_.options();
  options.declare = true;
  open(options);
  EXPECT_EQ(send({event("orders"), event("orders")})[1].fate, Fate::confirmed);
}

TEST_F(RabbitmqSinkTest, EmptyAndLargePayloadsArriveByteForByte) {
  broker_.make_queue("orders");
  open(broker_.options());
  std::string large(300'000, '\0');
  for (std::size_t i = 0; i < large.size(); ++i) large[i] = static_cast<char>(i * 7 % 251);
  const auto outcomes = send({event("orders", ""), event("orders", large)});
  EXPECT_EQ(outcomes[0].fate, Fate::confirmed);
  EXPECT_EQ(outcomes[1].fate, Fate::confirmed);
  const auto messages = broker_.messages("orders");
  ASSERT_EQ(messages.size(), 2U);
  EXPECT_EQ(from_base64(messages[0].get("payload").text()), "");
  EXPECT_TRUE(from_base64(messages[1].get("payload").text()) == large);
}

TEST_F(RabbitmqSinkTest, OtherFormatsCarryTheKeyInAHeader) {
  broker_.make_queue("orders");
  Options options = broker_.options();
  options.message.format = MessageFormat::debezium;
  open(options);
  const Event* one = event("orders");
  EXPECT_EQ(send({one})[0].fate, Fate::confirmed);
  const auto messages = broker_.messages("orders");
  ASSERT_EQ(messages.size(), 1U);
  const Json headers = messages[0].get("properties").get("headers");
  EXPECT_EQ(headers.get("key").text(), "7");
  EXPECT_EQ(headers.get("id").text(), one->id.to_string());
  EXPECT_EQ(messages[0].get("properties").get("timestamp").text(), "1700000000");
}

TEST_F(RabbitmqSinkTest, AConnectionThatIsIdleForLongIsStillGood) {
  broker_.make_queue("orders");
  Options options = broker_.options();
  options.heartbeat = seconds(1);
  open(options);
  // Nobody calls the sink for longer than two heartbeats, after which the server would give up.
  std::this_thread::sleep_for(seconds(4));
  EXPECT_EQ(send({event("orders")})[0].fate, Fate::confirmed);
}

TEST_F(RabbitmqSinkTest, AWrongTemplateIsRejected) {
  Options options = broker_.options();
  options.routing_key = "{nothing}";
  const auto made = RabbitmqSink::make(options, system_clock());
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, Errc::rejected);
}

}  // namespace
}  // namespace dovetail::rabbitmq
