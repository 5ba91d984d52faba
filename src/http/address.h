// Which addresses belong to the public internet.
#pragma once

#include <string>
#include <string_view>

struct sockaddr;

namespace dovetail::http {

// What kind of address it is when it is none of the public internet: "loopback", "private" ...;
// empty: it is public. IPv4 addresses inside of IPv6 ones are seen through. Any family but these
// two is not public.
std::string_view why_not_public(const sockaddr* address);

std::string address_text(const sockaddr* address);

}  // namespace dovetail::http
