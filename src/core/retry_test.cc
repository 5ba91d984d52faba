#include "core/retry.h"

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
      failures < 9 ? Duration(milliseconds(50) * (1 << failures)) : Duration(seconds(30));
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

}  // namespace
}  // namespace dovetail
