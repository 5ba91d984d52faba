// Decides whether an inbox may have applied an event and forgotten it.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "core/clock.h"
#include "dovetail/event.h"

namespace dovetail {

// The time in an id of version 7; empty for other ids.
std::optional<WallTime> time_of(const EventId& id);

// If created_at is more than this after the time in the id, the event was sent later than it was
// made. It is also the most by which the clocks of publishers and consumers may differ.
inline constexpr Duration kSkewMax = std::chrono::hours(1);

// The earliest time at which the event could be applied: the time in its id, or created_at if
// the id has none or a much earlier one. Empty: unknown. The result is the same at each
// delivery.
std::optional<WallTime> available_at(const Event& event);

// Whether this event's row may have existed and been deleted. Call it for an event without a row,
// and after the insert of its row: the transaction that deletes rows also stores `forgotten_until`,
// so a caller that waited for that transaction must read it again. No deleted row of this consumer
// belongs to an event that could first be applied later than `forgotten_until`. An event of unknown
// time (another kind of id, and no created_at) counts as remembered.
bool is_forgotten(const Event& event, WallTime forgotten_until);

// Tells two events with the same id apart, whichever way they came: the first 8 bytes of the
// payload's SHA-256.
std::int64_t payload_digest(std::string_view payload);

}  // namespace dovetail
