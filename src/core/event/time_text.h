// Wall times as text: RFC 3339.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "dovetail/event.h"

namespace dovetail {

inline constexpr std::size_t kTimeTextBytes = 27;
// Writes kTimeTextBytes bytes such as 2026-01-31T09:05:00.000001Z, without a final NUL. A time
// outside the years 0 to 9999 becomes the nearest one that has such a text.
void write_time(WallTime time, char* to);

// Accepts any offset and any number of fraction digits; uses six of them.
std::optional<WallTime> parse_time(std::string_view text);

}  // namespace dovetail
