// The head and the body of requests as bytes.
#include "server/request_head.h"

#include <gtest/gtest.h>

#include "server/request_body.h"

namespace dovetail::http {
namespace {

struct Read {
  std::optional<HeadFault> fault{};
  RequestHead head{};
};

Read read(const std::string& bytes) {
  Read result;
  const HeadEnd end = find_head_end(bytes, 0);
  result.fault = end.fault;
  if (!end.fault) {
    EXPECT_EQ(end.bytes, bytes.size());
    result.fault = parse_head(bytes, result.head);
  }
  return result;
}

TEST(RequestHead, SaysWhatARequestIs) {
  const std::string bytes =
      "PATCH /a%20b?c=d HTTP/1.1\r\nHost: [::1]:80\r\nX-Empty:\r\nx-Blank: \t a b \t\r\n"
      "Content-Length: 0012\r\nEXPECT: 100-Continue\r\nX-Latin: caf\xe9\r\n\r\n";
  const Read result = read(bytes);
  ASSERT_FALSE(result.fault) << result.fault->text;
  const RequestHead& head = result.head;
  EXPECT_EQ(head.method, "PATCH");
  EXPECT_EQ(head.target, "/a%20b?c=d");
  ASSERT_EQ(head.headers.size(), 6U);
  EXPECT_EQ(head.headers[1].value, "");
  EXPECT_EQ(head.headers[2].name, "x-Blank");
  EXPECT_EQ(head.headers[2].value, "a b");
  EXPECT_EQ(head.headers[5].value, "caf\xe9");
  EXPECT_EQ(head.length, 12U);
  EXPECT_FALSE(head.is_chunked);
  EXPECT_TRUE(head.stays_open);
  EXPECT_TRUE(head.waits_for_continue);
}

TEST(RequestHead, AConnectionStaysOpenUnlessItIsSaidToCloseOrIsOld) {
  EXPECT_TRUE(read("GET / HTTP/1.1\r\nHost: x\r\n\r\n").head.stays_open);
  EXPECT_TRUE(read("GET / HTTP/1.1\r\nHost: x\r\nConnection: keep-alive\r\n\r\n").head.stays_open);
  EXPECT_FALSE(read("GET / HTTP/1.1\r\nHost: x\r\nConnection: X-A, CLOSE\r\n\r\n").head.stays_open);
  EXPECT_FALSE(read("GET / HTTP/1.0\r\n\r\n").head.stays_open);
}

TEST(RequestHead, ItsEndIsFoundInPieces) {
  const std::string bytes = "GET / HTTP/1.1\r\nHost: x\r\n\r\nbody\n";
  for (std::size_t size = 1; size <= bytes.size(); ++size) {
    const HeadEnd end = find_head_end(std::string_view(bytes).substr(0, size), size - 1);
    ASSERT_FALSE(end.fault && size <= 27) << size;
    EXPECT_EQ(end.bytes, size == 27 ? 27U : 0U) << size;
  }
}

std::string body_of(const std::string& head, const std::string& bytes, std::size_t piece,
                    std::string* rest = nullptr) {
  RequestHead parsed;
  if (const auto fault = parse_head(head, parsed)) return "wrong head: " + fault->text;
  BodyReader reader(parsed);
  std::string out;
  std::string_view left = bytes;
  while (!left.empty() && !reader.is_done()) {
    std::string_view now = left.substr(0, piece);
    const std::size_t before = now.size();
    if (const auto fault = reader.take(now, out)) return "wrong: " + fault->text;
    left.remove_prefix(before - now.size());
  }
  if (rest != nullptr) *rest = left;
  return reader.is_done() ? out : "not whole";
}

TEST(RequestBody, ComesWholeInPiecesOfAnySize) {
  const std::string start = "POST / HTTP/1.1\r\nHost: x\r\n";
  const std::string chunks =
      "3\r\nabc\r\n0002;name=\"v\" ;x\r\nde\r\nA\r\n0123456789\r\n0\r\nX-Sum: 1\r\nY: \r\n\r\n";
  for (std::size_t piece = 1; piece < 70; ++piece) {
    std::string rest;
    EXPECT_EQ(body_of(start + "Transfer-Encoding: Chunked\r\n\r\n", chunks + "GET", piece, &rest),
              "abcde0123456789");
    EXPECT_EQ(rest, "GET");
    EXPECT_EQ(body_of(start + "Content-Length: 5\r\n\r\n", "abcdeGET", piece, &rest), "abcde");
    EXPECT_EQ(rest, "GET");
  }
  EXPECT_EQ(body_of(start + "\r\n", "GET", 1), "");
  EXPECT_EQ(body_of(start + "Content-Length: 5\r\n\r\n", "abcd", 2), "not whole");
}

TEST(RequestBody, ManySmallChunksAreNoWaste) {
  std::string chunks;
  for (int i = 0; i < 20'000; ++i) chunks += "1\r\nx\r\n";
  EXPECT_EQ(body_of("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n",
                    chunks + "0\r\n\r\n", 4096),
            std::string(20'000, 'x'));
}

}  // namespace
}  // namespace dovetail::http
