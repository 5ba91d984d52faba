#include "nats/protocol.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace dovetail::nats {

namespace {

constexpr std::string_view kLineEnd = "\r\n";

bool is_space(char c) { return c == ' ' || c == '\t'; }

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

bool same_word(std::string_view a, std::string_view upper) {
  return std::equal(a.begin(), a.end(), upper.begin(), upper.end(), [](char x, char y) {
    return (x >= 'a' && x <= 'z' ? static_cast<char>(x - 'a' + 'A') : x) == y;
  });
}

template <class Number>
bool parse_number(std::string_view text, Number& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc{} && end == text.data() + text.size() && !text.empty();
}

struct Words {
  std::array<std::string_view, 6> at{};
  std::size_t count = 0;  // too many parts: that many, and one more
};

Words split(std::string_view line) {
  Words words;
  while (true) {
    while (!line.empty() && is_space(line.front())) line.remove_prefix(1);
    if (line.empty()) return words;
    const std::size_t end = std::min(line.find_first_of(" \t"), line.size());
    if (words.count == words.at.size()) {
      ++words.count;
      return words;
    }
    words.at[words.count++] = line.substr(0, end);
    line.remove_prefix(end);
  }
}

auto broken(std::string_view what) {
  return fail(Errc::unavailable, "the server does not speak the NATS protocol (" +
                                     std::string(what) +
                                     "); check that the address is that of a NATS server");
}

// MSG subject sid [reply] bytes, and HMSG subject sid [reply] header_bytes bytes.
Result<std::size_t> parse_message(std::string_view bytes, std::size_t line_size, const Words& words,
                                  bool with_headers, Frame& out) {
  const std::size_t numbers = with_headers ? 2 : 1;
  const bool has_reply = words.count == 4 + numbers;
  if (words.count != 3 + numbers && !has_reply) return broken("malformed message");
  std::size_t header_size = 0;
  std::size_t size = 0;
  const std::size_t first = has_reply ? 4 : 3;
  if (!parse_number(words.at[2], out.subscription) ||
      (with_headers && !parse_number(words.at[first], header_size)) ||
      !parse_number(words.at[first + numbers - 1], size) || header_size > size ||
      size > kPayloadMax)
    return broken("message with invalid sizes");
  const std::size_t whole = line_size + size + kLineEnd.size();
  if (bytes.size() < whole) return std::size_t{0};
  if (bytes.substr(line_size + size, kLineEnd.size()) != kLineEnd)
    return broken("message with a wrong length");
  out.kind = Frame::Kind::message;
  out.subject = words.at[1];
  out.reply = has_reply ? words.at[3] : std::string_view{};
  out.headers = bytes.substr(line_size, header_size);
  out.payload = bytes.substr(line_size + header_size, size - header_size);
  return whole;
}

void append_number(std::string& out, std::size_t number) {
  std::array<char, 24> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  out.append(digits.data(), end);
}

char hex_digit(unsigned value) { return "0123456789ABCDEF"[value & 0xf]; }

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

}  // namespace

Result<std::size_t> parse_frame(std::string_view bytes, Frame& out) {
  const std::size_t end = bytes.substr(0, kControlLineMax).find(kLineEnd);
  if (end == std::string_view::npos) {
    if (bytes.size() >= kControlLineMax) return broken("line too long");
    return std::size_t{0};
  }
  const std::string_view line = bytes.substr(0, end);
  const std::size_t line_size = end + kLineEnd.size();
  const std::string_view verb = line.substr(0, std::min(line.find_first_of(" \t"), line.size()));
  const std::string_view rest = trimmed(line.substr(verb.size()));
  out = Frame{};
  if (same_word(verb, "MSG")) return parse_message(bytes, line_size, split(line), false, out);
  if (same_word(verb, "HMSG")) return parse_message(bytes, line_size, split(line), true, out);
  if (same_word(verb, "PING")) {
    out.kind = Frame::Kind::ping;
  } else if (same_word(verb, "PONG")) {
    out.kind = Frame::Kind::pong;
  } else if (same_word(verb, "+OK")) {
    out.kind = Frame::Kind::ok;
  } else if (same_word(verb, "INFO")) {
    out.kind = Frame::Kind::info;
    out.text = rest;
  } else if (same_word(verb, "-ERR")) {
    out.kind = Frame::Kind::error;
    const bool is_quoted = rest.size() >= 2 && rest.front() == '\'' && rest.back() == '\'';
    out.text = is_quoted ? rest.substr(1, rest.size() - 2) : rest;
  } else {
    return broken("unknown command");
  }
  return line_size;
}

bool parse_headers(std::string_view block, HeaderBlock& out) {
  out.status = 0;
  out.description = {};
  out.headers.clear();
  std::size_t end = block.find(kLineEnd);
  constexpr std::string_view kFirst = "NATS/1.0";
  if (!block.starts_with(kFirst) || end == std::string_view::npos) return false;
  const std::string_view status = trimmed(block.substr(kFirst.size(), end - kFirst.size()));
  if (!status.empty()) {
    const std::string_view code = status.substr(0, 3);
    if (code.size() != 3 || !parse_number(code, out.status) || out.status < 0) return false;
    out.description = trimmed(status.substr(3));
  }
  block.remove_prefix(end + kLineEnd.size());
  while ((end = block.find(kLineEnd)) != std::string_view::npos) {
    const std::string_view line = block.substr(0, end);
    block.remove_prefix(end + kLineEnd.size());
    if (line.empty()) return block.empty();
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos || colon == 0) return false;
    out.headers.push_back({line.substr(0, colon), trimmed(line.substr(colon + 1))});
  }
  return false;
}

std::string_view find_header(const std::vector<MessageHeader>& headers, std::string_view name) {
  for (const MessageHeader& header : headers)
    if (header.name == name) return header.value;
  return {};
}

std::string why_no_subject(std::string_view subject) {
  if (subject.empty()) return "the subject is empty";
  if (subject.front() == '.' || subject.back() == '.' ||
      subject.find("..") != std::string_view::npos)
    return "the subject has an empty part between dots";
  for (const char c : subject) {
    if (c == '*' || c == '>') return "the subject has a wildcard";
    if (c == ' ' || is_control(c)) return "the subject has a space or a control character";
  }
  return {};
}

std::string to_token(std::string_view text) {
  std::string token;
  for (const char c : text) {
    if (c == '.' || c == '*' || c == '>' || c == ' ' || c == '%' || is_control(c)) {
      token += '%';
      token += hex_digit(static_cast<unsigned char>(c) >> 4U);
      token += hex_digit(static_cast<unsigned char>(c));
    } else {
      token += c;
    }
  }
  return token;
}

std::string from_token(std::string_view token) {
  std::string text;
  for (std::size_t i = 0; i < token.size(); ++i) {
    const bool has_code = token[i] == '%' && i + 2 < token.size() && hex_value(token[i + 1]) >= 0 &&
                          hex_value(token[i + 2]) >= 0;
    if (has_code) {
      text += static_cast<char>(hex_value(token[i + 1]) * 16 + hex_value(token[i + 2]));
      i += 2;
    } else {
      text += token[i];
    }
  }
  return text;
}

std::string why_no_header(std::string_view name, std::string_view value) {
  if (name.empty()) return "a header has no name";
  for (const char c : name)
    if (c <= ' ' || c >= 0x7f || c == ':')
      return "a header name has a character that NATS does not allow";
  constexpr std::string_view kReserved = "NATS-";
  if (same_word(name.substr(0, kReserved.size()), kReserved))
    return "the header " + std::string(name) + " is reserved for commands to the server";
  if (value.find_first_of(std::string_view("\r\n\0", 3)) != std::string_view::npos)
    return "the header " + std::string(name) + " has a line break or a zero byte";
  if (!value.empty() && (is_space(value.front()) || is_space(value.back())))
    return "the header " + std::string(name) + " begins or ends with a space, which NATS drops";
  return {};
}

bool quoted_name(std::string_view error_text, std::string& out) {
  std::size_t at = error_text.find('"');
  if (at == std::string_view::npos) return false;
  out.clear();
  for (++at; at < error_text.size() && error_text[at] != '"'; ++at) {
    if (error_text[at] == '\\' && at + 1 < error_text.size()) ++at;
    out += error_text[at];
  }
  return at < error_text.size();
}

void append_publish_head(std::string& out, std::string_view subject, std::string_view reply,
                         std::string_view headers, std::size_t payload_bytes) {
  out += headers.empty() ? "PUB " : "HPUB ";
  out += subject;
  out += ' ';
  if (!reply.empty()) {
    out += reply;
    out += ' ';
  }
  if (!headers.empty()) {
    append_number(out, headers.size());
    out += ' ';
  }
  append_number(out, headers.size() + payload_bytes);
  out += kLineEnd;
  out += headers;
}

void append_publish(std::string& out, std::string_view subject, std::string_view reply,
                    std::string_view headers, std::string_view payload) {
  append_publish_head(out, subject, reply, headers, payload.size());
  out += payload;
  out += kLineEnd;
}

// $JS.ACK.stream.consumer.deliveries.sequence.sequence.time.pending; with a domain, an account and
// a random token around them.
bool parse_ack_subject(std::string_view subject, AckSubject& out) {
  if (!subject.starts_with("$JS.ACK.")) return false;
  std::array<std::string_view, 12> tokens{};
  std::size_t count = 0;
  while (true) {
    if (count == tokens.size()) return false;
    const std::size_t end = std::min(subject.find('.'), subject.size());
    tokens[count++] = subject.substr(0, end);
    if (end == subject.size()) break;
    subject.remove_prefix(end + 1);
  }
  if (count != 9 && count < 11) return false;
  const std::size_t first = count == 9 ? 5 : 7;
  return parse_number(tokens[first], out.stream_sequence) &&
         parse_number(tokens[first + 1], out.consumer_sequence) &&
         parse_number(tokens[first + 2], out.time_ns) && out.stream_sequence > 0;
}

Version parse_version(std::string_view text) {
  Version version;
  for (int* const part : {&version.major, &version.minor, &version.patch}) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *part);
    if (error != std::errc{}) return version;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    if (text.empty() || text.front() != '.') return version;
    text.remove_prefix(1);
  }
  return version;
}

}  // namespace dovetail::nats
