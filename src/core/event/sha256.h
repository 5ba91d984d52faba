// SHA-256 (FIPS 180-4), for fingerprints only, not for secrets.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace dovetail {

// Computes one digest, on one thread.
class Sha256 {
 public:
  Sha256& add(std::string_view bytes);
  std::string finish();  // 32 bytes

 private:
  void take_block(const char* block);

  std::array<std::uint32_t, 8> state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<char, 64> block_{};
  std::size_t filled_ = 0;
  std::uint64_t total_ = 0;
};

std::string to_hex(std::string_view bytes);

}  // namespace dovetail
