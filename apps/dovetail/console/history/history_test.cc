#include "console/history/history.h"

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

TEST_F(HistoryTest, LatencyIsOfItsInterval) {
  LatencyHistogram latency;
  const auto add_now = [&](Duration at, std::uint64_t read) {
    Measured measured;
    measured.read = read;
    measured.commit_to_confirm = latency.counts();
    history.add("relay", measured, TimePoint{at}, WallTime{at});
  };
  latency.observe(1s, 1000);
  add_now(20s, 1000);
  latency.observe(3us, 99);
  latency.observe(1000us);
  add_now(40s, 1200);
  add_now(60s, 1200);
  const auto points = history.of("relay", false)->points;
  EXPECT_FALSE(points[0].p50_us);
  EXPECT_EQ(points[1].p50_us, 4.0);
  EXPECT_EQ(points[1].p99_us, 1024.0);
  EXPECT_EQ(points[1].in_per_second, 10.0);
  EXPECT_FALSE(points[2].p50_us) << "nothing was confirmed";
  EXPECT_EQ(points[2].in_per_second, 0.0);
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
