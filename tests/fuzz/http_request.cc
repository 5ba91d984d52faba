// Requests to the endpoint and the gateway. The same bytes give the same requests however they are
// cut; nothing malformed becomes a request, and nothing is left behind.
#include <string>
#include <vector>

#include "fuzz/fuzz.h"
#include "host/host.h"
#include "server/conversation.h"
#include "server/header_field.h"
#include "server/path.h"
#include "server/request_head.h"
#include "server/test_malformed.h"

using dovetail::MessageHeader;
using namespace dovetail::http;

namespace {

class Recording final : public RequestHandler {
 public:
  std::optional<Reply> begin(const Request& request) override {
    FUZZ_REQUIRE(request.target.starts_with('/') || request.target == "*" ||
                 request.method == "CONNECT");
    FUZZ_REQUIRE(!request.method.empty());
    if (request.target == "/no") return Reply{404, "not here"};
    return std::nullopt;
  }
  std::optional<Reply> take(Request& request) override {
    FUZZ_REQUIRE(request.body.size() <= 1000);
    std::string one = std::string(request.method) + " " + request.uri + "\n";
    for (const auto& header : request.headers) {
      // No value can be read as two.
      FUZZ_REQUIRE(is_token(header.name) && is_field_value(header.value));
      one += std::string(header.name) + ":" + std::string(header.value) + "\n";
    }
    taken.push_back(one + (request.body_too_large ? "too large" : request.body));
    if (why_unsafe_path(request.target).empty())
      FUZZ_REQUIRE(request.target.find("/../") == std::string_view::npos);
    return Reply{200, "done"};
  }
  std::vector<std::string> taken{};
};

std::vector<std::string> requests_in(std::string_view bytes, std::size_t piece) {
  EndpointOptions options;
  options.body_bytes_max = 1000;
  Recording handler;
  Talks talks{options, handler, dovetail::system_clock()};
  {
    Conversation talk(talks, nullptr, {});
    while (!bytes.empty() && talk.phase() != Conversation::Phase::over) {
      FUZZ_REQUIRE(talk.wants_bytes());
      talk.take(bytes.substr(0, piece));
      bytes.remove_prefix(std::min(piece, bytes.size()));
      while (!talk.out().empty() || talk.phase() == Conversation::Phase::saying) talk.said();
    }
  }
  FUZZ_REQUIRE(talks.requests == 0 && talks.receiving_bytes == 0);
  return handler.taken;
}

bool lies_within(std::string_view part, std::string_view whole) {
  return part.empty() ||
         (part.data() >= whole.data() && part.data() + part.size() <= whole.data() + whole.size());
}

void check_head(std::string_view input) {
  std::vector<MessageHeader> fields;
  if (!parse_fields(input, fields))
    for (const MessageHeader& one : fields)
      FUZZ_REQUIRE(is_token(one.name) && lies_within(one.name, input) &&
                   lies_within(one.value, input));
  const HeadEnd end = find_head_end(input, 0);
  if (end.bytes == 0 || end.fault) return;
  FUZZ_REQUIRE(end.bytes <= input.size());
  // In its own memory, so that a read beyond its end is seen.
  const std::string bytes(input.substr(0, end.bytes));
  RequestHead head;
  if (const auto fault = parse_head(bytes, head)) {
    FUZZ_REQUIRE(fault->status >= 400 && !fault->text.empty());
    return;
  }
  FUZZ_REQUIRE(is_token(head.method) && lies_within(head.method, bytes));
  FUZZ_REQUIRE(!head.target.empty() && lies_within(head.target, bytes));
  for (const MessageHeader& one : head.headers)
    FUZZ_REQUIRE(is_token(one.name) && is_field_value(one.value) && lies_within(one.value, bytes));
}

}  // namespace

void check_input(std::string_view input) {
  if (input.empty()) return;
  check_head(input.substr(1));
  const std::size_t piece = 1 + static_cast<unsigned char>(input.front()) % 16;
  input.remove_prefix(1);
  const auto whole = requests_in(input, input.size() + 1);
  FUZZ_REQUIRE(whole == requests_in(input, piece));
}

std::vector<std::string_view> seed_inputs() {
  static const std::vector<std::string> kept = [] {
    std::vector<std::string> all{
        "\x01POST /a?b HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}"
        "GET / HTTP/1.1\r\nHost:\r\n\r\n",
        "\x03PUT /%2e HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        "2;a=b\r\n{}\r\n0\r\nT: u\r\n\r\n",
        "\x05HEAD /no HTTP/1.0\r\nX: y\r\n\r\n",
        "\x07POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 1001\r\n\r\n"};
    for (const Malformed& one : malformed_requests())
      if (one.bytes.size() < 500) all.push_back("\x02" + one.bytes);
    return all;
  }();
  return {kept.begin(), kept.end()};
}
