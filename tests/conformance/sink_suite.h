// What every sink must do. An adapter implements SinkUnderTest and instantiates the
// suite.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "core/event/batch.h"
#include "core/relay/sink.h"
#include "memory/stored_event.h"

namespace dovetail::conformance {

struct SinkAbilities {
  bool persistent = true;   // confirmed events are there after make()
  bool dedup = false;       // a known id comes back as `duplicate`
  bool can_refuse = false;  // make_poison() does something
  bool can_restart = false;
};

// One store that a sink delivers to.
class SinkUnderTest {
 public:
  virtual ~SinkUnderTest() = default;
  virtual SinkAbilities abilities() const = 0;
  // A new sink over the same store, as after a restart of the process.
  virtual std::unique_ptr<Sink> make() = 0;
  // The stored events, read without the sink, in order of arrival.
  virtual std::vector<StoredEvent> stored() = 0;
  // Changes the event so that the sink refuses it.
  virtual void make_poison(Event&) {}
  virtual void restart_server() {}
  // The largest payload of an event like this. 0: more than a test can send.
  virtual std::size_t payload_bytes_max(const Event&) { return 0; }
};

struct SinkCase {
  std::string name;
  std::unique_ptr<SinkUnderTest> (*make)();
};

class SinkSuite : public testing::TestWithParam<SinkCase> {
 protected:
  void SetUp() override {
    store_ = GetParam().make();
    reopen();
  }
  // Like a relay.
  Status open() {
    DOVETAIL_TRY(sink_->open());
    for (;;) {
      const Result<bool> opened = sink_->opened(std::chrono::milliseconds(20));
      if (!opened) return fail(opened.error());
      if (*opened) return {};
    }
  }
  void reopen() {
    sink_.reset();
    sink_ = store_->make();
    const Status opened = open();
    ASSERT_TRUE(opened) << opened.error().text;
  }

  const Event* event(std::string_view key, std::string_view payload, bool poison = false) {
    Event one;
    one.id.bytes[15] = static_cast<std::uint8_t>(++made_);
    one.id.bytes[14] = static_cast<std::uint8_t>(made_ >> 8);
    one.position = static_cast<std::int64_t>(made_);
    one.topic = "orders";
    one.aggregate_type = "order";
    one.aggregate_id = key;
    one.type = "changed";
    one.content_type = "application/json";
    one.payload = payload;
    one.created_at = WallTime(std::chrono::seconds(1'700'000'000));
    if (poison) store_->make_poison(one);
    Batch& batch = batches_.emplace_back();
    batch.append(one);
    return &batch.events()[0];
  }
  void submit(const std::vector<const Event*>& events) {
    const Status submitted = sink_->submit(events);
    ASSERT_TRUE(submitted) << submitted.error().text;
  }
  std::vector<Outcome> collect(std::size_t count) {
    std::vector<Outcome> outcomes(count);
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(90);
    while (std::chrono::steady_clock::now() < end) {
      const Result<bool> known = sink_->collect(outcomes, std::chrono::milliseconds(100));
      EXPECT_TRUE(known) << (known ? "" : known.error().text);
      if (!known || *known) return outcomes;
    }
    ADD_FAILURE() << "no outcome within the limit";
    return outcomes;
  }
  std::vector<std::string> stored_payloads() {
    std::vector<std::string> payloads;
    for (const StoredEvent& one : store_->stored()) payloads.push_back(one.payload);
    return payloads;
  }
  bool safe(const Outcome& outcome) const {
    return outcome.fate == Fate::confirmed || outcome.fate == Fate::duplicate;
  }

  std::unique_ptr<SinkUnderTest> store_;
  std::unique_ptr<Sink> sink_;
  std::deque<Batch> batches_;
  std::uint64_t made_ = 0;
};

using Payloads = std::vector<std::string>;

TEST_P(SinkSuite, ConfirmedMeansReadableFromOutside) {
  submit({event("a", "1"), event("b", "2")});
  for (const Outcome& outcome : collect(2)) EXPECT_EQ(outcome.fate, Fate::confirmed);
  EXPECT_EQ(stored_payloads(), (Payloads{"1", "2"}));
}

TEST_P(SinkSuite, WhatIsConfirmedOutlivesTheProcess) {
  if (!store_->abilities().persistent) GTEST_SKIP() << "this store does not persist";
  submit({event("a", "1")});
  ASSERT_EQ(collect(1)[0].fate, Fate::confirmed);
  reopen();
  EXPECT_EQ(stored_payloads(), (Payloads{"1"}));
}

TEST_P(SinkSuite, NothingSubmittedMeansNothingToCollect) {
  std::vector<Outcome> none;
  const Result<bool> known = sink_->collect(none, std::chrono::milliseconds(1));
  ASSERT_TRUE(known);
  EXPECT_FALSE(*known);
}

TEST_P(SinkSuite, SeveralBatchesInFlightAreCollectedInOrder) {
  submit({event("a", "1"), event("b", "2")});
  submit({event("a", "3")});
  submit({event("c", "4"), event("a", "5"), event("b", "6")});
  for (const std::size_t count : {2U, 1U, 3U})
    for (const Outcome& outcome : collect(count)) EXPECT_EQ(outcome.fate, Fate::confirmed);
  std::vector<std::string> of_a;
  for (const StoredEvent& one : store_->stored())
    if (one.aggregate_id == "a") of_a.push_back(one.payload);
  EXPECT_EQ(of_a, (Payloads{"1", "3", "5"}));
}

TEST_P(SinkSuite, ADuplicateIsToldWhereTheSinkKnowsIt) {
  if (!store_->abilities().dedup) GTEST_SKIP() << "this sink does not know duplicates";
  const Event* one = event("a", "1");
  submit({one});
  EXPECT_EQ(collect(1)[0].fate, Fate::confirmed);
  submit({one, event("a", "2")});
  const auto outcomes = collect(2);
  EXPECT_EQ(outcomes[0].fate, Fate::duplicate);
  EXPECT_EQ(outcomes[1].fate, Fate::confirmed);
  EXPECT_EQ(stored_payloads(), (Payloads{"1", "2"}));
}

TEST_P(SinkSuite, ADuplicateIsToldAfterARestartToo) {
  if (!store_->abilities().dedup || !store_->abilities().persistent)
    GTEST_SKIP() << "this sink does not know old duplicates";
  const Event* one = event("a", "1");
  submit({one});
  collect(1);
  reopen();
  submit({one});
  EXPECT_EQ(collect(1)[0].fate, Fate::duplicate);
}

TEST_P(SinkSuite, TheSameEventTwiceInOneBatchIsStoredOnceWhereDuplicatesAreKnown) {
  if (!store_->abilities().dedup) GTEST_SKIP() << "this sink does not know duplicates";
  const Event* one = event("a", "1");
  submit({one, one});
  for (const Outcome& outcome : collect(2)) EXPECT_TRUE(safe(outcome));
  EXPECT_EQ(stored_payloads(), (Payloads{"1"}));
}

TEST_P(SinkSuite, OpeningAgainForgetsWhatWasSubmitted) {
  submit({event("a", "1")});
  submit({event("a", "2")});
  ASSERT_TRUE(open());
  submit({event("b", "3")});
  EXPECT_EQ(collect(1)[0].fate, Fate::confirmed);
  std::vector<Outcome> none(1);
  const Result<bool> known = sink_->collect(none, std::chrono::milliseconds(1));
  ASSERT_TRUE(known);
  EXPECT_FALSE(*known) << "nothing else is in flight";
}

TEST_P(SinkSuite, WhatIsSentAgainAfterOpeningAgainIsSafe) {
  const Event* one = event("a", "1");
  submit({one});
  ASSERT_TRUE(open());
  submit({one});
  EXPECT_TRUE(safe(collect(1)[0]));
  EXPECT_GE(store_->stored().size(), 1U);
}

TEST_P(SinkSuite, ARefusedEventDoesNotHurtItsNeighbours) {
  if (!store_->abilities().can_refuse) GTEST_SKIP() << "nothing is refused here";
  submit({event("a", "1"), event("bad", "2", true), event("c", "3")});
  const auto outcomes = collect(3);
  EXPECT_EQ(outcomes[0].fate, Fate::confirmed);
  EXPECT_TRUE(outcomes[1].fate == Fate::rejected || outcomes[1].fate == Fate::failed ||
              outcomes[1].fate == Fate::busy);
  EXPECT_FALSE(outcomes[1].reason.empty());
  EXPECT_EQ(outcomes[2].fate, Fate::confirmed);
  EXPECT_EQ(stored_payloads(), (Payloads{"1", "3"}));
}

TEST_P(SinkSuite, AReasonNeverContainsThePayload) {
  if (!store_->abilities().can_refuse) GTEST_SKIP() << "nothing is refused here";
  submit({event("bad", "secret-payload", true)});
  EXPECT_EQ(collect(1)[0].reason.find("secret-payload"), std::string::npos);
}

TEST_P(SinkSuite, OrderIsKeptBehindAFailureWhereTheSinkSaysSo) {
  if (!store_->abilities().can_refuse || !sink_->keeps_order_on_failure())
    GTEST_SKIP() << "the relay keeps one event of a key in flight instead";
  submit({event("k", "1", true), event("k", "2"), event("other", "3")});
  submit({event("k", "4"), event("other", "5")});
  const auto first = collect(3);
  const auto second = collect(2);
  EXPECT_FALSE(safe(first[0]));
  EXPECT_EQ(first[1].fate, Fate::again);
  EXPECT_EQ(second[0].fate, Fate::again) << "it was submitted before the failure was known";
  EXPECT_EQ(stored_payloads(), (Payloads{"3", "5"}));
  // Events submitted after the failure was collected are tried again.
  submit({event("k", "6")});
  EXPECT_EQ(collect(1)[0].fate, Fate::confirmed);
}

TEST_P(SinkSuite, EveryFieldArrivesByteForByte) {
  const std::string payload("x\0y\xff\xfe", 5);
  Event one = *event("k", payload);
  one.headers = "{\"trace\":\"00-ab\"}";
  one.aggregate_version = 12;
  Batch& batch = batches_.emplace_back();
  batch.append(one);
  const Event& sent = batch.events()[0];
  submit({&sent});
  ASSERT_EQ(collect(1)[0].fate, Fate::confirmed);
  const auto stored = store_->stored();
  ASSERT_EQ(stored.size(), 1U);
  EXPECT_EQ(stored[0].id, sent.id);
  EXPECT_EQ(stored[0].payload, payload);
  EXPECT_EQ(stored[0].headers, sent.headers);
  EXPECT_EQ(stored[0].topic, sent.topic);
  EXPECT_EQ(stored[0].aggregate_type, sent.aggregate_type);
  EXPECT_EQ(stored[0].aggregate_id, sent.aggregate_id);
  EXPECT_EQ(stored[0].type, sent.type);
  EXPECT_EQ(stored[0].content_type, sent.content_type);
  EXPECT_EQ(stored[0].aggregate_version, sent.aggregate_version);
}

TEST_P(SinkSuite, ManyEventsInManyBatchesAllArriveInOrder) {
  for (int b = 0; b < 20; ++b) {
    std::vector<const Event*> events;
    for (int i = 0; i < 50; ++i) events.push_back(event("k", std::to_string(b * 50 + i)));
    submit(events);
    for (const Outcome& outcome : collect(50)) ASSERT_EQ(outcome.fate, Fate::confirmed);
  }
  const auto payloads = stored_payloads();
  ASSERT_EQ(payloads.size(), 1000U);
  for (std::size_t i = 0; i < payloads.size(); ++i) ASSERT_EQ(payloads[i], std::to_string(i));
}

TEST_P(SinkSuite, ARestartOfTheServerLosesNothingConfirmed) {
  if (!store_->abilities().can_restart) GTEST_SKIP() << "there is no server to restart";
  submit({event("a", "1")});
  collect(1);
  store_->restart_server();
  reopen();
  EXPECT_EQ(stored_payloads(), (Payloads{"1"}));
}

}  // namespace dovetail::conformance
