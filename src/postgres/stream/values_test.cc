#include "postgres/stream/values.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <array>
#include <cstdio>
#include <string>

#include "postgres/connection/byte_order.h"

namespace dovetail::postgres {
namespace {

using pgoutput::Value;
using namespace std::string_view_literals;

Value as_text(std::string_view bytes) { return {Value::Form::text, bytes}; }
Value as_binary(std::string_view bytes) { return {Value::Form::binary, bytes}; }

TEST(WalValues, IntegersOfEveryWidthAreRead) {
  EXPECT_EQ(integer_of(as_binary("\xff\xfe"sv)), -2);
  EXPECT_EQ(integer_of(as_binary("\0\0\1\0"sv)), 256);
  EXPECT_EQ(integer_of(as_binary("\x80\0\0\0\0\0\0\0"sv)), INT64_MIN);
  EXPECT_EQ(integer_of(as_text("-9223372036854775808")), INT64_MIN);
}

TEST(WalValues, WhatIsNotOfTheTypeIsNone) {
  for (const Value& value : {Value{}, Value{Value::Form::unchanged}, as_text(""), as_text("1x"),
                             as_text("9223372036854775808"), as_binary(""), as_binary("123")})
    EXPECT_FALSE(integer_of(value));
  for (const Value& value : {Value{}, as_text("not an id"), as_binary("123456789012345")})
    EXPECT_FALSE(uuid_of(value));
  for (const Value& value : {Value{}, as_text("yesterday"), as_binary("1234567")})
    EXPECT_FALSE(time_of(value));
  EXPECT_FALSE(text_of(Value{}));
  Arena arena;
  for (const Value& value : {Value{}, as_text("\\x0"), as_text("\\x0g"), as_text("\\"),
                             as_text("\\400"), as_text("\\08"), as_text("\\12")})
    EXPECT_FALSE(bytea_of(value, arena)) << value.bytes;
}

TEST(WalValues, IdsAreTheSameInBothForms) {
  const auto id = uuid_of(as_text("01890a5d-ac96-774b-bcce-b302099a8057"));
  ASSERT_TRUE(id);
  const std::string bytes(id->bytes.begin(), id->bytes.end());
  EXPECT_EQ(uuid_of(as_binary(bytes)), id);
}

TEST(WalValues, TimesAreReadInEveryZoneAndToInfinity) {
  const WallTime time{std::chrono::microseconds{1'700'000'000'123'456}};
  EXPECT_EQ(time_of(as_binary(big_endian(std::int64_t{1'700'000'000'123'456} - kEpochOffset))),
            time);
  EXPECT_EQ(time_of(as_text("2023-11-14 22:13:20.123456+00")), time);
  EXPECT_EQ(time_of(as_text("2023-11-15 03:43:20.123456+05:30")), time);
  EXPECT_EQ(time_of(as_text("2023-11-14 14:13:20.123456-08")), time);
  EXPECT_EQ(time_of(as_text("infinity")), WallTime::max());
  EXPECT_EQ(time_of(as_text("-infinity")), WallTime::min());
  EXPECT_EQ(time_of(as_binary("\x7f\xff\xff\xff\xff\xff\xff\xff"sv)), WallTime::max());
  EXPECT_EQ(time_of(as_binary("\x80\0\0\0\0\0\0\0"sv)), WallTime::min());
}

TEST(WalValues, BytesAreReadInBothStylesOfText) {
  Arena arena;
  EXPECT_EQ(bytea_of(as_binary("a\0\xff"sv), arena), "a\0\xff"sv);
  EXPECT_EQ(arena.bytes_used(), 0U) << "binary values are not copied";
  EXPECT_EQ(bytea_of(as_text("\\x6100fF"), arena), "a\0\xff"sv);
  EXPECT_EQ(bytea_of(as_text("a\\000\\377\\\\b"), arena), "a\0\xff\\b"sv);
  EXPECT_EQ(bytea_of(as_text("\\x"), arena), "");
}

std::string escaped(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) {
    std::array<char, 5> octal;
    std::snprintf(octal.data(), octal.size(), "\\%03o",
                  static_cast<unsigned>(static_cast<unsigned char>(c)));
    const bool is_plain = c >= 0x20 && c < 0x7f;
    if (c == '\\') {
      out += "\\\\";
    } else if (is_plain) {
      out += c;
    } else {
      out += octal.data();
    }
  }
  return out;
}

RC_GTEST_PROP(WalValues, AnyBytesSurviveBothStylesOfText, (const std::string& bytes)) {
  std::string hex = "\\x";
  for (const char c : bytes) {
    hex += "0123456789abcdef"[static_cast<unsigned char>(c) >> 4];
    hex += "0123456789abcdef"[static_cast<unsigned char>(c) & 15];
  }
  Arena arena;
  RC_ASSERT(bytea_of(as_text(hex), arena) == std::string_view(bytes));
  RC_ASSERT(bytea_of(as_text(escaped(bytes)), arena) == std::string_view(bytes));
}

}  // namespace
}  // namespace dovetail::postgres
