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

}  // namespace
}  // namespace dovetail
