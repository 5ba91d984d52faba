#include "core/metrics.h"

#include <gtest/gtest.h>

namespace dovetail {
namespace {

TEST(Gauge, IsTheSumOfAllWhoWriteItAndForgetsThoseThatEnd) {
  std::atomic<std::uint64_t> sum{0};
  GaugePart one(sum);
  {
    GaugePart other(sum);
    one.set(5);
    other.set(7);
    EXPECT_EQ(sum, 12u);
    one.set(2);
    EXPECT_EQ(sum, 9u) << "one lane does not overwrite the other";
  }
  EXPECT_EQ(sum, 2u);
  one.set(0);
  EXPECT_EQ(sum, 0u);
}

TEST(LatencyHistogramTest, ABatchAddsUpToTheSameAsItsValues) {
  LatencyHistogram one;
  LatencyHistogram other;
  {
    LatencyBatch batch(other);
    for (const int us : {100, 101, 5, 5000, 5001, -3}) {
      one.observe(Duration{us});
      batch.observe(Duration{us});
    }
  }
  EXPECT_EQ(one.count(), 6U);
  EXPECT_EQ(one.counts().buckets, other.counts().buckets);
  EXPECT_EQ(one.counts().sum_us, 100U + 101U + 5U + 5000U + 5001U);
  EXPECT_EQ(one.counts().sum_us, other.counts().sum_us);
}

TEST(StateGaugeTest, EachIsInOneStateUntilItEnds) {
  StateGauge<3>::Counts counts{};
  StateGauge<3> one(counts);
  one.enter(0);
  {
    StateGauge<3> other(counts);
    other.enter(0);
    EXPECT_EQ(counts[0], 2U);
    other.enter(2);
    other.enter(2);
    EXPECT_EQ(counts[0], 1U);
    EXPECT_EQ(counts[2], 1U);
  }
  EXPECT_EQ(counts[2], 0U);
}

}  // namespace
}  // namespace dovetail
