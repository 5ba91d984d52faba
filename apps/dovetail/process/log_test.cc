#include "process/log.h"

#include <gtest/gtest.h>

namespace dovetail::app {

using config::LogConfig;
using config::LogFormat;
using config::LogLevel;
namespace {

const WallTime kTime{std::chrono::microseconds(1'700'000'000'123'456)};

TEST(Log, ATextLineNamesTimeLevelSubjectAndFields) {
  EXPECT_EQ(
      format_log_line({}, kTime, LogLevel::warn, "orders", "sink lost", {{"code", "unavailable"}}),
      "2023-11-14T22:13:20.123456Z warn  orders: sink lost code=unavailable");
}

TEST(Log, ATextLineStaysOneLine) {
  EXPECT_EQ(format_log_line({}, kTime, LogLevel::info, "", "one\ntwo", {}),
            "2023-11-14T22:13:20.123456Z info  one two");
}

TEST(Log, AJsonLineEscapesWhatItQuotes) {
  const LogConfig json{LogFormat::json, LogLevel::info};
  EXPECT_EQ(format_log_line(json, kTime, LogLevel::info, "r", "say \"hi\"\n\\", {{"k", "v"}}),
            R"({"time":"2023-11-14T22:13:20.123456Z","level":"info","subject":"r",)"
            R"("message":"say \"hi\"\u000a\\","k":"v"})");
}

}  // namespace
}  // namespace dovetail::app
