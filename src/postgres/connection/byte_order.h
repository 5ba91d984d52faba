// Numbers and times in the server's byte order: highest byte first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>

#include "dovetail/event.h"

namespace dovetail::postgres {

// PostgreSQL counts microseconds from 2000-01-01.
inline constexpr std::int64_t kEpochOffset = 946'684'800'000'000;

inline WallTime wall_time_of(std::int64_t stored) {
  if (stored > std::numeric_limits<std::int64_t>::max() - kEpochOffset) return WallTime::max();
  if (stored == std::numeric_limits<std::int64_t>::min()) return WallTime::min();
  return WallTime{std::chrono::microseconds{stored + kEpochOffset}};
}

template <class Integer>
void append_big_endian(std::string& out, Integer value) {
  using Unsigned = std::make_unsigned_t<Integer>;
  for (int shift = static_cast<int>(sizeof(Integer) - 1) * 8; shift >= 0; shift -= 8)
    out += static_cast<char>(static_cast<Unsigned>(value) >> shift & 0xff);
}

template <class Integer>
Integer read_big_endian(const char* bytes) {
  std::make_unsigned_t<Integer> value = 0;
  for (std::size_t i = 0; i < sizeof(Integer); ++i)
    value = static_cast<std::make_unsigned_t<Integer>>(value << 8 |
                                                       static_cast<unsigned char>(bytes[i]));
  return static_cast<Integer>(value);
}

template <class Integer>
std::string big_endian(Integer value) {
  std::string out;
  append_big_endian(out, value);
  return out;
}

}  // namespace dovetail::postgres
