// The head of an HTTP/1 request, strictly as in RFC 9112: input that two readers could understand
// differently is refused, never repaired.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/message/message.h"

namespace dovetail::http {

// Why a request is refused. The connection closes after the answer, because nobody knows where the
// next request begins.
struct HeadFault {
  unsigned status = 400;
  std::string text{};  // for people
};

// Views into the bytes that were parsed.
struct RequestHead {
  std::string_view method{};
  std::string_view target{};  // path and query as received
  std::vector<MessageHeader> headers{};
  bool is_chunked = false;
  std::uint64_t length = 0;  // of the body; unused if it is chunked
  bool stays_open = true;    // the client may send another request
  bool waits_for_continue = false;

  bool has_body() const { return is_chunked || length > 0; }
};

// Finds the end of the head, and what no head may contain: control characters, and CR or LF
// alone.
struct HeadEnd {
  std::size_t bytes = 0;  // of the head with its empty line; 0: incomplete
  std::optional<HeadFault> fault{};
};
// `looked_at`: how many bytes were checked before.
HeadEnd find_head_end(std::string_view bytes, std::size_t looked_at);

// `bytes` includes the empty line. Empty result: the head is in `out`.
std::optional<HeadFault> parse_head(std::string_view bytes, RequestHead& out);

// Fields alone, such as trailers of a chunked body, without the empty line.
std::optional<HeadFault> parse_fields(std::string_view bytes, std::vector<MessageHeader>& out);

}  // namespace dovetail::http
