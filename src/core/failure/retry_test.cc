#include "core/failure/retry.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

namespace dovetail {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

RC_GTEST_PROP(RetryDelay, StaysBetweenHalfOfItsCeilingAndItsCeiling,
              (std::uint64_t seed, std::uint32_t failures)) {
  const RetryPolicy policy{milliseconds(50), seconds(30)};
  Random random(seed);
  const Duration delay = retry_delay(policy, failures, random);
  const Duration ceiling =
      failures < 10 ? Duration(milliseconds(50) * (1 << failures)) : Duration(seconds(30));
  RC_ASSERT(delay >= ceiling / 2);
  RC_ASSERT(delay <= ceiling);
}

TEST(RetryDelay, UsesTheWholeOfThatRange) {
  const RetryPolicy policy{milliseconds(100), seconds(30)};
  Random random(7);
  Duration least = seconds(100);
  Duration most{0};
  for (int i = 0; i < 2000; ++i) {
    const Duration delay = retry_delay(policy, 3, random);
    least = std::min(least, delay);
    most = std::max(most, delay);
  }
  EXPECT_LT(least, milliseconds(420));
  EXPECT_GT(most, milliseconds(780));
}

TEST(IsDue, WhatIsDueLaterThanAnyPauseWasSetByAClockThatWasSetBack) {
  const WallTime now{std::chrono::hours(24 * 365 * 55)};
  const Duration longest = std::chrono::minutes(10);
  EXPECT_TRUE(is_due(now, now, longest));
  EXPECT_TRUE(is_due(now - std::chrono::hours(48), now, longest));
  EXPECT_FALSE(is_due(now + milliseconds(1), now, longest));
  EXPECT_FALSE(is_due(now + longest, now, longest));
  EXPECT_TRUE(is_due(now + longest + milliseconds(1), now, longest));
  EXPECT_TRUE(is_due(now + std::chrono::hours(48), now, longest));
}

}  // namespace
}  // namespace dovetail
