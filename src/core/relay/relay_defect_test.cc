// Events that the source cannot read.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "core/testing/test_relay.h"

namespace dovetail {
namespace {

// The third event of the key "bad".
std::string_view third_of_bad(const Event& event) {
  const bool broken = event.aggregate_id == "bad" && event.payload == "3";
  return broken ? "it has no type; check its producer" : "";
}

TEST_F(RelayTest, AnEventWithADefectIsParkedWithItsReasonAndHoldsUpOnlyItsKey) {
  for (const bool keeps_order : {true, false}) {
    MemorySink sink({.dedup = true, .keeps_order_on_failure = keeps_order});
    defect_of_ = third_of_bad;
    const int before = published_;
    version_.clear();
    for (int i = 0; i < 10; ++i) {
      publish("bad");
      publish("good");
    }
    start(sink);
    ASSERT_TRUE(eventually([&] { return reader_.settled() == published_; }));
    EXPECT_EQ(sink.received_count(), 12U) << "10 good ones and 2 before the defect";
    const std::vector<ParkedEvent> parked = reader_.parked();
    ASSERT_EQ(parked.size(), 8U);
    EXPECT_EQ(parked[0].event.id, numbered_id(before + 5));
    EXPECT_EQ(parked[0].state, ParkState::parked);
    EXPECT_EQ(parked[0].reason, "it has no type; check its producer");
    EXPECT_EQ(parked[0].attempts, 0U);
    for (std::size_t i = 1; i < parked.size(); ++i) {
      EXPECT_EQ(parked[i].state, ParkState::waiting);
    }

    ASSERT_TRUE(reader_.replay(numbered_id(before + 5), clock_.wall()));
    ASSERT_TRUE(eventually([&] { return sink.received_count() == 20; }));
    stop();
    expect_ordered(sink.received());
    EXPECT_EQ(std::exchange(notices_[RelayNotice::Kind::parked], 0), 1);
  }
  stop();
}

TEST_F(RelayTest, ADefectWithoutAKeyHoldsUpNothing) {
  MemorySink sink;
  defect_of_ = [](const Event& event) {
    return std::string_view(event.payload == "2" ? "it has no id; check its producer" : "");
  };
  publish("", 3);
  start(sink);
  ASSERT_TRUE(eventually([&] { return reader_.settled() == 3; }));
  stop();
  EXPECT_EQ(sink.received_count(), 2U);
  EXPECT_EQ(reader_.parked().size(), 1U);
}

// Confirms nothing until it is told to.
class PatientSink final : public Sink {
 public:
  Status open() override { return inner_.open(); }
  Status submit(Events events) override {
    submitted += events.size();
    return inner_.submit(events);
  }
  Result<bool> collect(std::span<Outcome> outcomes, Duration timeout) override {
    if (may_confirm) return inner_.collect(outcomes, timeout);
    std::this_thread::sleep_for(timeout);
    return false;
  }
  bool keeps_order_on_failure() const override { return true; }

  std::atomic<std::size_t> submitted = 0;
  std::atomic<bool> may_confirm = false;

 private:
  MemorySink inner_;
};

// Otherwise a crash would leave a parked event that can be replayed before earlier ones are read
// again.
TEST_F(RelayTest, ADefectIsNotParkedWhileWhatPrecedesItIsInFlight) {
  PatientSink sink;
  defect_of_ = third_of_bad;
  publish("bad", 5);
  start(sink);
  ASSERT_TRUE(eventually([&] { return metrics_.blocked_keys == 1; }));
  publish("good", 1);
  ASSERT_TRUE(eventually([&] { return sink.submitted == 3; }));
  EXPECT_TRUE(reader_.parked().empty());
  sink.may_confirm = true;
  ASSERT_TRUE(eventually([&] { return reader_.parked().size() == 3; }));
  ASSERT_TRUE(eventually([&] { return reader_.settled() == 6; }));
  stop();
}

TEST_F(RelayTest, ADefectBehindAnEventThatFailsWaitsForItsTurn) {
  for (const bool keeps_order : {true, false}) {
    MemorySink sink({.dedup = true, .keeps_order_on_failure = keeps_order});
    defect_of_ = third_of_bad;
    std::atomic<int> failures = 0;
    sink.decide_by([&](const Event& event) {
      if (event.payload != "2" || ++failures > 3) return Outcome{Fate::confirmed};
      return Outcome{Fate::failed, 0, "not now"};
    });
    version_.clear();
    const int before = published_;
    publish("bad", 5);
    start(sink);
    ASSERT_TRUE(eventually([&] { return reader_.settled() == published_; }));
    ASSERT_TRUE(eventually([&] { return sink.received_count() == 2; }));
    ASSERT_TRUE(reader_.replay(numbered_id(before + 3), clock_.wall()));
    ASSERT_TRUE(eventually([&] { return sink.received_count() == 5; }));
    stop();
    expect_ordered(sink.received());
  }
  stop();
}

}  // namespace
}  // namespace dovetail
