#include "core/event/redact.h"

#include <algorithm>

namespace dovetail {

namespace {

constexpr std::string_view kHidden = "***";
constexpr std::string_view kWords[] = {"password", "passwd", "secret", "token"};
constexpr std::string_view kEnds = " \t\r\n,;&'\")>]}";

char lower(char c) { return static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c); }

bool begins_with_word(std::string_view text, std::string_view word) {
  return text.size() >= word.size() && std::equal(word.begin(), word.end(), text.begin(),
                                                  [](char a, char b) { return a == lower(b); });
}

// The length of "user:secret@" after "://"; 0: none.
std::size_t authority_length(std::string_view rest) {
  const std::size_t end = std::min(rest.find_first_of("/ \t\r\n'\"<>"), rest.size());
  const std::size_t at = rest.substr(0, end).rfind('@');
  return at == std::string_view::npos ? 0 : at;
}

// The length of the value after a word such as "password" and its '=' or ':'.
struct Value {
  std::size_t begin = 0;
  std::size_t length = 0;
};
Value value_behind(std::string_view text, std::string_view word) {
  std::size_t begin = word.size();
  if (begin >= text.size() || (text[begin] != '=' && text[begin] != ':')) return {};
  ++begin;
  // "password: was refused" has no value.
  if (begin >= text.size() || text[begin] == ' ') return {};
  char quote = 0;
  if (text[begin] == '\'' || text[begin] == '"') quote = text[begin++];
  const std::size_t end = quote != 0 ? text.find(quote, begin) : text.find_first_of(kEnds, begin);
  return {begin, std::min(end, text.size()) - begin};
}

}  // namespace

std::string without_secrets(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    const std::string_view rest = text.substr(i);
    if (rest.starts_with("://")) {
      const std::size_t length = authority_length(rest.substr(3));
      const std::size_t colon = rest.substr(3, length).find(':');
      if (colon != std::string_view::npos) {
        out += rest.substr(0, 3 + colon + 1);
        out += kHidden;
        i += 3 + length;
        continue;
      }
    }
    const auto word = std::find_if(std::begin(kWords), std::end(kWords), [&](std::string_view one) {
      return begins_with_word(rest, one);
    });
    const Value value = word == std::end(kWords) ? Value{} : value_behind(rest, *word);
    if (value.length != 0) {
      out += rest.substr(0, value.begin);
      out += kHidden;
      i += value.begin + value.length;
      continue;
    }
    out += text[i++];
  }
  return out;
}

}  // namespace dovetail
