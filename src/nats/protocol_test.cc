#include "nats/protocol.h"

#include <gtest/gtest.h>

namespace dovetail::nats {
namespace {

// The frame at the beginning of `bytes`, which must be whole.
Frame parsed(std::string_view bytes, std::size_t size_expected = 0) {
  Frame frame;
  const Result<std::size_t> size = parse_frame(bytes, frame);
  EXPECT_TRUE(size) << (size ? "" : size.error().text);
  EXPECT_EQ(size.value_or(0), size_expected == 0 ? bytes.size() : size_expected);
  return frame;
}

TEST(NatsProtocol, AMessageIsReadWithAndWithoutReply) {
  const Frame plain = parsed("MSG orders.new 7 5\r\nhello\r\n");
  EXPECT_EQ(plain.kind, Frame::Kind::message);
  EXPECT_EQ(plain.subject, "orders.new");
  EXPECT_EQ(plain.subscription, 7U);
  EXPECT_EQ(plain.reply, "");
  EXPECT_EQ(plain.payload, "hello");
  const Frame replied = parsed("MSG orders.new 7 back.1 0\r\n\r\n");
  EXPECT_EQ(replied.reply, "back.1");
  EXPECT_EQ(replied.payload, "");
}

TEST(NatsProtocol, AnEmptyReplyThatServersWriteAsTwoSpacesIsNone) {
  const Frame frame = parsed("MSG _INBOX.1 1  2\r\nok\r\n");
  EXPECT_EQ(frame.reply, "");
  EXPECT_EQ(frame.payload, "ok");
}

TEST(NatsProtocol, HeadersAndPayloadAreTakenApart) {
  const Frame frame = parsed("HMSG a 1 r 18 20\r\nNATS/1.0\r\nX: 1\r\n\r\nm1\r\n");
  EXPECT_EQ(frame.reply, "r");
  EXPECT_EQ(frame.headers, "NATS/1.0\r\nX: 1\r\n\r\n");
  EXPECT_EQ(frame.payload, "m1");
}

TEST(NatsProtocol, OneFrameIsTakenAtATime) {
  EXPECT_EQ(parsed("PING\r\nPONG\r\n", 6).kind, Frame::Kind::ping);
  EXPECT_EQ(parsed("PONG\r\n").kind, Frame::Kind::pong);
  EXPECT_EQ(parsed("+OK\r\n").kind, Frame::Kind::ok);
  EXPECT_EQ(parsed("INFO {\"a\":1} \r\n").text, "{\"a\":1}");
  EXPECT_EQ(parsed("-ERR 'Authorization Violation'\r\n").text, "Authorization Violation");
}

TEST(NatsProtocol, WhatIsNotAllThereYetIsLeftAlone) {
  const std::string whole = "HMSG a 1 r 18 20\r\nNATS/1.0\r\nX: 1\r\n\r\nm1\r\n";
  for (std::size_t size = 0; size < whole.size(); ++size) {
    Frame frame;
    const Result<std::size_t> taken = parse_frame(std::string_view(whole).substr(0, size), frame);
    ASSERT_TRUE(taken);
    EXPECT_EQ(*taken, 0U) << size;
  }
}

TEST(NatsProtocol, APayloadMayHoldAnyBytes) {
  const std::string payload("\r\nMSG x 1 1\r\n\0\xff", 15);
  const Frame frame = parsed("MSG a 1 15\r\n" + payload + "\r\n");
  EXPECT_EQ(frame.payload.size(), 15U);
}

TEST(NatsProtocol, WhatNoServerSaysIsRefused) {
  for (const std::string_view bytes :
       {"HTTP/1.1 400 Bad Request\r\n", "MSG a 1\r\n", "MSG a 1 r 2 3 4 5\r\n",
        "MSG a x 1\r\n1\r\n", "MSG a 1 -1\r\n", "MSG a 1 99999999999999999999\r\n",
        "MSG a 1 70000000\r\n", "HMSG a 1 5 4\r\nabcd\r\n", "MSG a 1 1\r\nabc\r\n", "\r\n"}) {
    Frame frame;
    const Result<std::size_t> taken = parse_frame(bytes, frame);
    ASSERT_FALSE(taken) << bytes;
    EXPECT_EQ(taken.error().code, Errc::unavailable);
  }
  Frame frame;
  EXPECT_FALSE(parse_frame(std::string(kControlLineMax, 'x'), frame));
}

TEST(NatsProtocol, HeadersAreReadWithStatusAndWithout) {
  HeaderBlock block;
  ASSERT_TRUE(parse_headers("NATS/1.0\r\nA: 1\r\nB:two words \r\nA: 2\r\n\r\n", block));
  EXPECT_EQ(block.status, 0);
  ASSERT_EQ(block.headers.size(), 3U);
  EXPECT_EQ(block.headers[1].value, "two words");
  EXPECT_EQ(find_header(block.headers, "A"), "1");
  EXPECT_EQ(find_header(block.headers, "a"), "");
  ASSERT_TRUE(parse_headers("NATS/1.0 503\r\n\r\n", block));
  EXPECT_EQ(block.status, 503);
  ASSERT_TRUE(
      parse_headers("NATS/1.0 408 Request Timeout\r\nNats-Pending-Messages: 7\r\n\r\n", block));
  EXPECT_EQ(block.status, 408);
  EXPECT_EQ(block.description, "Request Timeout");
  EXPECT_EQ(find_header(block.headers, "Nats-Pending-Messages"), "7");
}

TEST(NatsProtocol, BrokenHeadersAreToldAsSuch) {
  HeaderBlock block;
  for (const std::string_view text :
       {"", "NATS/1.0", "HTTP/1.0\r\n\r\n", "NATS/1.0\r\n", "NATS/1.0\r\nA 1\r\n\r\n",
        "NATS/1.0\r\n: 1\r\n\r\n", "NATS/1.0 x\r\n\r\n", "NATS/1.0\r\nA: 1\r\n"})
    EXPECT_FALSE(parse_headers(text, block)) << text;
}

TEST(NatsProtocol, OnlySubjectsThatNameOnePlaceAreAllowed) {
  for (const std::string_view good : {"orders", "orders.new", "gr\xc3\xbc\xc3\x9f.x", "a-b_c/d"})
    EXPECT_EQ(why_no_subject(good), "") << good;
  for (const std::string_view bad :
       {"", ".a", "a.", "a..b", "a.*", "a.>", "a b", "a\tb", "a\nb", "a*b"})
    EXPECT_NE(why_no_subject(bad), "") << bad;
}

TEST(NatsProtocol, AnyKeyBecomesOneTokenAndComesBack) {
  for (const std::string& key :
       {std::string("plain"), std::string("a.b c*d>e%f"), std::string("\0\r\n\x7f", 4),
        std::string("gr\xc3\xbc\xc3\x9f"), std::string("%41")}) {
    const std::string token = to_token(key);
    EXPECT_EQ(why_no_subject(token), "");
    EXPECT_EQ(token.find('.'), std::string::npos);
    EXPECT_EQ(from_token(token), key);
  }
  EXPECT_EQ(from_token("50%"), "50%");
}

TEST(NatsProtocol, HeadersThatWouldNotArriveAreRefused) {
  EXPECT_EQ(why_no_header("traceparent", "00-ab"), "");
  EXPECT_EQ(why_no_header("x", "gr\xc3\xbc\xc3\x9f: yes"), "");
  EXPECT_EQ(why_no_header("x", ""), "");
  for (const auto& [name, value] :
       std::initializer_list<std::pair<const char*, const char*>>{{"", "x"},
                                                                  {"a:b", "x"},
                                                                  {"a b", "x"},
                                                                  {"\xc3\xbc", "x"},
                                                                  {"a", "x\r\ny"},
                                                                  {"a", " x"},
                                                                  {"a", "x "}})
    EXPECT_NE(why_no_header(name, value), "") << name;
}

TEST(NatsProtocol, AnEventMayNotCommandTheServerByItsHeaders) {
  EXPECT_NE(why_no_header("Nats-Rollup", "all"), "");
  EXPECT_NE(why_no_header("nats-msg-id", "x"), "");
}

TEST(NatsProtocol, TheSubjectInAnErrorIsFound) {
  std::string name;
  ASSERT_TRUE(quoted_name("Permissions Violation for Publish to \"a.b\\\"c\"", name));
  EXPECT_EQ(name, "a.b\"c");
  EXPECT_FALSE(quoted_name("Authorization Violation", name));
  EXPECT_FALSE(quoted_name("to \"unfinished", name));
}

TEST(NatsProtocol, WhatIsPublishedHasTheFormOfTheProtocol) {
  std::string out;
  append_publish(out, "a.b", "", "", "xyz");
  EXPECT_EQ(out, "PUB a.b 3\r\nxyz\r\n");
  out.clear();
  append_publish(out, "a.b", "r.1", "NATS/1.0\r\nX: 1\r\n\r\n", "m1");
  EXPECT_EQ(out, "HPUB a.b r.1 18 20\r\nNATS/1.0\r\nX: 1\r\n\r\nm1\r\n");
}

TEST(NatsProtocol, WhatAMessageIsStandsInWhereItsAcknowledgementGoes) {
  AckSubject ack;
  ASSERT_TRUE(parse_ack_subject("$JS.ACK.D.w.2.7.17.1794751251790750877.3", ack));
  EXPECT_EQ(ack.stream_sequence, 7);
  EXPECT_EQ(ack.consumer_sequence, 17);
  EXPECT_EQ(ack.time_ns, 1794751251790750877);
  ASSERT_TRUE(parse_ack_subject("$JS.ACK.hub.Ab12.D.w.2.8.18.1794751251790750877.3.rnd", ack));
  EXPECT_EQ(ack.stream_sequence, 8);
  for (const std::string_view other :
       {"", "$JS.ACK.", "$JS.ACK.D.w.2.7.17.1.3.4", "$JS.ACK.D.w.2.x.17.1.3", "_INBOX.1.2",
        "$JS.ACK.1.2.3.4.5.6.7.8.9.10.11.12.13", "$JS.ACK.D.w.2.0.17.1.3"})
    EXPECT_FALSE(parse_ack_subject(other, ack)) << other;
}

TEST(NatsProtocol, VersionsAreCompared) {
  EXPECT_LT(parse_version("2.9.10"), parse_version("2.11.0"));
  EXPECT_EQ(parse_version("2.11.0-RC.1"), (Version{2, 11, 0}));
  EXPECT_EQ(parse_version("x"), (Version{}));
}

}  // namespace
}  // namespace dovetail::nats
