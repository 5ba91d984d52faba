#include "core/failure/failed_keys.h"

#include <gtest/gtest.h>

namespace dovetail {
namespace {

TEST(FailedKeys, AKeyIsBlockedInEveryBatchSubmittedBeforeItsFailureWasHandedOut) {
  FailedKeys keys;
  const auto first = keys.number_batch();
  const auto second = keys.number_batch();
  keys.add(7, first);
  const auto third = keys.number_batch();
  EXPECT_TRUE(keys.block(7, second));
  EXPECT_TRUE(keys.block(7, third)) << "it was submitted after the failure, but before it was told";
  keys.handed_out(first);
  const auto fourth = keys.number_batch();
  EXPECT_FALSE(keys.block(7, fourth));
  EXPECT_TRUE(keys.block(7, second)) << "asking for a later batch lifts nothing";
  EXPECT_TRUE(keys.block(7, third));
  keys.handed_out(second);
  EXPECT_TRUE(keys.block(7, third));
}

TEST(FailedKeys, OtherKeysAndEventsWithoutAKeyAreNotBlocked) {
  FailedKeys keys;
  const auto batch = keys.number_batch();
  keys.add(7, batch);
  keys.add(0, batch);
  EXPECT_FALSE(keys.block(8, batch));
  EXPECT_FALSE(keys.block(0, batch));
}

TEST(FailedKeys, AKeyThatFailsAgainIsBlockedAgain) {
  FailedKeys keys;
  const auto first = keys.number_batch();
  keys.add(7, first);
  keys.handed_out(first);
  const auto second = keys.number_batch();
  EXPECT_FALSE(keys.block(7, second));
  keys.add(7, second);
  const auto third = keys.number_batch();
  EXPECT_TRUE(keys.block(7, third));
  keys.handed_out(second);
  keys.handed_out(third);
  EXPECT_FALSE(keys.block(7, keys.number_batch()));
}

}  // namespace
}  // namespace dovetail
