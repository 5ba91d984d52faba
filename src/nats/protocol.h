// The text protocol between a NATS server and its clients: pure functions on bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/message/message.h"
#include "dovetail/result.h"

namespace dovetail::nats {

// A frame from the server. All views point into the parsed bytes.
struct Frame {
  enum class Kind : std::uint8_t { info, message, ping, pong, ok, error };
  Kind kind = Kind::ok;
  std::string_view text{};  // for info (JSON) and error (without quotes)
  // For a message.
  std::string_view subject{};
  std::uint64_t subscription = 0;
  std::string_view reply{};    // empty: no reply wanted
  std::string_view headers{};  // the whole block; empty: no headers
  std::string_view payload{};
};

inline constexpr std::size_t kControlLineMax = 64 << 10;
inline constexpr std::size_t kPayloadMax = 64 << 20;  // no server allows more

// Reads a frame at the start of `bytes`. Returns its size; 0: incomplete. unavailable: this is not
// the NATS protocol.
Result<std::size_t> parse_frame(std::string_view bytes, Frame& out);

// A block of headers. Status 0: the message comes from a publisher.
struct HeaderBlock {
  int status = 0;
  std::string_view description{};
  std::vector<MessageHeader> headers{};
};

// Fills `out` and reuses its memory. False: the block is broken; `out` has the readable
// part.
bool parse_headers(std::string_view block, HeaderBlock& out);

// The value of the first header with this name; empty: none.
std::string_view find_header(const std::vector<MessageHeader>& headers, std::string_view name);

// Why `subject` cannot be published to; empty: it can. It needs tokens between dots, without
// wildcards.
std::string why_no_subject(std::string_view subject);

// A text as one token of a subject, and back. Forbidden characters are encoded as in a URL.
std::string to_token(std::string_view text);
std::string from_token(std::string_view token);

// Why a header is not allowed; empty: it is. Other clients must read exactly the written bytes.
std::string why_no_header(std::string_view name, std::string_view value);

// The name in a server error, such as the subject in `Permissions Violation for Publish to
// "orders.x"`. False: there is none.
bool quoted_name(std::string_view error_text, std::string& out);

// The head of a message to publish. The payload is only measured: it follows unchanged, then
// "\r\n". `headers`: the whole block, or empty.
void append_publish_head(std::string& out, std::string_view subject, std::string_view reply,
                         std::string_view headers, std::size_t payload_bytes);
void append_publish(std::string& out, std::string_view subject, std::string_view reply,
                    std::string_view headers, std::string_view payload);

// The acknowledgement subject of a message. It also describes the message.
struct AckSubject {
  std::int64_t stream_sequence = 0;
  std::int64_t consumer_sequence = 0;  // counts the consumer's deliveries, including repeats
  std::int64_t time_ns = 0;            // when the stream stored it, since 1970
};
bool parse_ack_subject(std::string_view subject, AckSubject& out);

// "2.11.3" as numbers for comparison.
struct Version {
  int major = 0;
  int minor = 0;
  int patch = 0;
  friend auto operator<=>(const Version&, const Version&) = default;
};
Version parse_version(std::string_view text);

}  // namespace dovetail::nats
