#include "server/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <cstring>

namespace dovetail::http {

namespace {

struct Range4 {
  std::uint32_t first;
  int bits;
  std::string_view kind;
};

constexpr std::uint32_t quad(std::uint32_t a, std::uint32_t b, std::uint32_t c = 0) {
  return a << 24 | b << 16 | c << 8;
}

// The registry of special-purpose addresses (RFC 6890 and its updates).
constexpr std::array<Range4, 15> kRanges4{{
    {quad(0, 0), 8, "unspecified"},
    {quad(10, 0), 8, "private"},
    {quad(100, 64), 10, "shared by a carrier"},
    {quad(127, 0), 8, "loopback"},
    {quad(169, 254), 16, "link-local"},
    {quad(172, 16), 12, "private"},
    {quad(192, 0, 0), 24, "reserved"},
    {quad(192, 0, 2), 24, "for documentation"},
    {quad(192, 88, 99), 24, "reserved"},
    {quad(192, 168), 16, "private"},
    {quad(198, 18), 15, "for benchmarks"},
    {quad(198, 51, 100), 24, "for documentation"},
    {quad(203, 0, 113), 24, "for documentation"},
    {quad(224, 0), 4, "multicast"},
    {quad(240, 0), 4, "reserved"},
}};

std::string_view why_not_public4(std::uint32_t address) {
  for (const Range4& range : kRanges4) {
    if ((address ^ range.first) >> (32 - range.bits) == 0) return range.kind;
  }
  return {};
}

using Bytes6 = std::array<std::uint8_t, 16>;

constexpr Bytes6 kMapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

// As IPv6; false: another address family.
bool read_bytes(const sockaddr* address, Bytes6& out) {
  if (address->sa_family == AF_INET) {
    sockaddr_in in{};
    std::memcpy(&in, address, sizeof in);
    out = kMapped;
    std::memcpy(out.data() + 12, &in.sin_addr, 4);
    return true;
  }
  if (address->sa_family != AF_INET6) return false;
  sockaddr_in6 in{};
  std::memcpy(&in, address, sizeof in);
  std::memcpy(out.data(), &in.sin6_addr, out.size());
  return true;
}

std::uint32_t four_bytes(const Bytes6& bytes, std::size_t at) {
  return static_cast<std::uint32_t>(bytes[at]) << 24 |
         static_cast<std::uint32_t>(bytes[at + 1]) << 16 |
         static_cast<std::uint32_t>(bytes[at + 2]) << 8 | bytes[at + 3];
}

std::string_view why_not_public6(const Bytes6& bytes) {
  const std::uint32_t first = four_bytes(bytes, 0);
  const std::uint32_t second = four_bytes(bytes, 4);
  const std::uint32_t third = four_bytes(bytes, 8);
  const std::uint32_t last = four_bytes(bytes, 12);
  if (first == 0 && second == 0) {
    if (third == 0xffff) return why_not_public4(last);  // IPv4-mapped
    if (third == 0 && last == 1) return "loopback";
    return third == 0 && last == 0 ? "unspecified" : "reserved";
  }
  // NAT64 and 6to4 lead to the IPv4 address inside.
  if (first == 0x0064ff9b && second == 0 && third == 0) return why_not_public4(last);
  if (first >> 16 == 0x2002) return why_not_public4(first << 16 | second >> 16);
  if (first >> 25 == 0xfc >> 1) return "unique local";
  if (first >> 22 == 0xfe80 >> 6) return "link-local";
  if (first >> 22 == 0xfec0 >> 6) return "site-local";
  if (first >> 24 == 0xff) return "multicast";
  if (first >> 29 != 1) return "reserved";               // only 2000::/3 is allocated
  if (first >> 9 == 0x20010000 >> 9) return "reserved";  // 2001::/23, Teredo among them
  if (first == 0x20010db8) return "for documentation";
  if (first >> 12 == 0x3fff0) return "for documentation";
  return {};
}

}  // namespace

std::string_view why_not_public(const sockaddr* address) {
  if (address->sa_family == AF_INET) {
    sockaddr_in in{};
    std::memcpy(&in, address, sizeof in);
    return why_not_public4(ntohl(in.sin_addr.s_addr));
  }
  if (address->sa_family == AF_INET6) {
    sockaddr_in6 in{};
    std::memcpy(&in, address, sizeof in);
    Bytes6 bytes;
    std::memcpy(bytes.data(), &in.sin6_addr, bytes.size());
    return why_not_public6(bytes);
  }
  return "of an unknown family";
}

std::string address_text(const sockaddr* address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address->sa_family == AF_INET) {
    sockaddr_in in{};
    std::memcpy(&in, address, sizeof in);
    inet_ntop(AF_INET, &in.sin_addr, text.data(), text.size());
  } else if (address->sa_family == AF_INET6) {
    sockaddr_in6 in{};
    std::memcpy(&in, address, sizeof in);
    inet_ntop(AF_INET6, &in.sin6_addr, text.data(), text.size());
  }
  return text.data();
}

std::optional<AddressRange> AddressRange::parse(std::string_view text) {
  const std::size_t slash = text.find('/');
  const std::string address(text.substr(0, slash));
  AddressRange range;
  std::array<std::uint8_t, 4> four{};
  unsigned bits_max = 128;
  if (inet_pton(AF_INET, address.c_str(), four.data()) == 1) {
    range.first_ = kMapped;
    std::copy(four.begin(), four.end(), range.first_.begin() + 12);
    bits_max = 32;
  } else if (inet_pton(AF_INET6, address.c_str(), range.first_.data()) != 1) {
    return std::nullopt;
  }
  unsigned bits = bits_max;
  if (slash != std::string_view::npos) {
    const char* const end = text.data() + text.size();
    const auto [read, code] = std::from_chars(text.data() + slash + 1, end, bits);
    if (code != std::errc{} || read != end || bits > bits_max) return std::nullopt;
  }
  range.bits_ = bits + 128 - bits_max;
  return range;
}

bool AddressRange::contains(const sockaddr* address) const {
  Bytes6 bytes{};
  if (!read_bytes(address, bytes)) return false;
  for (unsigned i = 0; i < bits_; ++i) {
    const unsigned mask = 0x80U >> (i % 8);
    if (((bytes[i / 8] ^ first_[i / 8]) & mask) != 0) return false;
  }
  return true;
}

std::string client_of(const sockaddr* address) {
  Bytes6 bytes{};
  if (!read_bytes(address, bytes)) return {};
  const bool is_four = std::equal(kMapped.begin(), kMapped.begin() + 12, bytes.begin());
  return {reinterpret_cast<const char*>(bytes.data()), is_four ? bytes.size() : 8};
}

}  // namespace dovetail::http
