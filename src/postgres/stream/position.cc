#include "postgres/stream/position.h"

#include <array>
#include <charconv>

namespace dovetail::postgres {

namespace {

bool read_half(std::string_view text, std::uint32_t& value) {
  if (text.empty() || text.size() > 8) return false;
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value, 16);
  return error == std::errc{} && stopped == end;
}

}  // namespace

std::string to_string(WalPosition position) {
  std::array<char, 17> text;
  const auto half = [&](char* from, std::uint64_t value) {
    char* const end = std::to_chars(from, text.data() + text.size(), value, 16).ptr;
    for (char* c = from; c != end; ++c)
      if (*c >= 'a') *c = static_cast<char>(*c - 'a' + 'A');
    return end;
  };
  char* end = half(text.data(), position.value >> 32);
  *end++ = '/';
  end = half(end, position.value & 0xffff'ffff);
  return {text.data(), end};
}

Result<WalPosition> parse_wal_position(std::string_view text) {
  const std::size_t slash = text.find('/');
  std::uint32_t high = 0;
  std::uint32_t low = 0;
  if (slash == std::string_view::npos || !read_half(text.substr(0, slash), high) ||
      !read_half(text.substr(slash + 1), low))
    return fail(Errc::corrupt, "\"" + std::string(text.substr(0, 40)) +
                                   "\" is not a WAL position; check that the server is "
                                   "PostgreSQL");
  return WalPosition{std::uint64_t{high} << 32 | low};
}

}  // namespace dovetail::postgres
