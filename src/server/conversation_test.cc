// What a client sends and receives, without a socket.
#include "server/conversation.h"

#include <gtest/gtest.h>

#include "host/host.h"
#include "server/test_malformed.h"

namespace dovetail::http {
namespace {

// Accepts every request and answers with its content.
class Taking final : public RequestHandler {
 public:
  std::optional<Reply> begin(const Request& request) override {
    if (request.target == "/refused") return Reply{404, "not here"};
    return std::nullopt;
  }
  std::optional<Reply> take(Request& request) override {
    taken.push_back(std::string(request.method) + " " + request.uri + " " + request.body);
    if (request.body_too_large) return Reply{413, "too large"};
    if (request.no_room) return Reply{503, "no room"};
    Reply reply{200};
    reply.body = request.body;
    reply.headers = {{"X-Bad", "a\r\nX-Injected: 1"}, {"X Bad", "b"}, {"X-Good", "c"}};
    return reply;
  }
  std::vector<std::string> taken{};
};

class ConversationTest : public testing::Test {
 protected:
  // Sends `bytes` in pieces, and reads until nothing more comes.
  std::string hear(std::string_view bytes, std::size_t piece = 1 << 20) {
    std::string heard;
    while (!bytes.empty() && talk_.wants_bytes()) {
      talk_.take(bytes.substr(0, piece));
      bytes.remove_prefix(std::min(piece, bytes.size()));
      while (!talk_.out().empty()) {
        heard += talk_.out();
        talk_.said();
      }
    }
    return heard;
  }

  EndpointOptions options_{};
  Taking handler_;
  Talks talks_{options_, handler_, system_clock()};
  Conversation talk_{talks_, nullptr, {"192.0.2.1", false}};
};

TEST_F(ConversationTest, RequestsInARowAreAnsweredInOrder) {
  const std::string one = "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nab";
  const std::string two = "\r\nHEAD /b HTTP/1.1\r\nHost: x\r\n\r\n";
  const std::string three =
      "PUT /c?d HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
      "1\r\nc\r\n0\r\n\r\n";
  const std::string heard = hear(one + two + three + "GET /never HTTP/1.1\r\n");
  EXPECT_EQ(handler_.taken, (std::vector<std::string>{"POST /a ab", "HEAD /b ", "PUT /c?d c"}));
  EXPECT_EQ(talk_.phase(), Conversation::Phase::over);
  EXPECT_FALSE(talk_.is_cut_short());
  EXPECT_NE(heard.find("Content-Length: 2\r\n\r\nab"), std::string::npos) << heard;
  EXPECT_NE(heard.find("Content-Length: 1\r\nConnection: close\r\n\r\nc"), std::string::npos)
      << heard;
  EXPECT_EQ(heard.find("Injected"), std::string::npos);
  EXPECT_NE(heard.find("X-Good: c"), std::string::npos);
  EXPECT_EQ(talks_.requests, 0U);
  EXPECT_EQ(talks_.receiving_bytes, 0U);
}

TEST_F(ConversationTest, ABodyIsAskedForOnlyWhenItIsWanted) {
  const std::string head = "Host: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n";
  EXPECT_EQ(hear("POST /a HTTP/1.1\r\n" + head), "HTTP/1.1 100 Continue\r\n\r\n");
  EXPECT_TRUE(hear("ab").starts_with("HTTP/1.1 200"));
  EXPECT_TRUE(hear("POST /refused HTTP/1.1\r\n" + head).starts_with("HTTP/1.1 404"));
  EXPECT_EQ(talk_.phase(), Conversation::Phase::over) << "its body may follow or not";
}

TEST_F(ConversationTest, NothingMalformedBecomesARequest) {
  for (const Malformed& one : malformed_requests()) {
    for (const std::size_t piece : {std::size_t{1}, std::size_t{1} << 20}) {
      SCOPED_TRACE(one.name);
      Conversation talk(talks_, nullptr, {});
      std::string_view rest = one.bytes;
      while (!rest.empty() && talk.wants_bytes()) {
        talk.take(rest.substr(0, piece));
        rest.remove_prefix(std::min(piece, rest.size()));
      }
      EXPECT_TRUE(handler_.taken.empty());
      EXPECT_TRUE(talk.out().starts_with("HTTP/1.1 " + std::to_string(one.status))) << talk.out();
      EXPECT_NE(talk.out().find("Connection: close"), std::string::npos);
      talk.said();
      EXPECT_EQ(talk.phase(), Conversation::Phase::over);
    }
    EXPECT_EQ(talks_.requests, 0U);
    EXPECT_EQ(talks_.receiving_bytes, 0U);
  }
}

TEST_F(ConversationTest, WhatIsTooMuchIsNotKept) {
  options_.body_bytes_max = 10;
  EXPECT_TRUE(hear("POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
                   "b\r\n01234567890\r\n")
                  .starts_with("HTTP/1.1 413"));
  EXPECT_TRUE(talk_.is_cut_short());
  EXPECT_EQ(talks_.receiving_bytes, 0U);
  Conversation other(talks_, nullptr, {});
  other.take("POST /" + std::string(40'000, 'a'));
  EXPECT_TRUE(other.out().starts_with("HTTP/1.1 414")) << other.out();
}

}  // namespace
}  // namespace dovetail::http
