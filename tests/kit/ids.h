// Event ids that a test can tell apart, also with other times than now.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "core/clock.h"
#include "dovetail/event.h"

namespace dovetail {

// An id of version 7 with this time, or of another version, which has no time. The last eight bytes
// are `number`.
inline EventId id_of(std::uint64_t number, WallTime time, int version = 7) {
  EventId id;
  for (std::size_t i = 0; i < 8; ++i)
    id.bytes[15 - i] = static_cast<std::uint8_t>(number >> (8 * i));
  const auto ms = std::chrono::floor<std::chrono::milliseconds>(time).time_since_epoch().count();
  for (std::size_t i = 0; i < 6; ++i) id.bytes[i] = static_cast<std::uint8_t>(ms >> (40 - 8 * i));
  id.bytes[6] = static_cast<std::uint8_t>(version << 4);
  id.bytes[8] = 0x80;
  return id;
}

inline EventId numbered_id(std::uint64_t number) { return id_of(number, WallTime()); }

// Returns another id at each call.
inline EventId id_at(WallTime time, int version = 7) {
  static std::uint8_t count = 0;
  return id_of(++count, time, version);
}

inline WallTime days_ago(Clock& clock, int days) {
  return clock.wall() - std::chrono::hours(24 * days);
}

}  // namespace dovetail
