// Which addresses belong to the public internet.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

struct sockaddr;

namespace dovetail::http {

// The kind of an address that is not on the public internet: "loopback", "private" ... Empty:
// it is public. An IPv4 address inside IPv6 counts as IPv4. Other address families are not
// public.
std::string_view why_not_public(const sockaddr* address);

std::string address_text(const sockaddr* address);

// A network such as "10.0.0.0/8", or one address. IPv4 addresses also match inside IPv6.
class AddressRange {
 public:
  // Empty: the text is neither.
  static std::optional<AddressRange> parse(std::string_view text);
  bool contains(const sockaddr* address) const;

 private:
  std::array<std::uint8_t, 16> first_{};
  unsigned bits_ = 128;
};

// The client for connection counts: an IPv4 address, or the first 64 bits of an IPv6 address.
std::string client_of(const sockaddr* address);

}  // namespace dovetail::http
