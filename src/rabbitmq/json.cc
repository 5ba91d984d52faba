#include "rabbitmq/json.h"

#include <cctype>
#include <charconv>
#include <cstdint>

namespace dovetail::rabbitmq {

namespace {
constexpr int kDepthMax = 64;
}

class JsonParser {
 public:
  explicit JsonParser(std::string_view text) : text_(text) {}

  bool whole(Json& out) { return value(out, 0) && (skip_space(), at_ == text_.size()); }

 private:
  void skip_space() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
  }
  bool take(char c) {
    skip_space();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  bool take_word(std::string_view word) {
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }

  bool value(Json& out, int depth) {
    if (depth > kDepthMax) return false;
    skip_space();
    if (at_ >= text_.size()) return false;
    switch (text_[at_]) {
      case '{':
        out.kind_ = Json::Kind::object;
        return object(out, depth);
      case '[':
        out.kind_ = Json::Kind::array;
        return array(out, depth);
      case '"':
        out.kind_ = Json::Kind::text;
        return string(out.text_);
      case 't':
      case 'f':
        out.kind_ = Json::Kind::boolean;
        out.text_ = text_[at_] == 't' ? "true" : "false";
        return take_word(out.text_);
      case 'n':
        return take_word("null");
      default:
        out.kind_ = Json::Kind::number;
        return number(out.text_);
    }
  }

  bool object(Json& out, int depth) {
    ++at_;
    if (take('}')) return true;
    do {
      std::string name;
      skip_space();
      if (!string(name) || !take(':') || !value(out.fields_[name], depth + 1)) return false;
    } while (take(','));
    return take('}');
  }

  bool array(Json& out, int depth) {
    ++at_;
    if (take(']')) return true;
    do {
      if (!value(out.items_.emplace_back(), depth + 1)) return false;
    } while (take(','));
    return take(']');
  }

  bool number(std::string& out) {
    const std::size_t end = text_.find_first_not_of("+-.0123456789eE", at_);
    out = text_.substr(at_, end == std::string_view::npos ? end : end - at_);
    at_ += out.size();
    return !out.empty();
  }

  bool string(std::string& out) {
    if (at_ >= text_.size() || text_[at_] != '"') return false;
    for (++at_; at_ < text_.size(); ++at_) {
      if (text_[at_] == '"') {
        ++at_;
        return true;
      }
      if (text_[at_] != '\\')
        out += text_[at_];
      else if (!escape(out))
        return false;
    }
    return false;
  }

  bool escape(std::string& out) {
    if (++at_ >= text_.size()) return false;
    constexpr std::string_view kNames = "\"\\/bfnrt";
    constexpr std::string_view kMeant = "\"\\/\b\f\n\r\t";
    if (const std::size_t found = kNames.find(text_[at_]); found != std::string_view::npos) {
      out += kMeant[found];
      return true;
    }
    std::uint32_t code = 0;
    if (text_[at_] != 'u' || !hexadecimal(code)) return false;
    if (code >= 0xd800 && code < 0xdc00) {
      std::uint32_t low = 0;
      if (text_.substr(at_ + 1).starts_with("\\u")) at_ += 2;
      if (!hexadecimal(low) || low < 0xdc00 || low > 0xdfff) return false;
      code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }
    append_utf8(out, code);
    return true;
  }

  // The four digits behind "\u"; at_ stays on the last of them.
  bool hexadecimal(std::uint32_t& code) {
    if (at_ + 4 >= text_.size()) return false;
    const char* const first = text_.data() + at_ + 1;
    at_ += 4;
    return std::from_chars(first, first + 4, code, 16).ptr == first + 4;
  }

  static void append_utf8(std::string& out, std::uint32_t code) {
    const auto put = [&out](std::uint32_t byte) { out += static_cast<char>(byte); };
    if (code < 0x80) return put(code);
    if (code < 0x800) {
      put(0xc0 | (code >> 6));
    } else {
      if (code < 0x10000) {
        put(0xe0 | (code >> 12));
      } else {
        put(0xf0 | (code >> 18));
        put(0x80 | ((code >> 12) & 0x3f));
      }
      put(0x80 | ((code >> 6) & 0x3f));
    }
    put(0x80 | (code & 0x3f));
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

Result<Json> Json::parse(std::string_view text) {
  Json json;
  if (!JsonParser(text).whole(json))
    return fail(Errc::unavailable,
                "what came is not JSON; check that management_url is RabbitMQ's management API");
  return json;
}

const Json& Json::operator[](std::string_view name) const {
  static const Json none;
  const auto found = fields_.find(name);
  return found == fields_.end() ? none : found->second;
}

}  // namespace dovetail::rabbitmq
