// Which addresses belong to the public internet.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

struct sockaddr;

namespace dovetail::http {

// What kind of address it is when it is none of the public internet: "loopback", "private" ...;
// empty: it is public. IPv4 addresses inside of IPv6 ones are seen through. Any family but these
// two is not public.
std::string_view why_not_public(const sockaddr* address);

std::string address_text(const sockaddr* address);

// A network such as "10.0.0.0/8", or one address. IPv4 addresses are those inside of IPv6 ones.
class AddressRange {
 public:
  // None: the text is neither.
  static std::optional<AddressRange> parse(std::string_view text);
  bool contains(const sockaddr* address) const;

 private:
  std::array<std::uint8_t, 16> first_{};
  unsigned bits_ = 128;
};

// Whom connections are counted for: an IPv4 address, or the first 64 bits of an IPv6 one.
std::string client_of(const sockaddr* address);

}  // namespace dovetail::http
