#include "gateway/answer_head.h"

#include <gtest/gtest.h>

#include <string>

namespace dovetail::http {
namespace {

AnswerHead head_of(std::initializer_list<std::string_view> lines) {
  AnswerHead head;
  for (const std::string_view line : lines) EXPECT_TRUE(head.take(line));
  return head;
}

TEST(AnswerHead, IsTheFinalOne) {
  const AnswerHead head =
      head_of({"HTTP/1.1 103 Early Hints\r\n", "Content-Length: 7\r\n", "X: early\r\n", "\r\n",
               "HTTP/1.1 201 Created\r\n", "X:  y \r\n", "\r\n", "X: trailer\r\n"});
  EXPECT_EQ(head.status(), 201);
  EXPECT_TRUE(head.is_whole());
  EXPECT_EQ(head.length(), std::nullopt);
  ASSERT_EQ(head.headers().size(), 1U);
  EXPECT_EQ(head.headers()[0].name, "X");
  EXPECT_EQ(head.headers()[0].value, "y");
}

TEST(AnswerHead, WhatBelongsToTheConnectionIsLeftOut) {
  const AnswerHead head =
      head_of({"HTTP/1.1 200 OK\r\n", "Connection: close, X-Hop\r\n", "x-hop: 1\r\n",
               "Keep-Alive: 5\r\n", "Content-Length: 12\r\n", "ETag: \"a\"\r\n", "\r\n"});
  EXPECT_EQ(head.length(), 12U);
  ASSERT_EQ(head.headers().size(), 1U);
  EXPECT_EQ(head.headers()[0].name, "ETag");
}

TEST(AnswerHead, HasNoStatusWhereTheServiceSentNone) {
  EXPECT_EQ(head_of({"HTTP/1.1 OK\r\n"}).status(), 0);
  EXPECT_EQ(head_of({"HTTP/1.1 -20 OK\r\n"}).status(), 0);
  EXPECT_EQ(head_of({"HTTP/1.1\r\n", "\r\n"}).status(), 0);
  EXPECT_FALSE(head_of({"HTTP/1.1\r\n", "\r\n"}).is_whole());
}

TEST(AnswerHead, OneThatIsTooLargeIsRefused) {
  AnswerHead head = head_of({"HTTP/1.1 200 OK\r\n"});
  const std::string line = "X: " + std::string(1000, 'y') + "\r\n";
  int taken = 0;
  while (head.take(line) && taken < 1000) ++taken;
  EXPECT_EQ(taken, 65'536 / static_cast<int>(line.size()));
}

}  // namespace
}  // namespace dovetail::http
