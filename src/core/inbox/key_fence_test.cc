#include "core/inbox/key_fence.h"

#include <gtest/gtest.h>

namespace dovetail {
namespace {

TEST(KeyFence, BlocksOnlyTheKeyAndOnlyWhatWasSubmittedBefore) {
  KeyFence fence;
  fence.raise(7, 3);
  EXPECT_TRUE(fence.blocks(7, 2));
  EXPECT_TRUE(fence.blocks(7, 3));
  EXPECT_FALSE(fence.blocks(8, 3));
  EXPECT_FALSE(fence.blocks(7, 4));
  EXPECT_FALSE(fence.blocks(7, 4)) << "lifted for good";
}

TEST(KeyFence, EventsWithoutKeyAreNeverBlocked) {
  KeyFence fence;
  fence.raise(0, 3);
  EXPECT_FALSE(fence.blocks(0, 1));
}

}  // namespace
}  // namespace dovetail
