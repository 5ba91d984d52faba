// The codec of headers: one flat JSON object whose values are strings, and nothing else.
#include <cstdint>

#include "core/utf8.h"
#include "dovetail/event.h"

namespace dovetail {

namespace {

void append_quoted(std::string& out, std::string_view text) {
  constexpr char kDigits[] = "0123456789abcdef";
  out += '"';
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20) {
      out += "\\u00";
      out += kDigits[byte >> 4];
      out += kDigits[byte & 0xf];
    } else {
      out += c;
    }
  }
  out += '"';
}

class Decoder {
 public:
  explicit Decoder(std::string_view text) : text_(text) {}

  Result<std::vector<Header>> decode() {
    std::vector<Header> headers;
    if (text_.empty()) return headers;
    if (!is_valid_utf8(text_)) return bad("they are not valid UTF-8");
    skip_space();
    if (!take('{')) return bad("'{' expected");
    skip_space();
    if (!take('}')) {
      do {
        Header header;
        skip_space();
        if (!string(header.name)) return bad("a name in quotes expected");
        skip_space();
        if (!take(':')) return bad("':' expected");
        skip_space();
        if (!string(header.value)) return bad("a text value in quotes expected");
        headers.push_back(std::move(header));
        skip_space();
      } while (take(','));
      if (!take('}')) return bad("',' or '}' expected");
    }
    skip_space();
    if (at_ != text_.size()) return bad("something follows the closing '}'");
    return headers;
  }

 private:
  tl::unexpected<Error> bad(std::string_view why) const {
    return fail(Errc::rejected, "malformed headers at byte " + std::to_string(at_) + ": " +
                                    std::string(why) +
                                    "; check that they are one JSON object of strings");
  }

  void skip_space() {
    while (at_ < text_.size() &&
           (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n' || text_[at_] == '\r')) {
      ++at_;
    }
  }

  bool take(char wanted) {
    if (at_ >= text_.size() || text_[at_] != wanted) return false;
    ++at_;
    return true;
  }

  bool string(std::string& out) {
    if (!take('"')) return false;
    while (at_ < text_.size()) {
      const char c = text_[at_++];
      if (c == '"') return true;
      if (static_cast<unsigned char>(c) < 0x20) return false;
      if (c != '\\') {
        out += c;
      } else if (!escape(out)) {
        return false;
      }
    }
    return false;
  }

  bool escape(std::string& out) {
    if (at_ >= text_.size()) return false;
    constexpr std::string_view kCodes = "\"\\/bfnrt";
    constexpr std::string_view kMeaning = "\"\\/\b\f\n\r\t";
    const char c = text_[at_++];
    if (c == 'u') return unicode_escape(out);
    const std::size_t which = kCodes.find(c);
    if (which == std::string_view::npos) return false;
    out += kMeaning[which];
    return true;
  }

  bool unicode_escape(std::string& out) {
    std::uint32_t high = 0;
    if (!four_digits(high)) return false;
    if (high >= 0xdc00 && high <= 0xdfff) return false;
    if (high < 0xd800 || high > 0xdbff) {
      append_utf8(out, high);
      return true;
    }
    std::uint32_t low = 0;
    if (!take('\\') || !take('u') || !four_digits(low)) return false;
    if (low < 0xdc00 || low > 0xdfff) return false;
    append_utf8(out, 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00));
    return true;
  }

  bool four_digits(std::uint32_t& value) {
    if (text_.size() - at_ < 4) return false;
    for (int i = 0; i < 4; ++i) {
      const char c = text_[at_++];
      std::uint32_t digit = 0;
      if (c >= '0' && c <= '9') {
        digit = static_cast<std::uint32_t>(c - '0');
      } else if (c >= 'a' && c <= 'f') {
        digit = static_cast<std::uint32_t>(c - 'a') + 10;
      } else if (c >= 'A' && c <= 'F') {
        digit = static_cast<std::uint32_t>(c - 'A') + 10;
      } else {
        return false;
      }
      value = value << 4 | digit;
    }
    return true;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

// What every broker can carry: a token as in HTTP for the name, no control characters in the value.
Status check_header(const Header& header) {
  const auto bad = [&](std::string_view why) {
    return fail(Errc::rejected,
                "malformed header \"" + header.name.substr(0, 60) + "\": " + std::string(why));
  };
  if (header.name.empty() || header.name.size() > 255) {
    return bad("check that its name has 1 to 255 characters");
  }
  for (const char c : header.name) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '_' || c == '.';
    if (!plain) return bad("check that its name has only letters, digits, '-', '_' and '.'");
  }
  if (!is_valid_utf8(header.value)) return bad("check that its value is valid UTF-8");
  for (const char c : header.value) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte < 0x20 && c != '\t') || byte == 0x7f) {
      return bad("check that its value has no line breaks or other control characters");
    }
  }
  return {};
}

}  // namespace

Result<std::string> encode_headers(std::span<const Header> headers) {
  std::string out;
  if (headers.empty()) return out;
  out += '{';
  for (const Header& header : headers) {
    DOVETAIL_TRY(check_header(header));
    if (out.size() > 1) out += ',';
    append_quoted(out, header.name);
    out += ':';
    append_quoted(out, header.value);
  }
  out += '}';
  return out;
}

Result<std::vector<Header>> decode_headers(std::string_view encoded) {
  return Decoder(encoded).decode();
}

}  // namespace dovetail
