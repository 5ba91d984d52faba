// The head of an HTTP/1 request, as RFC 9112 has it and no more: what two readers could understand
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

// Why a request is refused. Its connection is closed behind the answer, because nobody knows where
// the next request begins.
struct HeadFault {
  unsigned status = 400;
  std::string text{};  // for people
};

// Views into the bytes that were parsed.
struct RequestHead {
  std::string_view method{};
  std::string_view target{};  // path and query as they came
  std::vector<MessageHeader> headers{};
  bool is_chunked = false;
  std::uint64_t length = 0;  // of the body, unless it is chunked
  bool stays_open = true;    // the client may send another request behind this one
  bool waits_for_continue = false;

  bool has_body() const { return is_chunked || length > 0; }
};

// Looks for the end of the head that begins `bytes`, and for what no head may have: control
// characters, and CR and LF apart from each other.
struct HeadEnd {
  std::size_t bytes = 0;  // of the head, with the empty line behind it; 0: not whole
  std::optional<HeadFault> fault{};
};
// `looked_at`: so many bytes were looked at before.
HeadEnd find_head_end(std::string_view bytes, std::size_t looked_at);

// `bytes`: with the empty line. None: it was read into `out`.
std::optional<HeadFault> parse_head(std::string_view bytes, RequestHead& out);

// Fields alone, such as the trailers of a chunked body, without the empty line behind them.
std::optional<HeadFault> parse_fields(std::string_view bytes, std::vector<MessageHeader>& out);

}  // namespace dovetail::http
