#include "core/event/name_id.h"

#include <gtest/gtest.h>

#include <string>

namespace dovetail {
namespace {

std::string hex(const std::array<std::uint8_t, 20>& bytes) {
  std::string text;
  for (const auto byte : bytes) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 0xf];
  }
  return text;
}

// From FIPS 180, plus sizes around the padding's block limit.
TEST(Sha1, GivesTheKnownDigests) {
  EXPECT_EQ(hex(sha1("", "")), "da39a3ee5e6b4b0d3255bfef95601890afd80709");
  EXPECT_EQ(hex(sha1("a", "bc")), "a9993e364706816aba3e25717850c26c9cd0d89d");
  EXPECT_EQ(hex(sha1("abcdbcdecdefdefgefghfghighijhijk", "ijkljklmklmnlmnomnopnopq")),
            "84983e441c3bd26ebaae4aa1f95129e5e54670f1");
  EXPECT_EQ(hex(sha1(std::string(55, 'x'), "")), "cef734ba81a024479e09eb5a75b6ddae62e6abf1");
  EXPECT_EQ(hex(sha1(std::string(56, 'x'), "")), "901305367c259952f4e7af8323f480d59f81335b");
  EXPECT_EQ(hex(sha1(std::string(64, 'x'), "")), "bb2fa3ee7afb9f54c6dfb5d021f14b1ffe40c163");
  EXPECT_EQ(hex(sha1(std::string(999, 'x'), "x")), "c3efa690fa3fdd2e2526853eed670538ea127638");
}

// As Python's uuid.uuid5() gives it.
TEST(NameId, IsAUuidOfVersion5) {
  const EventId dns = *EventId::parse("6ba7b810-9dad-11d1-80b4-00c04fd430c8");
  EXPECT_EQ(name_id(dns, "python.org").to_string(), "886313e1-3b8a-5372-9b90-0c9aee199e5d");
  EXPECT_EQ(kMessageNames.to_string(), "9b21730e-e94e-417c-a32c-253748414ca3");
  EXPECT_EQ(name_id(kMessageNames, "orders/3/1234").to_string(),
            "b7d5c4d3-a0ab-5fb8-b9c0-3552e33f6633");
  EXPECT_EQ(name_id(kMessageNames, std::string(200, 'x')).to_string(),
            "738c9f29-4e01-5b3a-bbdc-6a81213fe19c");
}

}  // namespace
}  // namespace dovetail
