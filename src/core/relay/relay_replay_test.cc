// What the sink is told about an event that an operator replayed.
#include <gtest/gtest.h>

#include <mutex>
#include <vector>

#include "core/testing/test_relay.h"

namespace dovetail {
namespace {

TEST_F(RelayTest, TheSinkIsToldOfAReplayAndOfTheSameOneWhenItIsTriedAgain) {
  MemorySink sink;
  std::mutex mutex;
  std::vector<std::uint32_t> told;
  std::atomic<bool> rejects = true;
  std::atomic<int> failures = 0;
  sink.decide_by([&](const Event& event) {
    const std::lock_guard lock(mutex);
    told.push_back(event.replays);
    if (rejects) return Outcome{Fate::rejected, 0, "not as it is"};
    if (failures-- > 0) return Outcome{Fate::again, 0, "not now"};
    return Outcome{Fate::confirmed};
  });
  publish("a");
  start(sink);
  ASSERT_TRUE(eventually([&] { return reader_.parked().size() == 1; }));
  failures = 2;
  rejects = false;
  ASSERT_TRUE(reader_.replay(numbered_id(1), clock_.wall()));
  ASSERT_TRUE(eventually([&] { return reader_.parked().empty(); }));
  stop();
  EXPECT_EQ(told, (std::vector<std::uint32_t>{0, 1, 1, 1}));
}

// An operator has decided about this one.
TEST_F(RelayTest, AReplayGoesOutThoughTheFilterLeavesItOutNow) {
  MemorySink sink;
  std::atomic<bool> rejects = true;
  sink.decide_by([&](const Event&) {
    return rejects ? Outcome{Fate::rejected, 0, "not as it is"} : Outcome{Fate::confirmed};
  });
  publish("a");
  start(sink);
  ASSERT_TRUE(eventually([&] { return reader_.parked().size() == 1; }));
  stop();
  rejects = false;
  options_.filter.types = {"no such type"};
  publish("a", 2);
  ASSERT_TRUE(reader_.replay(numbered_id(1), clock_.wall()));
  start(sink);
  ASSERT_TRUE(eventually([&] { return reader_.parked().empty() && reader_.settled() == 3; }));
  stop();
  EXPECT_EQ(metrics_.replayed, 1U);
  EXPECT_EQ(metrics_.skipped, 2U);
}

// Takes one batch at a time, and waits while the test says so.
class WaitingSink final : public Sink {
 public:
  Status open() override { return {}; }
  Status submit(Events events) override {
    submitted_.assign(events.begin(), events.end());
    ++submissions;
    return {};
  }
  Result<bool> collect(std::span<Outcome> outcomes, Duration) override {
    if (waits) {
      std::this_thread::sleep_for(1ms);
      return false;
    }
    const std::lock_guard lock(mutex);
    for (std::size_t i = 0; i < submitted_.size(); ++i) {
      const std::string payload(submitted_[i]->payload);
      const bool is_bad = payload == fails_once;
      outcomes[i] = is_bad ? Outcome{Fate::failed, 0, "not now"} : Outcome{Fate::confirmed};
      if (is_bad) fails_once.clear();
      if (!is_bad) confirmed.push_back(payload);
    }
    return true;
  }
  bool keeps_order_on_failure() const override { return true; }

  std::atomic<bool> waits = false;
  std::atomic<int> submissions = 0;
  std::mutex mutex;
  std::string fails_once{};
  std::vector<std::string> confirmed{};

 private:
  std::vector<const Event*> submitted_;
};

// As a member of a consumer group does that was slow, and does not know yet that it has lost the
// key.
TEST_F(RelayTest, WhenSomebodyElseHasParkedEventsOfAKeyLaterOnesStillWaitForOneThatFails) {
  options_.batch_events_max = 1;
  options_.batches_in_flight_max = 1;
  options_.aside_after = 1h;
  const auto park = [&](std::uint64_t id, std::string_view payload, Duration delay) {
    Event event;
    event.id = numbered_id(id);
    event.aggregate_type = "order";
    event.aggregate_id = "a";
    event.key_hash = key_hash("order", "a");
    event.type = "Changed";
    event.payload = payload;
    event.position = static_cast<std::int64_t>(id);
    const ParkRequest request{&event, ParkState::waiting, 0, delay, "slow"};
    ASSERT_TRUE(MemoryParking(reader_).park({&request, 1}));
  };
  WaitingSink sink;
  publish("a");
  start(sink);
  ASSERT_TRUE(eventually([&] { return reader_.settled() == 1; }));
  sink.waits = true;
  park(1, "1", {});
  ASSERT_TRUE(eventually([&] { return sink.submissions == 2; }));
  park(9, "9", 4ms);
  publish("a", 2);
  ASSERT_TRUE(eventually([&] { return metrics_.read == 3; }));
  sink.fails_once = "2";
  sink.waits = false;
  ASSERT_TRUE(eventually([&] { return reader_.settled() == 3 && reader_.parked().empty(); }));
  stop();
  EXPECT_EQ(sink.confirmed, (std::vector<std::string>{"1", "1", "2", "3", "9"}));
}

}  // namespace
}  // namespace dovetail
