// Wall times as text: RFC 3339.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "dovetail/event.h"

namespace dovetail {

inline constexpr std::size_t kTimeTextBytes = 27;
// Such as 2026-01-31T09:05:00.000001Z: kTimeTextBytes, no NUL behind them. Times outside the years
// 0 to 9999 become the nearest that has such a text.
void write_time(WallTime time, char* to);

// Takes every offset and any number of digits of a second, of which six count.
std::optional<WallTime> parse_time(std::string_view text);

}  // namespace dovetail
