#include "postgres/wal/flush_position.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <vector>

namespace dovetail::postgres {
namespace {

TEST(FlushPosition, ATransactionCountsWhenAllOfItsEventsDo) {
  FlushPosition flush;
  flush.reached({100}, 3);
  EXPECT_EQ(flush.confirmed().value, 0U);
  flush.settled(2);
  EXPECT_EQ(flush.confirmed().value, 0U);
  flush.settled(3);
  EXPECT_EQ(flush.confirmed().value, 100U);
}

TEST(FlushPosition, ASignOfLifeCountsAtOnceWhenNothingIsInFlight) {
  FlushPosition flush;
  flush.reached({100}, 3);
  flush.settled(3);
  flush.reached({200}, 3);
  EXPECT_EQ(flush.confirmed().value, 200U);
}

TEST(FlushPosition, ASignOfLifeDoesNotPassAnEventInFlight) {
  FlushPosition flush;
  flush.reached({100}, 1);
  flush.reached({150}, 2);
  flush.reached({200}, 2);
  flush.settled(1);
  EXPECT_EQ(flush.confirmed().value, 100U);
  flush.settled(2);
  EXPECT_EQ(flush.confirmed().value, 200U);
}

TEST(FlushPosition, NeverGoesBack) {
  FlushPosition flush;
  flush.reached({100}, 0);
  flush.reached({50}, 0);
  flush.settled(5);
  flush.settled(2);
  flush.reached({120}, 5);
  EXPECT_EQ(flush.confirmed().value, 120U);
}

RC_GTEST_PROP(FlushPosition, IsTheLastPositionBehindWhichNothingIsUnsettled, ()) {
  struct Reached {
    std::uint64_t position, events;
  };
  FlushPosition flush;
  std::vector<Reached> all;
  std::uint64_t position = 0, events = 0, settled = 0;
  const auto steps = *rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 30));
  for (const int step : steps) {
    if (step < 10) {  // a transaction of so many events of interest
      events += static_cast<std::uint64_t>(step);
      all.push_back({position += 10, events});
      flush.reached({position}, events);
    } else if (step < 15) {
      all.push_back({position += 1, events});
      flush.reached({position}, events);
    } else {
      settled = std::min(events, settled + static_cast<std::uint64_t>(step - 15));
      flush.settled(settled);
    }
    std::uint64_t expected = 0;
    for (const Reached& one : all)
      if (one.events <= settled) expected = std::max(expected, one.position);
    RC_ASSERT(flush.confirmed().value == expected);
  }
}

}  // namespace
}  // namespace dovetail::postgres
