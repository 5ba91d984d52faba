#include "server/request_head.h"

#include <algorithm>
#include <charconv>

#include "core/ascii.h"
#include "server/header_field.h"

namespace dovetail::http {

namespace {

constexpr std::size_t kFieldsMax = 128;
constexpr std::string_view kLineEnd = "\r\n";

HeadFault fault(std::string text, unsigned status = 400) { return {status, std::move(text)}; }

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

// Removes one line from `bytes`. The caller checks it for stray line breaks.
std::string_view next_line(std::string_view& bytes) {
  const std::size_t end = std::min(bytes.find(kLineEnd), bytes.size());
  const std::string_view line = bytes.substr(0, end);
  bytes.remove_prefix(std::min(end + kLineEnd.size(), bytes.size()));
  return line;
}

std::optional<HeadFault> parse_version(std::string_view version, RequestHead& out) {
  if (version == "HTTP/1.1") return std::nullopt;
  out.stays_open = false;
  if (version == "HTTP/1.0") return std::nullopt;
  if (version.size() == 8 && version.starts_with("HTTP/") && is_digit(version[5]) &&
      version[6] == '.' && is_digit(version[7]))
    return fault("this version of HTTP is not supported; send HTTP/1.1", 505);
  return fault("the request line does not end with a version such as HTTP/1.1");
}

std::optional<HeadFault> check_target(const RequestHead& head) {
  const bool is_visible = std::all_of(head.target.begin(), head.target.end(),
                                      [](char c) { return c > ' ' && c <= '~' && c != '#'; });
  if (head.target.empty() || !is_visible)
    return fault("the target has a character that must be percent-encoded, or is empty");
  if (head.target.front() == '/' || head.method == "CONNECT") return std::nullopt;
  if (head.target == "*" && head.method == "OPTIONS") return std::nullopt;
  return fault("the target does not begin with a slash; send path and query alone");
}

std::optional<HeadFault> parse_request_line(std::string_view line, RequestHead& out) {
  const std::size_t first = line.find(' ');
  const std::size_t last = line.rfind(' ');
  if (first == std::string_view::npos || first == last)
    return fault("the request line is not METHOD TARGET VERSION");
  out.method = line.substr(0, first);
  out.target = line.substr(first + 1, last - first - 1);
  if (!is_token(out.method)) return fault("the method is not a word");
  if (auto wrong = parse_version(line.substr(last + 1), out)) return wrong;
  return check_target(out);
}

bool is_host(std::string_view value) {
  return std::all_of(value.begin(), value.end(), [](char c) {
    return is_letter(c) || is_digit(c) ||
           std::string_view("-._~:[]%!$&'()*+,;=").find(c) != std::string_view::npos;
  });
}

// Headers that set the length or the host must occur only once.
struct Framing {
  const MessageHeader* length = nullptr;
  const MessageHeader* encoding = nullptr;
  const MessageHeader* host = nullptr;
  const MessageHeader* expect = nullptr;
};

std::optional<HeadFault> take_once(const MessageHeader& header, const MessageHeader*& place) {
  if (place != nullptr)
    return fault("the header " + std::string(header.name) + " occurs more than once");
  place = &header;
  return std::nullopt;
}

std::optional<HeadFault> parse_length(std::string_view value, RequestHead& out) {
  const char* const end = value.data() + value.size();
  // from_chars() would accept a minus sign for signed numbers.
  const bool is_number = !value.empty() && std::all_of(value.begin(), value.end(), is_digit);
  const auto [read, code] = std::from_chars(value.data(), end, out.length);
  if (!is_number || read != end || code != std::errc{} || out.length > UINT64_MAX / 2)
    return fault("Content-Length is not a number of bytes");
  return std::nullopt;
}

std::optional<HeadFault> apply(const Framing& framing, bool is_old, RequestHead& out) {
  if (framing.host == nullptr && !is_old) return fault("the header Host is missing");
  if (framing.host != nullptr && !is_host(framing.host->value))
    return fault("the header Host is not a name or address with a port");
  if (framing.encoding != nullptr) {
    if (framing.length != nullptr)
      return fault("the request has both Content-Length and Transfer-Encoding");
    if (is_old) return fault("HTTP/1.0 has no Transfer-Encoding");
    if (to_lower(framing.encoding->value) != "chunked")
      return fault("the Transfer-Encoding is not \"chunked\"");
    out.is_chunked = true;
  }
  if (framing.length != nullptr)
    if (auto wrong = parse_length(framing.length->value, out)) return wrong;
  if (framing.expect != nullptr && !is_old) {
    if (to_lower(framing.expect->value) != "100-continue")
      return fault("the header Expect may only be 100-continue", 417);
    out.waits_for_continue = true;
  }
  return std::nullopt;
}

bool lists(std::string_view value, std::string_view lower_word) {
  while (!value.empty()) {
    const std::size_t comma = std::min(value.find(','), value.size());
    if (to_lower(trimmed(value.substr(0, comma))) == lower_word) return true;
    value.remove_prefix(std::min(comma + 1, value.size()));
  }
  return false;
}

}  // namespace

HeadEnd find_head_end(std::string_view bytes, std::size_t looked_at) {
  for (std::size_t i = looked_at; i < bytes.size(); ++i) {
    const char c = bytes[i];
    const bool after_cr = i > 0 && bytes[i - 1] == '\r';
    if ((c == '\n') != after_cr)
      return {0, fault("a line does not end with CR and LF, or contains one of them alone")};
    if (c == '\n' && i >= 3 && bytes.substr(i - 3, 3) == "\r\n\r") return {i + 1, std::nullopt};
    const auto byte = static_cast<unsigned char>(c);
    if ((byte < ' ' && c != '\r' && c != '\n' && c != '\t') || byte == 0x7f)
      return {0, fault("the head of the request has a control character")};
  }
  return {};
}

std::optional<HeadFault> parse_fields(std::string_view bytes, std::vector<MessageHeader>& out) {
  while (!bytes.empty()) {
    const std::string_view line = next_line(bytes);
    if (line.starts_with(' ') || line.starts_with('\t'))
      return fault("a header continues on a second line; write it on one line");
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos) return fault("a header has no colon");
    const std::string_view name = line.substr(0, colon);
    const std::string_view value = trimmed(line.substr(colon + 1));
    if (!is_token(name)) return fault("a header name is not a word followed by a colon");
    if (!is_field_value(value))
      return fault("the header " + std::string(name) + " has a control character");
    if (out.size() == kFieldsMax)
      return fault("the request has more than " + std::to_string(kFieldsMax) + " headers", 431);
    out.push_back({name, value});
  }
  return std::nullopt;
}

std::optional<HeadFault> parse_head(std::string_view bytes, RequestHead& out) {
  out = RequestHead{};
  bytes.remove_suffix(std::min(bytes.size(), kLineEnd.size()));  // the empty line
  if (auto wrong = parse_request_line(next_line(bytes), out)) return wrong;
  const bool is_old = !out.stays_open;
  if (auto wrong = parse_fields(bytes, out.headers)) return wrong;
  Framing framing;
  for (const MessageHeader& header : out.headers) {
    const std::string name = to_lower(header.name);
    std::optional<HeadFault> wrong;
    if (name == "content-length") wrong = take_once(header, framing.length);
    if (name == "transfer-encoding") wrong = take_once(header, framing.encoding);
    if (name == "host") wrong = take_once(header, framing.host);
    if (name == "expect") wrong = take_once(header, framing.expect);
    if (wrong) return wrong;
    if (name == "connection" && lists(header.value, "close")) out.stays_open = false;
  }
  return apply(framing, is_old, out);
}

}  // namespace dovetail::http
