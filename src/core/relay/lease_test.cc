#include "core/relay/lease.h"

#include <gtest/gtest.h>

namespace dovetail {
namespace {

using namespace std::chrono_literals;

constexpr TimePoint kStart{1h};

TEST(LeaseWatch, ANewcomerBelievesTheStoresClock) {
  EXPECT_TRUE(LeaseWatch().is_free("1", true, 10s, kStart));
  EXPECT_FALSE(LeaseWatch().is_free("1", false, 10s, kStart));
}

TEST(LeaseWatch, WhatIsNotRenewedForItsTermIsFreeWhateverTheStoresClockSays) {
  LeaseWatch watch;
  EXPECT_FALSE(watch.is_free("1", false, 10s, kStart));
  EXPECT_FALSE(watch.is_free("1", false, 10s, kStart + 10s)) << "a margin is left";
  EXPECT_TRUE(watch.is_free("1", false, 10s, kStart + 11s));
}

TEST(LeaseWatch, ARenewalStartsTheTermAgain) {
  LeaseWatch watch;
  EXPECT_FALSE(watch.is_free("1", false, 10s, kStart));
  EXPECT_FALSE(watch.is_free("2", false, 10s, kStart + 9s));
  EXPECT_FALSE(watch.is_free("2", false, 10s, kStart + 19s));
  EXPECT_TRUE(watch.is_free("2", false, 10s, kStart + 20s));
}

TEST(LeaseWatch, AHolderThatWasSeenAliveKeepsItWhenTheStoresClockIsSetAhead) {
  LeaseWatch watch;
  EXPECT_FALSE(watch.is_free("1", false, 10s, kStart));
  EXPECT_FALSE(watch.is_free("2", false, 10s, kStart + 3s));
  EXPECT_FALSE(watch.is_free("2", true, 10s, kStart + 4s));
  EXPECT_FALSE(watch.is_free("2", true, 10s, kStart + 12s));
  EXPECT_TRUE(watch.is_free("2", true, 10s, kStart + 13s));
}

}  // namespace
}  // namespace dovetail
