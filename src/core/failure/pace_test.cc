#include "core/failure/pace.h"

#include <gtest/gtest.h>

namespace dovetail {
namespace {

using namespace std::chrono_literals;

TEST(Pace, StartsSmallAndDoublesWhileTheWorkIsQuick) {
  Pace pace(1000, 1s);
  EXPECT_EQ(pace.limit(), 64U);
  pace.took(64, 1ms);
  EXPECT_EQ(pace.limit(), 128U);
  for (int i = 0; i < 10; ++i) pace.took(pace.limit(), 1ms);
  EXPECT_EQ(pace.limit(), 1000U);
}

TEST(Pace, FallsAtOnceToWhatFitsIntoTheBudget) {
  Pace pace(1000, 1s);
  for (int i = 0; i < 10; ++i) pace.took(pace.limit(), 1ms);
  pace.took(500, 25s);  // 50 ms each
  EXPECT_EQ(pace.limit(), 20U);
  pace.took(20, 1s);
  EXPECT_EQ(pace.limit(), 20U);
}

TEST(Pace, FindsTheSizeForAHandlerThatBecomesSlow) {
  Pace pace(1000, 1s);
  for (int i = 0; i < 10; ++i) pace.took(pace.limit(), pace.limit() * 100us);
  for (int i = 0; i < 5; ++i) pace.took(pace.limit(), pace.limit() * 50ms);
  EXPECT_EQ(pace.limit(), 20U);
}

TEST(Pace, ABatchThatTakesItsTimeWhateverItHoldsIsNotCutToNothing) {
  Pace pace(1000, 1s);
  for (int i = 0; i < 100; ++i) {
    pace.took(pace.limit(), 2s);
    if (i > 10) {
      EXPECT_GT(pace.limit(), 200U);
    }
  }
}

TEST(Pace, OneAtATimeIsTheLeast) {
  Pace pace(1000, 1s);
  pace.took(1, 1h);
  EXPECT_EQ(pace.limit(), 1U);
  pace.took(1, 1us);
  EXPECT_EQ(pace.limit(), 2U);
  EXPECT_EQ(Pace(5, 1s).limit(), 5U);
}

}  // namespace
}  // namespace dovetail
