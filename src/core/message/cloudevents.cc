#include "core/message/cloudevents.h"

#include <algorithm>

namespace dovetail {

namespace {

bool stays(char c) { return c > ' ' && c < 0x7f && c != '"' && c != '%'; }

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

}  // namespace

std::string_view percent_encoded(std::string_view value, Arena& arena) {
  const auto changed = static_cast<std::size_t>(
      std::count_if(value.begin(), value.end(), [](char c) { return !stays(c); }));
  if (changed == 0) return value;
  constexpr char kDigits[] = "0123456789ABCDEF";
  const std::size_t bytes = value.size() + 2 * changed;
  char* const start = arena.allocate(bytes);
  char* to = start;
  for (const char c : value) {
    if (stays(c)) {
      *to++ = c;
    } else {
      *to++ = '%';
      *to++ = kDigits[static_cast<unsigned char>(c) >> 4];
      *to++ = kDigits[static_cast<unsigned char>(c) & 0xf];
    }
  }
  return {start, bytes};
}

std::string_view percent_decoded(std::string_view value, Arena& arena) {
  const bool quoted = value.size() >= 2 && value.front() == '"' && value.back() == '"';
  if (!quoted && value.find('%') == std::string_view::npos) return value;
  if (quoted) value = value.substr(1, value.size() - 2);
  char* const start = arena.allocate(value.size());
  char* to = start;
  for (std::size_t i = 0; i < value.size(); ++i) {
    if (quoted && value[i] == '\\' && i + 1 < value.size()) {
      *to++ = value[++i];
      continue;
    }
    const int high = value[i] == '%' && i + 2 < value.size() ? hex_value(value[i + 1]) : -1;
    const int low = high >= 0 ? hex_value(value[i + 2]) : -1;
    if (low >= 0) {
      *to++ = static_cast<char>(high << 4 | low);
      i += 2;
    } else {
      *to++ = value[i];
    }
  }
  return {start, static_cast<std::size_t>(to - start)};
}

bool same_name(std::string_view one, std::string_view other, bool ignore_case) {
  if (one.size() != other.size()) return false;
  if (!ignore_case) return one == other;
  return std::equal(one.begin(), one.end(), other.begin(),
                    [](char a, char b) { return lower(a) == lower(b); });
}

}  // namespace dovetail
