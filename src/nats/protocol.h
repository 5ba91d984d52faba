// The text protocol between a NATS server and its clients, as pure functions on bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/message/message.h"
#include "dovetail/result.h"

namespace dovetail::nats {

// What a server sends. All views point into the bytes that were parsed.
struct Frame {
  enum class Kind : std::uint8_t { info, message, ping, pong, ok, error };
  Kind kind = Kind::ok;
  std::string_view text{};  // of info (JSON) and error (without quotes)
  // Of a message.
  std::string_view subject{};
  std::uint64_t subscription = 0;
  std::string_view reply{};    // empty: none is wanted
  std::string_view headers{};  // the whole block; empty: none
  std::string_view payload{};
};

inline constexpr std::size_t kControlLineMax = 64 << 10;
inline constexpr std::size_t kPayloadMax = 64 << 20;  // no server can be told to allow more

// Reads one frame at the beginning of `bytes`. Returns how many bytes it takes; 0: it is not all
// there yet. unavailable: this is not what a NATS server says.
Result<std::size_t> parse_frame(std::string_view bytes, Frame& out);

// A block of headers. A status of 0 is none: the message is one that somebody published.
struct HeaderBlock {
  int status = 0;
  std::string_view description{};
  std::vector<MessageHeader> headers{};
};

// Fills `out`, whose memory is used again. False: the block is broken, and what was readable of it
// is in `out`.
bool parse_headers(std::string_view block, HeaderBlock& out);

// The value of the header that is named so first; empty: there is none.
std::string_view find_header(const std::vector<MessageHeader>& headers, std::string_view name);

// Why nobody may publish to `subject`, or empty. A name of a subject in use: tokens between dots,
// no wildcards.
std::string why_no_subject(std::string_view subject);

// A text as one token of a subject, and back. What a token may not have is written as in a URL.
std::string to_token(std::string_view text);
std::string from_token(std::string_view token);

// Why no header may be so, or empty. A foreign client must read the same bytes that were written.
std::string why_no_header(std::string_view name, std::string_view value);

// What the name in an error of the server is, such as the subject in
// `Permissions Violation for Publish to "orders.x"`. False: there is none.
bool quoted_name(std::string_view error_text, std::string& out);

// One message to be published, of which the payload is only measured: it follows as it is, and then
// "\r\n". `headers` is the whole block, or empty.
void append_publish_head(std::string& out, std::string_view subject, std::string_view reply,
                         std::string_view headers, std::size_t payload_bytes);
void append_publish(std::string& out, std::string_view subject, std::string_view reply,
                    std::string_view headers, std::string_view payload);

// Where acknowledgements of one message of a consumer go to. It tells what the message is.
struct AckSubject {
  std::int64_t stream_sequence = 0;
  std::int64_t consumer_sequence = 0;  // counts deliveries of the consumer, repeated ones as well
  std::int64_t time_ns = 0;            // when the stream stored it, since 1970
};
bool parse_ack_subject(std::string_view subject, AckSubject& out);

// "2.11.3" as numbers that can be compared.
struct Version {
  int major = 0;
  int minor = 0;
  int patch = 0;
  friend auto operator<=>(const Version&, const Version&) = default;
};
Version parse_version(std::string_view text);

}  // namespace dovetail::nats
