#include "core/event/name_id.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>

namespace dovetail {

namespace {

class Sha1 {
 public:
  void add(std::string_view bytes) {
    total_ += bytes.size();
    while (!bytes.empty()) {
      const std::size_t count = std::min(bytes.size(), block_.size() - filled_);
      std::memcpy(block_.data() + filled_, bytes.data(), count);
      bytes.remove_prefix(count);
      filled_ += count;
      if (filled_ == block_.size()) {
        take_block();
        filled_ = 0;
      }
    }
  }

  std::array<std::uint8_t, 20> finish() {
    const std::uint64_t bits = total_ * 8;
    add(std::string_view("\x80", 1));
    while (filled_ != block_.size() - 8) add(std::string_view("\0", 1));
    char length[8];
    for (std::size_t i = 0; i < 8; ++i) length[i] = static_cast<char>(bits >> (8 * (7 - i)));
    add(std::string_view(length, sizeof length));
    std::array<std::uint8_t, 20> digest{};
    for (std::size_t i = 0; i < digest.size(); ++i) {
      digest[i] = static_cast<std::uint8_t>(state_[i / 4] >> (8 * (3 - i % 4)));
    }
    return digest;
  }

 private:
  void take_block() {
    std::array<std::uint32_t, 80> words{};
    for (std::size_t i = 0; i < block_.size(); ++i) {
      words[i / 4] = words[i / 4] << 8 | static_cast<std::uint8_t>(block_[i]);
    }
    for (std::size_t i = 16; i < words.size(); ++i) {
      words[i] = std::rotl(words[i - 3] ^ words[i - 8] ^ words[i - 14] ^ words[i - 16], 1);
    }
    auto [a, b, c, d, e] = state_;
    for (std::size_t i = 0; i < words.size(); ++i) {
      std::uint32_t mixed = 0;
      if (i < 20) {
        mixed = ((b & c) | (~b & d)) + 0x5a827999;
      } else if (i < 40) {
        mixed = (b ^ c ^ d) + 0x6ed9eba1;
      } else if (i < 60) {
        mixed = ((b & c) | (b & d) | (c & d)) + 0x8f1bbcdc;
      } else {
        mixed = (b ^ c ^ d) + 0xca62c1d6;
      }
      const std::uint32_t next = std::rotl(a, 5) + mixed + e + words[i];
      e = d;
      d = c;
      c = std::rotl(b, 30);
      b = a;
      a = next;
    }
    const std::array<std::uint32_t, 5> added = {a, b, c, d, e};
    for (std::size_t i = 0; i < state_.size(); ++i) state_[i] += added[i];
  }

  std::array<std::uint32_t, 5> state_ = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476,
                                         0xc3d2e1f0};
  std::array<char, 64> block_{};
  std::size_t filled_ = 0;
  std::uint64_t total_ = 0;
};

}  // namespace

std::array<std::uint8_t, 20> sha1(std::string_view first, std::string_view second) {
  Sha1 hash;
  hash.add(first);
  hash.add(second);
  return hash.finish();
}

EventId name_id(const EventId& space, std::string_view name) {
  char begin[16];
  std::memcpy(begin, space.bytes.data(), sizeof begin);
  const auto digest = sha1(std::string_view(begin, sizeof begin), name);
  EventId id;
  std::copy_n(digest.begin(), id.bytes.size(), id.bytes.begin());
  id.bytes[6] = static_cast<std::uint8_t>(0x50 | (id.bytes[6] & 0x0f));
  id.bytes[8] = static_cast<std::uint8_t>(0x80 | (id.bytes[8] & 0x3f));
  return id;
}

}  // namespace dovetail
