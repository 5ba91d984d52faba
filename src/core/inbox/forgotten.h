// What an inbox does not remember any more, and may therefore have applied before.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "core/clock.h"
#include "dovetail/event.h"

namespace dovetail {

// The time in an id of version 7; none for any other.
std::optional<WallTime> time_of(const EventId& id);

// An event whose created_at is further behind its id than this went out later than it was made.
// Also how far the clocks of those who publish and those who apply may be apart.
inline constexpr Duration kSkewMax = std::chrono::hours(1);

// When the event could first have been applied: at the time in its id, or at its created_at where
// the id says no time, or one that is much earlier. None: nobody knows. The same event has the same
// time whenever it comes.
std::optional<WallTime> available_at(const Event& event);

// Whether the row of this event may have been there and be deleted by now. Ask it of an event that
// has no row, and after the insert of its row: `forgotten_until` is stored in the transaction that
// deletes rows, so that whoever waited for that transaction must look again. It is of the consumer,
// and no row was deleted whose event could first have been applied later.
// An event whose time nobody knows (another kind of id, and no created_at) counts as remembered.
bool is_forgotten(const Event& event, WallTime forgotten_until);

// What tells two events with the same id apart, and is the same whatever way an event came: the
// first 8 bytes of the SHA-256 of its payload.
std::int64_t payload_digest(std::string_view payload);

}  // namespace dovetail
