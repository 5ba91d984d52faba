#include "postgres/outbox/progress.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <vector>

namespace dovetail::postgres {
namespace {

TablePosition number(std::int64_t seq) { return TablePosition{"1:1:", "5:5:", seq, seq}; }
TablePosition shown(const std::string& snapshot) { return TablePosition{snapshot}; }

// The position that a restart would find.
std::string restarts_at(Progress& progress) {
  EXPECT_TRUE(progress.count_streamed());
  return progress.settled_to().prev;
}

void settle(Progress& progress, std::size_t events, Settled as = Settled::delivered) {
  progress.settle(std::vector<Settled>(events, as));
}

TEST(Progress, MovesWhenEverythingReadBeforeItIsSettled) {
  Progress progress(true);
  progress.begin(number(1));
  progress.add(2);
  progress.reach(number(2));
  progress.add(1);
  progress.reach(number(3));
  EXPECT_EQ(progress.read_to(), number(3));
  settle(progress, 1);
  EXPECT_EQ(progress.settled_to(), number(1));
  settle(progress, 1);
  EXPECT_EQ(progress.settled_to(), number(2));
  EXPECT_FALSE(progress.is_level());
  settle(progress, 1);
  EXPECT_EQ(progress.settled_to(), number(3));
  EXPECT_TRUE(progress.is_level());
}

TEST(Progress, MovesAtOnceOverNothingWhenNothingIsInFlight) {
  Progress progress(true);
  progress.begin(number(1));
  progress.reach(number(2));
  EXPECT_EQ(progress.settled_to(), number(2));
  EXPECT_TRUE(progress.has_moved());
  progress.add(1);
  progress.reach(number(3));
  progress.reach(number(4));
  EXPECT_EQ(progress.settled_to(), number(2));
  settle(progress, 1);
  EXPECT_EQ(progress.settled_to(), number(4)) << "nothing lies between the two";
}

TEST(Progress, IsNotHeldBackByWhatIsReadLater) {
  Progress progress(true);
  progress.begin(number(1));
  progress.add(1);
  progress.reach(number(2));
  progress.add(1000);
  settle(progress, 1);
  EXPECT_EQ(progress.settled_to(), number(2));
  progress.reach(number(3));
  EXPECT_EQ(progress.settled_to(), number(2));
}

TEST(Progress, IsNoNewsOnceWrittenUntilMoreIsSettled) {
  Progress progress(true);
  progress.begin(number(1));
  EXPECT_FALSE(progress.has_news());
  progress.add(5);
  progress.reach(number(2));
  EXPECT_FALSE(progress.has_news());
  settle(progress, 1);
  settle(progress, 2, Settled::parked);
  EXPECT_TRUE(progress.has_news()) << "events count, though nothing is reached";
  EXPECT_FALSE(progress.has_moved());
  EXPECT_EQ(progress.events(), 3);
  EXPECT_EQ(progress.parked(), 2);
  progress.written();
  EXPECT_FALSE(progress.has_news());
  EXPECT_EQ(progress.events(), 0);
  EXPECT_EQ(progress.parked(), 0);
  settle(progress, 2);
  EXPECT_TRUE(progress.has_moved());
  progress.written();
  EXPECT_FALSE(progress.has_news());
}

TEST(Progress, OfANewSessionKnowsNothingOfTheOneBefore) {
  Progress progress(true);
  progress.begin(number(1));
  progress.begin_stream({10}, WalPosition{5});
  progress.add(3, 77);
  progress.reach(number(2));
  settle(progress, 1);
  progress.begin(number(5));
  EXPECT_FALSE(progress.has_news());
  EXPECT_EQ(progress.read_to(), number(5));
  EXPECT_EQ(progress.reportable(), WalPosition{});
  EXPECT_EQ(progress.recorded_to(), WalPosition{});
  progress.add(1);
  progress.reach(number(6));
  settle(progress, 1);
  EXPECT_EQ(progress.settled_to(), number(6));
}

RC_GTEST_PROP(Progress, IsTheLastPositionBeforeWhichNothingIsUnsettled, ()) {
  struct Reached {
    std::size_t events;
    std::int64_t seq;
  };
  Progress progress(true);
  progress.begin(number(0));
  std::vector<Reached> all{{0, 0}};
  std::size_t read = 0, settled = 0;
  std::int64_t seq = 0;
  const auto steps = *rc::gen::container<std::vector<std::size_t>>(rc::gen::inRange(0U, 30U));
  for (const std::size_t step : steps) {
    if (step < 10) {
      read += step;
      progress.add(step);
    } else if (step < 20) {
      all.push_back({read, ++seq});
      progress.reach(number(seq));
    } else {
      const std::size_t more = std::min(read - settled, step - 20);
      settled += more;
      settle(progress, more);
    }
    std::int64_t expected = 0;
    for (const Reached& one : all)
      if (one.events <= settled) expected = one.seq;
    RC_ASSERT(progress.settled_to() == number(expected));
    RC_ASSERT(progress.read_to() == number(seq));
  }
}

// A stream through a temporary slot that begins at 10.
Progress streaming() {
  Progress progress(true);
  progress.begin(shown("100:100:"));
  progress.begin_stream({10}, std::nullopt);
  return progress;
}

TEST(WalProgress, CountsATransactionWhenAllOfItsEventsAreSettled) {
  Progress progress = streaming();
  progress.add(3, 100);
  progress.reach(WalPosition{100});
  EXPECT_EQ(progress.wal_settled_to().value, 10U);
  settle(progress, 2);
  EXPECT_EQ(progress.wal_settled_to().value, 10U);
  settle(progress, 1);
  EXPECT_EQ(progress.wal_settled_to().value, 100U);
}

TEST(WalProgress, CountsASignOfLifeAtOnceWhenNothingIsInFlight) {
  Progress progress = streaming();
  progress.add(3, 100);
  progress.reach(WalPosition{100});
  settle(progress, 3);
  progress.reach(WalPosition{200});
  EXPECT_EQ(progress.wal_settled_to().value, 200U);
}

TEST(WalProgress, DoesNotPassAnEventInFlightByASignOfLife) {
  Progress progress = streaming();
  progress.add(1, 100);
  progress.reach(WalPosition{100});
  progress.add(1, 101);
  progress.reach(WalPosition{150});
  progress.reach(WalPosition{200});
  settle(progress, 1);
  EXPECT_EQ(progress.wal_settled_to().value, 100U);
  settle(progress, 1);
  EXPECT_EQ(progress.wal_settled_to().value, 200U);
}

TEST(WalProgress, NeverGoesBackInAStream) {
  Progress progress = streaming();
  progress.reach(WalPosition{100});
  progress.reach(WalPosition{50});
  EXPECT_EQ(progress.wal_settled_to().value, 100U);
  progress.begin_stream({20}, std::nullopt);
  EXPECT_EQ(progress.wal_settled_to().value, 20U) << "another slot";
}

TEST(WalProgress, WaitsForWhatWindowsReadBeforeTheStream) {
  Progress progress(true);
  progress.begin(number(1));
  progress.add(2);
  progress.begin_stream({10}, std::nullopt);
  progress.reach(WalPosition{50});
  EXPECT_EQ(progress.reportable(), WalPosition{});
  settle(progress, 2);
  EXPECT_EQ(progress.reportable().value, 50U);
}

TEST(WalProgress, OfASlotThatStaysIsToldOnlyWhenItIsRecorded) {
  Progress progress(true);
  progress.begin(number(1));
  progress.begin_stream({10}, WalPosition{});
  progress.reach(WalPosition{50});
  EXPECT_EQ(progress.wal_settled_to().value, 50U);
  EXPECT_EQ(progress.reportable(), WalPosition{});
  progress.record({30});
  EXPECT_EQ(progress.recorded_to().value, 30U);
  EXPECT_EQ(progress.reportable().value, 30U);
  progress.begin_stream({}, WalPosition{70});
  EXPECT_EQ(progress.reportable(), WalPosition{}) << "recorded before, and not seen in this stream";
}

RC_GTEST_PROP(WalProgress, IsTheLastPositionBehindWhichNothingIsUnsettled, ()) {
  struct Reached {
    std::uint64_t position, events;
  };
  Progress progress(true);
  progress.begin(number(0));
  std::vector<Reached> all;
  std::uint64_t position = 0, events = 0, settled = 0;
  const auto steps = *rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 30));
  for (const int step : steps) {
    if (step < 10) {  // a transaction with that many relevant events
      events += static_cast<std::uint64_t>(step);
      all.push_back({position += 10, events});
      progress.add(static_cast<std::uint64_t>(step), static_cast<std::uint32_t>(100 + position));
      progress.reach(WalPosition{position});
    } else if (step < 15) {
      all.push_back({position += 1, events});
      progress.reach(WalPosition{position});
    } else {
      const std::uint64_t more = std::min(events - settled, static_cast<std::uint64_t>(step - 15));
      settled += more;
      settle(progress, more);
    }
    std::uint64_t expected = 0;
    for (const Reached& one : all)
      if (one.events <= settled) expected = std::max(expected, one.position);
    RC_ASSERT(progress.wal_settled_to().value == expected);
  }
}

TEST(StreamedProgress, IsTheSafePointAndWhatWasStreamedAndSettledSince) {
  Progress progress = streaming();
  progress.add(2, 100);
  progress.reach(WalPosition{20});
  progress.add(1, 102);
  progress.reach(WalPosition{30});
  EXPECT_EQ(restarts_at(progress), "100:100:");
  settle(progress, 2);
  EXPECT_EQ(restarts_at(progress), "101:101:");
  progress.pass(7);
  settle(progress, 1);
  EXPECT_EQ(restarts_at(progress), "101:103:101");
  EXPECT_EQ(progress.settled_to().passed, 7);
  progress.cover("104:104:", 9);
  EXPECT_EQ(restarts_at(progress), "104:104:") << "a safe point shows all of that";
  EXPECT_EQ(progress.settled_to().passed, 9);
}

TEST(StreamedProgress, LeavesOutATransactionThatHasMoreToCome) {
  Progress progress = streaming();
  progress.add(1, 100);
  settle(progress, 1);
  EXPECT_EQ(restarts_at(progress), "100:100:");
  progress.add(1, 100);
  settle(progress, 1);
  progress.reach(WalPosition{20});
  EXPECT_EQ(restarts_at(progress), "101:101:");
}

TEST(StreamedProgress, OfAnUnsettledSafePointCountsFromTheOneBefore) {
  Progress progress = streaming();
  progress.add(1, 100);
  progress.reach(WalPosition{20});
  progress.add(1, 101);
  progress.reach(WalPosition{30});
  progress.cover("102:102:", 0);
  progress.add(1, 102);
  progress.reach(WalPosition{40});
  settle(progress, 1);
  EXPECT_EQ(restarts_at(progress), "101:101:");
  EXPECT_EQ(progress.read_to().prev, "102:102:");
  EXPECT_EQ(progress.streamed_to()->text(), "103:103:") << "windows may go on there";
  settle(progress, 2);
  EXPECT_EQ(restarts_at(progress), "103:103:");
}

TEST(StreamedProgress, StaysWhereItIsWhenTooManyOthersLieBetween) {
  Progress progress = streaming();
  progress.add(1, 100);
  progress.reach(WalPosition{20});
  progress.add(1, 3000);
  progress.reach(WalPosition{30});
  settle(progress, 1);
  EXPECT_EQ(restarts_at(progress), "101:101:");
  settle(progress, 1);
  EXPECT_EQ(restarts_at(progress), "101:101:") << "the sum would name 2,899 transactions";
  EXPECT_TRUE(progress.is_level());
}

TEST(StreamedProgress, IsTheSafePointAloneWhereRowsDoNotSayTheirTransaction) {
  Progress progress(false);
  progress.begin(shown("100:100:"));
  progress.begin_stream({10}, std::nullopt);
  progress.add(2, 100);
  progress.reach(WalPosition{20});
  settle(progress, 2);
  EXPECT_EQ(restarts_at(progress), "100:100:");
  progress.cover("104:104:", 9);
  EXPECT_EQ(restarts_at(progress), "104:104:");
  EXPECT_EQ(progress.settled_to().passed, 0) << "the sequence is not its own";
}

// Windows that were open when the session began: the position includes them.
TEST(StreamedProgress, AddsNothingToAnOpenWindow) {
  Progress progress = streaming();
  progress.add(1, 100);
  progress.reach(WalPosition{20});
  settle(progress, 1);
  progress.reach(number(3));
  EXPECT_TRUE(progress.count_streamed());
  EXPECT_EQ(progress.settled_to(), number(3));
}

}  // namespace
}  // namespace dovetail::postgres
