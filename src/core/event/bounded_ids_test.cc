#include "core/event/bounded_ids.h"

#include <gtest/gtest.h>

namespace dovetail {
namespace {

EventId numbered(int number) {
  EventId id;
  id.bytes[14] = static_cast<std::uint8_t>(number / 256);
  id.bytes[15] = static_cast<std::uint8_t>(number % 256);
  return id;
}

TEST(BoundedIds, NeverHoldsMoreThanItsLimit) {
  BoundedIds ids(100);
  for (int i = 0; i < 1000; ++i) ids.insert(numbered(i));
  EXPECT_EQ(ids.size(), 100U);
}

TEST(BoundedIds, WhatComesRoundAndRoundIsFoundWhateverItsNumber) {
  for (const bool rising : {true, false}) {
    BoundedIds ids(10);
    int found = 0;
    for (int round = 0; round < 4; ++round)
      for (int i = 0; i < 25; ++i) found += ids.insert(numbered(rising ? i : 24 - i)) ? 0 : 1;
    EXPECT_GE(found, 9) << "each round finds nearly as many as are remembered";
  }
}

}  // namespace
}  // namespace dovetail
