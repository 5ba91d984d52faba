#include "console/api/history.h"

#include <gtest/gtest.h>

namespace dovetail::console {
namespace {

using namespace std::chrono_literals;

class HistoryTest : public ::testing::Test {
 protected:
  void add(Duration at, std::uint64_t confirmed, double pending = 1) {
    Measured measured;
    measured.pending = pending;
    measured.confirmed = confirmed;
    history.add("relay", measured, TimePoint{at}, WallTime{at});
  }

  History history;
};

TEST_F(HistoryTest, RatesAreOfTheirInterval) {
  add(20s, 100);
  add(40s, 300);
  add(60s, 300);
  const auto series = history.of("relay", false);
  ASSERT_TRUE(series);
  EXPECT_EQ(series->start, WallTime{20s});
  EXPECT_EQ(series->step, 20s);
  ASSERT_EQ(series->points.size(), 3U);
  EXPECT_FALSE(series->points[0].out_per_second);
  EXPECT_EQ(series->points[1].out_per_second, 10.0);
  EXPECT_EQ(series->points[2].out_per_second, 0.0);
}

TEST_F(HistoryTest, WhatWasNotMeasuredStaysEmpty) {
  add(20s, 0);
  add(100s, 80);
  const auto series = history.of("relay", false);
  ASSERT_EQ(series->points.size(), 5U);
  for (int i : {1, 2, 3}) EXPECT_FALSE(series->points[static_cast<std::size_t>(i)].pending);
  EXPECT_EQ(series->points[4].out_per_second, 1.0);
  EXPECT_EQ(series->start, WallTime{20s});
}

TEST_F(HistoryTest, KeepsAnHourAndADay) {
  for (int i = 1; i <= 20'000; ++i) add(i * 20s, static_cast<std::uint64_t>(i));
  EXPECT_EQ(history.of("relay", false)->points.size(), History::kPoints);
  const auto coarse = history.of("relay", true);
  EXPECT_EQ(coarse->points.size(), History::kCoarsePoints);
  EXPECT_EQ(coarse->points.back().out_per_second, 0.05);
  add(std::chrono::hours(24 * 365), 30'000);
  EXPECT_EQ(history.of("relay", false)->points.size(), History::kPoints);
}

TEST_F(HistoryTest, KeepsSoManyRelays) {
  for (int i = 0; i < 300; ++i) history.add("r" + std::to_string(i), {}, TimePoint{}, WallTime{});
  EXPECT_TRUE(history.of("r199", false));
  EXPECT_FALSE(history.of("r200", false));
  EXPECT_FALSE(history.of("other", false));
}

}  // namespace
}  // namespace dovetail::console
