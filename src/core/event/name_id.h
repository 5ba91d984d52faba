// Event ids made from names: a name gives the same id everywhere and in every release.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "dovetail/event.h"

namespace dovetail {

// The namespace for messages without a UUID (see MessageReader). Its value must not change: it
// decides whether a message is recognised as known.
inline constexpr EventId kMessageNames{{0x9b, 0x21, 0x73, 0x0e, 0xe9, 0x4e, 0x41, 0x7c, 0xa3, 0x2c,
                                        0x25, 0x37, 0x48, 0x41, 0x4c, 0xa3}};

// A UUID version 5 (RFC 9562), equal to Python's uuid.uuid5(space, name).
EventId name_id(const EventId& space, std::string_view name);

// For name_id() only: SHA-1 is not safe for secrets or proofs.
std::array<std::uint8_t, 20> sha1(std::string_view first, std::string_view second);

}  // namespace dovetail
