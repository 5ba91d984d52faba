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

}  // namespace
}  // namespace dovetail
