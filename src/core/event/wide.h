// Products of 64-bit numbers in 128 bits.
#pragma once

#include <cstdint>

namespace dovetail {

__extension__ typedef unsigned __int128 Wide;

inline Wide multiply_wide(std::uint64_t a, std::uint64_t b) { return static_cast<Wide>(a) * b; }

// Maps `value` from all 64-bit numbers to those below `bound`, in proportion.
inline std::uint64_t scale_below(std::uint64_t value, std::uint64_t bound) {
  return static_cast<std::uint64_t>(multiply_wide(value, bound) >> 64);
}

}  // namespace dovetail
