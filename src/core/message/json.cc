#include "core/message/json.h"

#include <charconv>

#include "core/event/utf8.h"

namespace dovetail {

namespace {

constexpr int kDepthMax = 64;

// Walks over one value at a time. `at` never passes the end of `text`.
struct Walker {
  std::string_view text;
  std::size_t at = 0;

  char peek() const { return at < text.size() ? text[at] : '\0'; }
  void skip_space() {
    while (at < text.size() &&
           (text[at] == ' ' || text[at] == '\t' || text[at] == '\n' || text[at] == '\r'))
      ++at;
  }
  bool take(char c) {
    if (peek() != c || at >= text.size()) return false;
    ++at;
    return true;
  }
  bool take_word(std::string_view word) {
    if (!text.substr(at).starts_with(word)) return false;
    at += word.size();
    return true;
  }
  bool skip_string() {
    if (!take('"')) return false;
    while (at < text.size()) {
      const char c = text[at++];
      if (c == '"') return true;
      if (static_cast<unsigned char>(c) < 0x20) return false;
      if (c == '\\' && at++ >= text.size()) return false;
    }
    return false;
  }
  bool skip_digits() {
    const std::size_t start = at;
    while (peek() >= '0' && peek() <= '9') ++at;
    return at > start;
  }
  bool skip_number() {
    take('-');
    if (!skip_digits()) return false;
    if (take('.') && !skip_digits()) return false;
    if (peek() != 'e' && peek() != 'E') return true;
    ++at;
    if (peek() == '+' || peek() == '-') ++at;
    return skip_digits();
  }
  bool skip_value(int depth) {
    skip_space();
    switch (peek()) {
      case '{':
      case '[':
        return depth < kDepthMax && skip_members(depth + 1);
      case '"':
        return skip_string();
      case 't':
        return take_word("true");
      case 'f':
        return take_word("false");
      case 'n':
        return take_word("null");
      default:
        return skip_number();
    }
  }
  // Of an object or an array.
  bool skip_members(int depth) {
    const bool is_object = text[at++] == '{';
    const char end = is_object ? '}' : ']';
    skip_space();
    if (take(end)) return true;
    while (true) {
      if (is_object && !skip_name()) return false;
      if (!skip_value(depth)) return false;
      skip_space();
      if (take(end)) return true;
      if (!take(',')) return false;
    }
  }
  bool skip_name() {
    skip_space();
    if (!skip_string()) return false;
    skip_space();
    return take(':');
  }
  // The text of the value that begins here. REQUIRES: valid JSON.
  std::string_view value() {
    skip_space();
    const std::size_t start = at;
    skip_value(0);
    return text.substr(start, at - start);
  }
};

// The four digits after "\u" at `at`; false: they are not there.
bool hex4(std::string_view text, std::size_t at, std::uint32_t& out) {
  if (at + 4 > text.size()) return false;
  const auto [end, error] = std::from_chars(text.data() + at, text.data() + at + 4, out, 16);
  return error == std::errc{} && end == text.data() + at + 4;
}

char plain_escape(char c) {
  switch (c) {
    case 'n':
      return '\n';
    case 't':
      return '\t';
    case 'r':
      return '\r';
    case 'b':
      return '\b';
    case 'f':
      return '\f';
    default:
      return c;
  }
}

std::string decode(std::string_view inside) {
  std::string out;
  for (std::size_t i = 0; i < inside.size(); ++i) {
    if (inside[i] != '\\' || i + 1 >= inside.size()) {
      out += inside[i];
      continue;
    }
    const char kind = inside[++i];
    std::uint32_t code = 0;
    if (kind != 'u' || !hex4(inside, i + 1, code)) {
      out += plain_escape(kind);
      continue;
    }
    i += 4;
    std::uint32_t low = 0;
    const bool has_low = code >= 0xd800 && code < 0xdc00 &&
                         inside.substr(i + 1).starts_with("\\u") && hex4(inside, i + 3, low) &&
                         low >= 0xdc00 && low < 0xe000;
    if (has_low) {
      code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
      i += 6;
    } else if (code >= 0xd800 && code < 0xe000) {
      code = 0xfffd;
    }
    append_utf8(out, code);
  }
  return out;
}

}  // namespace

Json Json::parse(std::string_view text) {
  Walker walker{text};
  walker.skip_space();
  const std::size_t start = walker.at;
  if (!walker.skip_value(0)) return {};
  const std::size_t end = walker.at;
  walker.skip_space();
  if (walker.at != text.size()) return {};
  return Json(text.substr(start, end - start), nullptr);
}

Json Json::keep(std::string text) {
  auto whole = std::make_shared<const std::string>(std::move(text));
  return Json(parse(*whole).raw(), whole);
}

Json Json::get(std::string_view name) const {
  if (raw_.empty() || raw_.front() != '{') return {};
  Walker walker{raw_, 1};
  walker.skip_space();
  while (walker.peek() == '"') {
    const std::size_t start = walker.at + 1;
    if (!walker.skip_string()) return {};
    const std::string_view found = raw_.substr(start, walker.at - 1 - start);
    walker.skip_space();
    if (!walker.take(':')) return {};
    const std::string_view value = walker.value();
    if (found == name) return Json(value, whole_);
    walker.skip_space();
    if (!walker.take(',')) return {};
    walker.skip_space();
  }
  return {};
}

std::vector<Json> Json::items() const {
  std::vector<Json> all;
  if (raw_.empty() || raw_.front() != '[') return all;
  Walker walker{raw_, 1};
  walker.skip_space();
  while (walker.at < raw_.size() && walker.peek() != ']') {
    const std::string_view value = walker.value();
    if (value.empty()) return all;
    all.push_back(Json(value, whole_));
    walker.skip_space();
    if (!walker.take(',')) return all;
    walker.skip_space();
  }
  return all;
}

std::optional<std::int64_t> Json::number() const {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(raw_.data(), raw_.data() + raw_.size(), value);
  if (raw_.empty() || error != std::errc{} || end != raw_.data() + raw_.size()) return std::nullopt;
  return value;
}

std::string Json::text() const {
  if (is_null() || raw_.front() == '{' || raw_.front() == '[') return {};
  if (raw_.front() != '"') return std::string(raw_);
  return decode(raw_.substr(1, raw_.size() - 2));
}

std::string json_text(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) < 0x20) {
      out += "\\u00";
      out += "0123456789abcdef"[static_cast<unsigned char>(c) >> 4];
      out += "0123456789abcdef"[static_cast<unsigned char>(c) & 0xf];
    } else {
      out += c;
    }
  }
  return out + '"';
}

}  // namespace dovetail
