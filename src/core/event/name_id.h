// Event ids made of names: the same name gives the same id, everywhere and for ever.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "dovetail/event.h"

namespace dovetail {

// The space of names of messages that carry no UUID (see MessageReader). Its value is the same in
// every release: it decides whether a message is known already.
inline constexpr EventId kMessageNames{{0x9b, 0x21, 0x73, 0x0e, 0xe9, 0x4e, 0x41, 0x7c, 0xa3, 0x2c,
                                        0x25, 0x37, 0x48, 0x41, 0x4c, 0xa3}};

// A UUID of version 5 (RFC 9562), as uuid.uuid5(space, name) of Python gives it.
EventId name_id(const EventId& space, std::string_view name);

// Only for name_id(): SHA-1 keeps no secret and proves nothing.
std::array<std::uint8_t, 20> sha1(std::string_view first, std::string_view second);

}  // namespace dovetail
