// Random numbers for waits.
#pragma once

#include <array>
#include <cstdint>

#include "host/host.h"

namespace dovetail {

// A seed for jitter: processes that fail together must not come back together.
inline std::uint64_t jitter_seed() {
  std::array<std::uint8_t, 8> bytes{};
  SystemEntropy().fill(bytes);
  std::uint64_t seed = 0;
  for (const std::uint8_t byte : bytes) seed = seed << 8 | byte;
  return seed;
}

}  // namespace dovetail
