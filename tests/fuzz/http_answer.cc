// Answers of services and endpoints: headers are kept byte for byte and cannot split an answer;
// Retry-After is a time or nothing.
#include <string>
#include <vector>

#include "core/ascii.h"
#include "fuzz/fuzz.h"
#include "gateway/answer_head.h"
#include "gateway/forward.h"
#include "server/header_field.h"
#include "server/reply_text.h"
#include "webhook/answer.h"

using namespace dovetail;
using namespace dovetail::http;

namespace {

std::size_t lines_in(std::string_view text) {
  std::size_t count = 0;
  for (std::size_t at = text.find("\r\n"); at != std::string_view::npos;
       at = text.find("\r\n", at + 2))
    ++count;
  return count;
}

// Each line as libcurl hands it over, with its end.
void check_head(std::string_view input) {
  AnswerHead head;
  std::size_t taken = 0;
  while (!input.empty()) {
    const std::string_view line = input.substr(0, std::min(input.find('\n'), input.size() - 1) + 1);
    input.remove_prefix(line.size());
    const bool was_whole = head.is_whole();
    if (!head.take(line)) {
      FUZZ_REQUIRE(taken + line.size() > 60'000);
      return;
    }
    taken += line.size();
    FUZZ_REQUIRE(head.is_whole() || !was_whole);
  }
  FUZZ_REQUIRE(head.status() == 0 || (head.status() >= 100 && head.status() <= 999));
  FUZZ_REQUIRE(!head.is_whole() || head.status() >= 200);
  for (const Header& one : head.headers()) {
    FUZZ_REQUIRE(!is_of_connection(to_lower(one.name), {}));
    FUZZ_REQUIRE(one.value.empty() || (one.value.front() != ' ' && one.value.back() > ' ') ||
                 static_cast<unsigned char>(one.value.back()) >= 0x80);
    FUZZ_REQUIRE((one.name + one.value).find('\n') == std::string::npos);
  }
}

}  // namespace

// Lines are headers, "name: value".
void check_input(std::string_view input) {
  check_head(input);
  const WallTime now{std::chrono::seconds(1'700'000'000)};
  if (const auto pause = parse_retry_after(input, now)) FUZZ_REQUIRE(*pause >= Duration{0});
  std::vector<Header> headers;
  std::string_view rest = input;
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    headers.push_back({std::string(line.substr(0, colon)), std::string(line.substr(colon + 1))});
  }
  // Stored headers come back, unless a name contains a character that ends it.
  const std::vector<Header> back = from_lines(to_lines(headers));
  bool is_plain = true;
  for (const Header& one : headers)
    is_plain &= one.name.find(": ") == std::string::npos && !one.name.ends_with(':');
  if (is_plain) {
    FUZZ_REQUIRE(back.size() == headers.size());
    for (std::size_t i = 0; i < back.size(); ++i)
      FUZZ_REQUIRE(back[i].name == headers[i].name && back[i].value == headers[i].value);
  }
  Reply reply{200};
  reply.headers = headers;
  reply.body = "body";
  const std::string bytes = reply_bytes(reply, {false, false, now});
  const std::size_t end = bytes.find("\r\n\r\n");
  FUZZ_REQUIRE(end != std::string::npos && std::string_view(bytes).substr(end + 4) == "body");
  // The status, a date, a length, and at most one line for each header.
  FUZZ_REQUIRE(lines_in(bytes.substr(0, end)) <= headers.size() + 2);
}

std::vector<std::string_view> seed_inputs() {
  using namespace std::string_view_literals;
  return {
      "HTTP/1.1 103 Early Hints\r\nX: a\r\n\r\nHTTP/1.1 200 OK\r\nConnection: close, X-Hop\r\n"
      "X-Hop: 1\r\nContent-Length: 12\r\nETag:  \"a\" \r\n b: folded\r\n\r\nX: trailer\r\n",
      "HTTP/1.1\r\n\r\nHTTP/2  404\r\n\r\n",
      "120",
      "Wed, 21 Oct 2026 07:28:00 GMT",
      "Wednesday, 21-Oct-26 07:28:00 GMT",
      "99999999999999999999",
      "-1",
      " 5\t",
      "Content-Type: text/plain\nSet-Cookie: a=1\nSet-Cookie: b=2\n",
      "X: a\r\rInjected: b\nDate: now\nContent-Length: 5\nTransfer-Encoding: chunked",
      "X: caf\xe9\xff\0\n: empty\nX y: z\n"sv};
}
