#include "core/inbox/clock_mark.h"

#include <gtest/gtest.h>

namespace dovetail {
namespace {

using namespace std::chrono_literals;

// A machine whose wall clock can be set.
class ClockMarkTest : public testing::Test {
 protected:
  bool look() {
    const ClockVerdict verdict = judge_clock(marks_, now_);
    marks_ = verdict.marks;
    return verdict.is_trusted;
  }
  void pass(Duration time) {
    now_.wall += time;
    now_.steady += time;
  }

  ClockMark now_{WallTime(24h * 20'000), TimePoint(5h)};
  ClockMarks marks_{};
};

TEST_F(ClockMarkTest, AClockThatRunsIsTrustedHoweverLongNobodyLooked) {
  EXPECT_TRUE(look());
  pass(10min);
  EXPECT_TRUE(look());
  pass(24h * 90);
  EXPECT_TRUE(look());
}

TEST_F(ClockMarkTest, AStepThatIsTakenBackIsNeverFollowed) {
  for (const Duration step : {Duration(50h), Duration(-50h), Duration(2h), Duration(-48h)}) {
    EXPECT_TRUE(look());
    now_.wall += step;
    pass(6s);
    EXPECT_FALSE(look());
    now_.wall -= step;
    pass(6s);
    EXPECT_TRUE(look()) << "and the right time needs no waiting";
  }
}

TEST_F(ClockMarkTest, ACorrectionIsFollowedWhenTheClockHasRunEvenlyForAnHour) {
  EXPECT_TRUE(look());
  now_.wall += 48h;
  for (int i = 0; i < 6; ++i) {
    EXPECT_FALSE(look());
    pass(10min);
  }
  EXPECT_TRUE(look());
  pass(10min);
  EXPECT_TRUE(look());
}

TEST_F(ClockMarkTest, AClockThatIsSetAgainAndAgainIsNotTrusted) {
  EXPECT_TRUE(look());
  for (int i = 0; i < 30; ++i) {
    now_.wall += i % 2 == 0 ? 48h : 5h;
    pass(10min);
    EXPECT_FALSE(look());
  }
}

TEST_F(ClockMarkTest, AnHourIsNoStep) {
  EXPECT_TRUE(look());
  now_.wall += 59min;
  EXPECT_TRUE(look());
}

class ClockAfterStartTest : public ClockMarkTest {
 protected:
  // The machine is off for `off` of real time, and comes back with a clock that is wrong by
  // `wrong_by`.
  void restart(Duration off, Duration wrong_by) {
    if (marks_.trusted) marks_.trusted_before = marks_.trusted->wall;
    if (marks_.doubted) marks_.doubted_before = marks_.doubted->wall;
    marks_.trusted = marks_.doubted = std::nullopt;
    now_.wall += off + wrong_by;
    now_.steady = TimePoint(1min);
  }
  bool look_again() {
    const ClockMarks before = marks_;
    const bool trusted = look();
    marks_.trusted_before = before.trusted_before;
    marks_.doubted_before = before.doubted_before;
    return trusted;
  }
};

TEST_F(ClockAfterStartTest, IsTrustedWhereItFollowsTheLastLook) {
  EXPECT_TRUE(look());
  for (const Duration off : {Duration(1min), Duration(24h)}) {
    restart(off, Duration{0});
    EXPECT_TRUE(look_again());
  }
}

TEST_F(ClockAfterStartTest, ThatIsDaysOffWaitsForAnHour) {
  for (const Duration wrong_by : {Duration(48h), Duration(-48h), Duration(-3h)}) {
    EXPECT_TRUE(look());
    restart(1min, wrong_by);
    EXPECT_FALSE(look_again());
    pass(59min);
    EXPECT_FALSE(look_again());
    pass(1min);
    EXPECT_TRUE(look_again());
  }
}

TEST_F(ClockAfterStartTest, ThatIsSetRightMeanwhileIsTrustedAtOnce) {
  EXPECT_TRUE(look());
  restart(1min, 48h);
  EXPECT_FALSE(look_again());
  now_.wall -= 48h;
  EXPECT_TRUE(look_again());
}

// Like weekly prunes, each on a new machine.
TEST_F(ClockAfterStartTest, IsTrustedWhenTheNextMachineFindsItToo) {
  EXPECT_TRUE(look());
  restart(24h * 7, Duration{0});
  EXPECT_FALSE(look_again());
  restart(24h * 7, Duration{0});
  EXPECT_TRUE(look_again());
}

TEST_F(ClockAfterStartTest, WhatAnotherMachineDoubtsIsNotTrusted) {
  EXPECT_TRUE(look());
  pass(1min);
  now_.wall += 20h;
  EXPECT_FALSE(look());
  restart(1min, Duration{0});
  EXPECT_TRUE(marks_.trusted_before && marks_.doubted_before);
  EXPECT_FALSE(look_again());
  pass(1h);
  EXPECT_TRUE(look_again());
}

TEST_F(ClockAfterStartTest, ThatIsWrongTheOtherWayThanTheOneBeforeIsNotTrusted) {
  EXPECT_TRUE(look());
  restart(1min, -48h);
  EXPECT_FALSE(look_again());
  restart(1min, 96h);
  EXPECT_FALSE(look_again()) << "two days ahead, and found before as two days behind";
  restart(1min, -48h);
  EXPECT_TRUE(look_again()) << "the right time needs no waiting";
}

TEST_F(ClockAfterStartTest, TheReasonSaysBothTimes) {
  EXPECT_TRUE(look());
  restart(1h, 48h);
  const std::string text = clock_was_set(marks_, now_);
  EXPECT_NE(text.find("2024-10-06T01:00:00"), std::string::npos) << text;
  EXPECT_NE(text.find("2024-10-04T00:00:00"), std::string::npos) << text;
}

TEST_F(ClockMarkTest, TheReasonSaysBothTimes) {
  EXPECT_TRUE(look());
  now_.wall += 50h;
  const std::string text = clock_was_set(marks_, now_);
  EXPECT_NE(text.find("2024-10-06T02:00:00"), std::string::npos) << text;
  EXPECT_NE(text.find("2024-10-04T00:00:00"), std::string::npos) << text;
}

TEST_F(ClockMarkTest, TwoClocksMayBeAnHourApart) {
  const WallTime time = now_.wall;
  EXPECT_FALSE(clocks_disagree(time, time + 1h));
  EXPECT_FALSE(clocks_disagree(time + 1h, time));
  for (const Duration apart : {Duration(50h), Duration(-50h), Duration(61min)})
    EXPECT_TRUE(clocks_disagree(time + apart, time)) << apart.count();
  const std::string text = *clocks_disagree(time + 50h, time);
  EXPECT_NE(text.find("2024-10-06T02:00:00"), std::string::npos) << text;
  EXPECT_NE(text.find("2024-10-04T00:00:00"), std::string::npos) << text;
}

}  // namespace
}  // namespace dovetail
