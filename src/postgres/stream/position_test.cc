#include "postgres/stream/position.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace dovetail::postgres {
namespace {

TEST(WalPosition, IsWrittenAsTheServerWritesIt) {
  EXPECT_EQ(to_string(WalPosition{0}), "0/0");
  EXPECT_EQ(to_string(WalPosition{0x16'b374'd848}), "16/B374D848");
  EXPECT_EQ(to_string(WalPosition{UINT64_MAX}), "FFFFFFFF/FFFFFFFF");
}

TEST(WalPosition, IsReadWithAndWithoutLeadingZeros) {
  EXPECT_EQ(parse_wal_position("16/B374D848")->value, 0x16'b374'd848U);
  EXPECT_EQ(parse_wal_position("0/0000ABCD")->value, 0xabcdU);
  EXPECT_EQ(parse_wal_position("0/abcd")->value, 0xabcdU);
}

TEST(WalPosition, WhatIsNoneIsCorruptAndSaysWhatToCheck) {
  for (const char* text : {"", "/", "0/", "/0", "0", "0/0/0", "0/123456789", "0/000000001", "-1/0",
                           "0x1/0", "g/0", " 0/0", "0/0 "}) {
    const auto position = parse_wal_position(text);
    ASSERT_FALSE(position) << text;
    EXPECT_EQ(position.error().code, Errc::corrupt);
    EXPECT_NE(position.error().text.find("check"), std::string::npos);
  }
}

RC_GTEST_PROP(WalPosition, SurvivesBeingWrittenAndRead, (std::uint64_t value)) {
  RC_ASSERT(parse_wal_position(to_string(WalPosition{value}))->value == value);
}

}  // namespace
}  // namespace dovetail::postgres
