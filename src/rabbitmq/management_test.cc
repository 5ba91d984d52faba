#include "rabbitmq/management.h"

#include <gtest/gtest.h>

namespace dovetail::rabbitmq {
namespace {

TEST(ManagementAnswer, HasAStatusAndABody) {
  const auto answer = parse_answer("HTTP/1.0 404 Not Found\r\nX: y\r\n\r\n{\r\n\r\n}");
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 404);
  EXPECT_EQ(answer->body, "{\r\n\r\n}");
}

TEST(ManagementAnswer, WhatIsNoAnswerIsNamed) {
  for (const std::string_view bytes :
       {"", "HTTP/1.1 200 OK\r\n", "HTTP/1.1\r\n\r\n", "HTTP/1.1 -99 x\r\n\r\n",
        "HTTP/1.1 20\r\n\r\n", "HTTP/2 200 OK\r\n\r\n", "AMQP\x01\x01\r\n\r\n"}) {
    const auto answer = parse_answer(bytes);
    ASSERT_FALSE(answer) << bytes;
    EXPECT_EQ(answer.error().code, Errc::unavailable);
    EXPECT_NE(answer.error().text.find("management_url"), std::string::npos);
  }
}

}  // namespace
}  // namespace dovetail::rabbitmq
