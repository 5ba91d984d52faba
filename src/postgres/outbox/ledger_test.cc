#include "postgres/outbox/ledger.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <vector>

namespace dovetail::postgres {
namespace {

Progress number(std::int64_t seq) { return Progress{"1:1:", "5:5:", seq, seq}; }

void settle(Ledger& ledger, std::size_t events, Settled as = Settled::delivered) {
  ledger.settle(std::vector<Settled>(events, as));
}

TEST(Ledger, ProgressMovesWhenEverythingHandedOutBeforeItIsSettled) {
  Ledger ledger;
  ledger.begin(number(1));
  ledger.hand_out(2);
  ledger.reach(number(2));
  ledger.hand_out(1);
  ledger.reach(number(3));
  EXPECT_EQ(ledger.read(), number(3));
  settle(ledger, 1);
  EXPECT_EQ(ledger.settled(), number(1));
  settle(ledger, 1);
  EXPECT_EQ(ledger.settled(), number(2));
  settle(ledger, 1);
  EXPECT_EQ(ledger.settled(), number(3));
}

TEST(Ledger, ProgressOverNothingMovesAtOnceWhenNothingIsInFlight) {
  Ledger ledger;
  ledger.begin(number(1));
  ledger.reach(number(2));
  EXPECT_EQ(ledger.settled(), number(2));
  EXPECT_TRUE(ledger.has_moved());
  ledger.hand_out(1);
  ledger.reach(number(3));
  ledger.reach(number(4));
  EXPECT_EQ(ledger.settled(), number(2));
  settle(ledger, 1);
  EXPECT_EQ(ledger.settled(), number(4)) << "nothing lies between the two";
}

TEST(Ledger, WhatIsHandedOutLaterHoldsNothingBack) {
  Ledger ledger;
  ledger.begin(number(1));
  ledger.hand_out(1);
  ledger.reach(number(2));
  ledger.hand_out(1000);
  settle(ledger, 1);
  EXPECT_EQ(ledger.settled(), number(2));
  ledger.reach(number(3));
  EXPECT_EQ(ledger.settled(), number(2));
}

TEST(Ledger, WhatWasWrittenIsNoNewsUntilMoreIsSettled) {
  Ledger ledger;
  ledger.begin(number(1));
  EXPECT_FALSE(ledger.has_news());
  ledger.hand_out(5);
  ledger.reach(number(2));
  EXPECT_FALSE(ledger.has_news());
  settle(ledger, 1);
  settle(ledger, 2, Settled::parked);
  EXPECT_TRUE(ledger.has_news()) << "events count, though nothing is reached";
  EXPECT_FALSE(ledger.has_moved());
  EXPECT_EQ(ledger.events(), 3);
  EXPECT_EQ(ledger.parked(), 2);
  ledger.written();
  EXPECT_FALSE(ledger.has_news());
  EXPECT_EQ(ledger.events(), 0);
  EXPECT_EQ(ledger.parked(), 0);
  settle(ledger, 2);
  EXPECT_TRUE(ledger.has_moved());
  ledger.written();
  EXPECT_FALSE(ledger.has_news());
}

TEST(Ledger, WhatIsKnownToBeReachedCountsThoughMoreIsInFlight) {
  Ledger ledger;
  ledger.begin(number(1));
  ledger.hand_out(3);
  settle(ledger, 2);
  ledger.reached(number(7));
  EXPECT_EQ(ledger.settled(), number(7));
  EXPECT_EQ(ledger.read(), number(1)) << "nothing is handed out by that";
}

TEST(Ledger, ANewSessionKnowsNothingOfTheOneBefore) {
  Ledger ledger;
  ledger.begin(number(1));
  ledger.hand_out(3);
  ledger.reach(number(2));
  settle(ledger, 1);
  ledger.begin(number(5));
  EXPECT_FALSE(ledger.has_news());
  EXPECT_EQ(ledger.read(), number(5));
  ledger.hand_out(1);
  ledger.reach(number(6));
  settle(ledger, 1);
  EXPECT_EQ(ledger.settled(), number(6));
}

RC_GTEST_PROP(Ledger, ProgressIsTheLastPlaceBeforeWhichNothingIsUnsettled, ()) {
  struct Reached {
    std::size_t events;
    std::int64_t seq;
  };
  Ledger ledger;
  ledger.begin(number(0));
  std::vector<Reached> all{{0, 0}};
  std::size_t handed_out = 0, settled = 0;
  std::int64_t seq = 0;
  const auto steps = *rc::gen::container<std::vector<std::size_t>>(rc::gen::inRange(0U, 30U));
  for (const std::size_t step : steps) {
    if (step < 10) {
      handed_out += step;
      ledger.hand_out(step);
    } else if (step < 20) {
      all.push_back({handed_out, ++seq});
      ledger.reach(number(seq));
    } else {
      const std::size_t more = std::min(handed_out - settled, step - 20);
      settled += more;
      settle(ledger, more);
    }
    std::int64_t expected = 0;
    for (const Reached& one : all)
      if (one.events <= settled) expected = one.seq;
    RC_ASSERT(ledger.settled() == number(expected));
    RC_ASSERT(ledger.read() == number(seq));
  }
}

}  // namespace
}  // namespace dovetail::postgres
