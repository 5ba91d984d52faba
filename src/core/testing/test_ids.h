// Ids of other times than now. For tests.
#pragma once

#include <chrono>
#include <cstdint>

#include "core/clock.h"
#include "dovetail/event.h"

namespace dovetail {

// Of version 7, and of this time; or of another version, which says no time.
inline EventId id_at(WallTime time, int version = 7) {
  static std::uint8_t count = 0;
  EventId id;
  const auto ms = std::chrono::floor<std::chrono::milliseconds>(time).time_since_epoch().count();
  for (int i = 0; i < 6; ++i)
    id.bytes[static_cast<std::size_t>(i)] = static_cast<std::uint8_t>(ms >> (40 - 8 * i));
  id.bytes[6] = static_cast<std::uint8_t>(version << 4);
  id.bytes[8] = 0x80;
  id.bytes[15] = ++count;
  return id;
}

inline WallTime days_ago(Clock& clock, int days) {
  return clock.wall() - std::chrono::hours(24 * days);
}

}  // namespace dovetail
