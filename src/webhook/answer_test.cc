#include "webhook/answer.h"

#include <gtest/gtest.h>

namespace dovetail::http {
namespace {

using std::chrono::seconds;

constexpr WallTime kNow{seconds(1'700'000'000)};  // Tue, 14 Nov 2023 22:13:20 GMT

TEST(Answer, RetryAfterIsSecondsOrADate) {
  EXPECT_EQ(parse_retry_after("0", kNow), seconds(0));
  EXPECT_EQ(parse_retry_after(" 120 ", kNow), seconds(120));
  EXPECT_EQ(parse_retry_after("Tue, 14 Nov 2023 22:14:20 GMT", kNow), seconds(60));
  EXPECT_EQ(parse_retry_after("Tue, 14 Nov 2023 22:13:00 GMT", kNow), seconds(0)) << "it is past";
  EXPECT_GT(parse_retry_after("99999999999999999999", kNow), seconds(1'000'000));
  EXPECT_GT(parse_retry_after("Tue, 14 Nov 2000000000 22:14:20 GMT", kNow), seconds(1'000'000));
}

TEST(Answer, AnythingElseIsNoRetryAfter) {
  for (const char* value : {"", "  ", "-1", "soon", "1.5.6.7", "\x01"})
    EXPECT_EQ(parse_retry_after(value, kNow), std::nullopt) << value;
}

TEST(Answer, OnlyTwoHundredsConfirm) {
  for (long status = 100; status < 600; ++status) {
    EXPECT_EQ(meaning_of(status, false) == Meaning::confirmed, status / 100 == 2) << status;
    if (status / 100 == 2) continue;
    EXPECT_NE(reason_of(status).find(std::to_string(status)), std::string::npos);
  }
}

TEST(Answer, OnlyThreeStatusesRefuseOneEventForGood) {
  for (long status = 100; status < 600; ++status) {
    const bool is_definite = status == 400 || status == 413 || status == 422;
    EXPECT_EQ(meaning_of(status, false) == Meaning::rejected, is_definite) << status;
    EXPECT_EQ(meaning_of(status, true) == Meaning::rejected, is_definite) << status;
  }
}

TEST(Answer, WrongCredentialsShutTheEndpointUnlessThePathIsTheEventsOwn) {
  EXPECT_EQ(meaning_of(401, false), Meaning::shut);
  EXPECT_EQ(meaning_of(401, true), Meaning::failed);
  EXPECT_EQ(meaning_of(410, false), Meaning::failed);
}

}  // namespace
}  // namespace dovetail::http
