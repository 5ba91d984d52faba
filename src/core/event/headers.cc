// Headers are one flat JSON object whose values are strings.
#include "core/event/headers.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "core/event/utf8.h"
#include "dovetail/event.h"

namespace dovetail {

namespace {

bool needs_backslash(char c) { return c == '"' || c == '\\'; }
bool needs_code(char c) { return static_cast<unsigned char>(c) < 0x20; }

std::uint32_t digit_of(char c) {
  if (c >= '0' && c <= '9') return static_cast<std::uint32_t>(c - '0');
  if (c >= 'a' && c <= 'f') return static_cast<std::uint32_t>(c - 'a') + 10;
  if (c >= 'A' && c <= 'F') return static_cast<std::uint32_t>(c - 'A') + 10;
  return 16;
}

bool is_high_surrogate(std::uint32_t code) { return code >= 0xd800 && code <= 0xdbff; }
bool is_low_surrogate(std::uint32_t code) { return code >= 0xdc00 && code <= 0xdfff; }

constexpr std::string_view kEscapes = "\"\\/bfnrt";
constexpr std::string_view kEscaped = "\"\\/\b\f\n\r\t";

Status check_header(const Header& header) {
  const auto bad = [&](std::string_view why) {
    return fail(Errc::rejected,
                "malformed header \"" + header.name.substr(0, 60) + "\": " + std::string(why));
  };
  if (header.name.empty() || header.name.size() > 255) {
    return bad("its name must have 1 to 255 characters");
  }
  if (!is_header_name(header.name)) {
    return bad("its name may have only letters, digits, '-', '_' and '.'");
  }
  if (!is_valid_utf8(header.value)) return bad("its value must be valid UTF-8");
  if (!is_header_value(header.value)) {
    return bad("its value must not have line breaks or other control characters");
  }
  return {};
}

}  // namespace

bool is_header_name(std::string_view name) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  };
  return !name.empty() && name.size() <= 255 && std::all_of(name.begin(), name.end(), plain);
}

bool is_header_value(std::string_view value) {
  const auto printable = [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return (byte >= 0x20 || c == '\t') && byte != 0x7f;
  };
  return std::all_of(value.begin(), value.end(), printable) && is_valid_utf8(value);
}

tl::unexpected<Error> HeaderScanner::bad(std::string_view why) const {
  return fail(Errc::rejected, "malformed headers at byte " + std::to_string(at_) + ": " +
                                  std::string(why) +
                                  "; send one JSON object whose values are strings");
}

Result<bool> HeaderScanner::next() {
  if (text_.empty()) return false;
  if (!begun_) {
    begun_ = true;
    if (!is_valid_utf8(text_)) return bad("they are not valid UTF-8");
    skip_space();
    if (!take('{')) return bad("'{' expected");
    skip_space();
    if (take('}')) return end();
  } else {
    skip_space();
    if (take('}')) return end();
    if (!take(',')) return bad("',' or '}' expected");
  }
  skip_space();
  if (!string(name_)) return bad("a quoted name expected");
  skip_space();
  if (!take(':')) return bad("':' expected");
  skip_space();
  if (!string(value_)) return bad("a quoted value expected");
  return true;
}

Result<bool> HeaderScanner::end() {
  skip_space();
  if (at_ != text_.size()) return bad("something follows the closing '}'");
  text_ = {};
  return false;
}

void HeaderScanner::skip_space() {
  while (at_ < text_.size() &&
         (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n' || text_[at_] == '\r')) {
    ++at_;
  }
}

bool HeaderScanner::take(char wanted) {
  if (at_ >= text_.size() || text_[at_] != wanted) return false;
  ++at_;
  return true;
}

bool HeaderScanner::string(std::string_view& out) {
  if (!take('"')) return false;
  const std::size_t start = at_;
  while (at_ < text_.size()) {
    const char c = text_[at_++];
    if (c == '"') {
      out = text_.substr(start, at_ - 1 - start);
      return true;
    }
    if (needs_code(c) || (c == '\\' && !escape())) return false;
  }
  return false;
}

bool HeaderScanner::escape() {
  if (at_ >= text_.size()) return false;
  const char c = text_[at_++];
  if (c != 'u') return kEscapes.find(c) != std::string_view::npos;
  std::uint32_t high = 0;
  if (!four_digits(high) || is_low_surrogate(high)) return false;
  if (!is_high_surrogate(high)) return true;
  std::uint32_t low = 0;
  return take('\\') && take('u') && four_digits(low) && is_low_surrogate(low);
}

bool HeaderScanner::four_digits(std::uint32_t& value) {
  if (text_.size() - at_ < 4) return false;
  for (int i = 0; i < 4; ++i) {
    const std::uint32_t digit = digit_of(text_[at_++]);
    if (digit > 15) return false;
    value = value << 4 | digit;
  }
  return true;
}

std::string_view unescaped(std::string_view quoted, char* to) {
  if (quoted.find('\\') == std::string_view::npos) return quoted;
  // The scanner guarantees that every escape is complete.
  const auto code_at = [quoted](std::size_t at) {
    std::uint32_t code = 0;
    for (std::size_t i = 0; i < 4; ++i) code = code << 4 | digit_of(quoted[at + i]);
    return code;
  };
  char* end = to;
  for (std::size_t i = 0; i < quoted.size(); ++i) {
    if (quoted[i] != '\\') {
      *end++ = quoted[i];
    } else if (quoted[++i] != 'u') {
      *end++ = kEscaped[kEscapes.find(quoted[i])];
    } else {
      std::uint32_t code = code_at(i + 1);
      i += 4;
      if (is_high_surrogate(code)) {
        code = 0x10000 + ((code - 0xd800) << 10) + (code_at(i + 3) - 0xdc00);
        i += 6;
      }
      end = write_utf8(code, end);
    }
  }
  return {to, static_cast<std::size_t>(end - to)};
}

std::string_view unescaped(std::string_view quoted, Arena& arena) {
  if (quoted.find('\\') == std::string_view::npos) return quoted;
  return unescaped(quoted, arena.allocate(quoted.size()));
}

std::size_t quoted_bytes(std::string_view text) {
  std::size_t bytes = text.size() + 2;
  for (const char c : text) bytes += needs_backslash(c) ? 1 : needs_code(c) ? 5 : 0;
  return bytes;
}

char* write_quoted(std::string_view text, char* to) {
  constexpr char kDigits[] = "0123456789abcdef";
  *to++ = '"';
  for (const char c : text) {
    if (needs_backslash(c)) {
      *to++ = '\\';
      *to++ = c;
    } else if (needs_code(c)) {
      std::memcpy(to, "\\u00", 4);
      to[4] = kDigits[static_cast<unsigned char>(c) >> 4];
      to[5] = kDigits[static_cast<unsigned char>(c) & 0xf];
      to += 6;
    } else {
      *to++ = c;
    }
  }
  *to++ = '"';
  return to;
}

Result<std::string> encode_headers(std::span<const Header> headers) {
  std::string out;
  if (headers.empty()) return out;
  const auto append_quoted = [&out](std::string_view text) {
    const std::size_t start = out.size();
    out.resize(start + quoted_bytes(text));
    write_quoted(text, out.data() + start);
  };
  out += '{';
  for (const Header& header : headers) {
    DOVETAIL_TRY(check_header(header));
    if (out.size() > 1) out += ',';
    append_quoted(header.name);
    out += ':';
    append_quoted(header.value);
  }
  out += '}';
  return out;
}

Result<std::vector<Header>> decode_headers(std::string_view encoded) {
  std::vector<Header> headers;
  HeaderScanner scanner(encoded);
  const auto text_of = [](std::string_view quoted) {
    std::string text(quoted.size(), '\0');
    const std::string_view meant = unescaped(quoted, text.data());
    if (meant.data() == quoted.data()) return std::string(quoted);
    text.resize(meant.size());
    return text;
  };
  while (true) {
    const Result<bool> found = scanner.next();
    if (!found) return fail(found.error());
    if (!*found) return headers;
    headers.push_back({text_of(scanner.name()), text_of(scanner.value())});
  }
}

}  // namespace dovetail
