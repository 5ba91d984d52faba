#include "config/units.h"

#include <gtest/gtest.h>

namespace dovetail::config {
namespace {

using namespace std::chrono_literals;

TEST(Units, ADurationIsANumberAndAUnit) {
  EXPECT_EQ(parse_duration("250ms"), Duration(250ms));
  EXPECT_EQ(parse_duration("10s"), Duration(10s));
  EXPECT_EQ(parse_duration("10 s"), Duration(10s));
  EXPECT_EQ(parse_duration("7d"), Duration(7 * 24h));
  EXPECT_EQ(parse_duration("0s"), Duration(0));
}

TEST(Units, ADurationWithoutUnitOrBeyondAllBoundsIsRefused) {
  for (const char* text :
       {"", "10", "s", "-1s", "1.5s", "1 hour", "99999999999999999999s", "9999999999999d", "1sm"}) {
    EXPECT_EQ(parse_duration(text), std::nullopt) << text;
  }
}

TEST(Units, ASizeIsANumberAndABinaryUnit) {
  EXPECT_EQ(parse_size("1MiB"), std::size_t{1} << 20);
  EXPECT_EQ(parse_size("64KiB"), std::size_t{64} << 10);
  EXPECT_EQ(parse_size("17B"), std::size_t{17});
  EXPECT_EQ(parse_size("1MB"), std::nullopt);
  EXPECT_EQ(parse_size("17"), std::nullopt);
  EXPECT_EQ(parse_size("99999999GiB"), std::nullopt);
}

TEST(Units, DurationsReadWell) {
  EXPECT_EQ(human_duration(850us), "850 us");
  EXPECT_EQ(human_duration(3200ms), "3.2 s");
  EXPECT_EQ(human_duration(59s), "59 s");
  EXPECT_EQ(human_duration(61s), "1 min 1 s");
  EXPECT_EQ(human_duration(3h), "3 h");
  EXPECT_EQ(human_duration(98h), "4 d 2 h");
  EXPECT_EQ(human_duration(-5s), "0 us");
}

TEST(Units, SizesReadWell) {
  EXPECT_EQ(human_size(0), "0 B");
  EXPECT_EQ(human_size(1023), "1023 B");
  EXPECT_EQ(human_size(1536), "1.5 KiB");
  EXPECT_EQ(human_size(std::uint64_t{200} << 20), "200 MiB");
  EXPECT_EQ(human_size(std::uint64_t{3} << 40), "3.0 TiB");
}

TEST(Units, CountsAndTimesReadWell) {
  EXPECT_EQ(human_count(0), "0");
  EXPECT_EQ(human_count(999), "999");
  EXPECT_EQ(human_count(1234567), "1,234,567");
  EXPECT_EQ(iso_time(WallTime(1'700'000'000'123'456us)), "2023-11-14T22:13:20.123456Z");
}

}  // namespace
}  // namespace dovetail::config
