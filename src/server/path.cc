#include "server/path.h"

#include <algorithm>

namespace dovetail::http {

namespace {

constexpr int kRoundsMax = 4;  // decoding rounds

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// Invalid encodings stay unchanged.
std::string decoded_where_possible(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool is_code = text[i] == '%' && text.size() - i >= 3 && hex_digit(text[i + 1]) >= 0 &&
                         hex_digit(text[i + 2]) >= 0;
    out +=
        is_code ? static_cast<char>(hex_digit(text[i + 1]) << 4 | hex_digit(text[i + 2])) : text[i];
    if (is_code) i += 2;
  }
  return out;
}

bool has_dot_segment(std::string_view path) {
  while (!path.empty()) {
    const std::size_t end = std::min(path.find_first_of("/\\"), path.size());
    // Some servers remove parameters before they resolve dots.
    const std::string_view segment = path.substr(0, std::min(path.find(';'), end));
    if (segment == "." || segment == "..") return true;
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  return false;
}

}  // namespace

std::optional<std::string> percent_decoded(std::string_view text) {
  for (std::size_t i = text.find('%'); i < text.size(); i = text.find('%', i + 3))
    if (text.size() - i < 3 || hex_digit(text[i + 1]) < 0 || hex_digit(text[i + 2]) < 0)
      return std::nullopt;
  return decoded_where_possible(text);
}

std::string_view why_unsafe_path(std::string_view path) {
  if (!percent_decoded(path)) return "a percent sign is not followed by two hexadecimal digits";
  std::string text(path);
  for (int round = 0; round < kRoundsMax; ++round) {
    if (has_dot_segment(text)) return "it has a segment \".\" or \"..\"";
    if (text.find('\0') != std::string::npos) return "it has a zero byte";
    std::string next = decoded_where_possible(text);
    if (next == text) return {};
    text = std::move(next);
  }
  return "it is percent-encoded too many times";
}

}  // namespace dovetail::http
