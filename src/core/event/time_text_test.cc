#include "core/event/time_text.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <string>

namespace dovetail {
namespace {

std::string text_of(WallTime time) {
  std::string text(kTimeTextBytes, '?');
  write_time(time, text.data());
  return text;
}

WallTime at(std::int64_t us) { return WallTime(std::chrono::microseconds(us)); }

TEST(TimeText, IsUtcWithMicroseconds) {
  EXPECT_EQ(text_of(at(0)), "1970-01-01T00:00:00.000000Z");
  EXPECT_EQ(text_of(at(1'709'251'199'999'999)), "2024-02-29T23:59:59.999999Z");
  EXPECT_EQ(text_of(at(-1)), "1969-12-31T23:59:59.999999Z");
}

TEST(TimeText, StaysWithinFourDigitsOfYears) {
  EXPECT_EQ(text_of(WallTime::max()), "9999-12-31T23:59:59.999999Z");
  EXPECT_EQ(text_of(WallTime::min()), "0000-01-01T00:00:00.000000Z");
}

TEST(TimeText, ReadsWhatOthersWrite) {
  EXPECT_EQ(parse_time("2018-04-05T03:56:24Z"), at(1'522'900'584'000'000));
  EXPECT_EQ(parse_time("2018-04-05t05:56:24.5+02:00"), at(1'522'900'584'500'000));
  EXPECT_EQ(parse_time("2018-04-04 22:26:24.123456789-05:30"), at(1'522'900'584'123'456));
  EXPECT_EQ(parse_time("2016-12-31T23:59:60z"), parse_time("2017-01-01T00:00:00Z"));
}

TEST(TimeText, RefusesWhatIsNoTime) {
  for (const char* text :
       {"", "now", "2018-04-05", "2018-04-05T03:56:24", "2018-04-05T03:56Z", "2018-02-30T00:00:00Z",
        "2018-04-05T24:00:00Z", "2018-04-05T03:60:24Z", "2018-04-05T03:56:24.Z",
        "2018-04-05T03:56:24+2:00", "2018-04-05T03:56:24+24:00", "2018-04-05T03:56:24Zx",
        "18-04-05T03:56:24Z", "1522900584"}) {
    EXPECT_FALSE(parse_time(text).has_value()) << text;
  }
}

RC_GTEST_PROP(TimeText, SurvivesTheRoundTrip, ()) {
  const WallTime time =
      at(*rc::gen::inRange<std::int64_t>(-60'000'000'000'000'000, 250'000'000'000'000'000));
  RC_ASSERT(parse_time(text_of(time)) == time);
}

RC_GTEST_PROP(TimeText, NeverCrashesOnAnyText, (const std::string& text)) {
  (void)parse_time(text);
  (void)parse_time("2018-04-05T03:56:24" + text);
}

}  // namespace
}  // namespace dovetail
