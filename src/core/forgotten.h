// What an inbox does not remember any more, and may therefore have applied before.
#pragma once

#include <optional>

#include "dovetail/event.h"

namespace dovetail {

// The time in an id of version 7; none for any other.
std::optional<WallTime> time_of(const EventId& id);

// Whether the row of this event may have been there and be deleted by now. Ask it of an event that
// has no row, and after the insert of its row: `forgotten_before` is stored in the transaction that
// deletes rows, so that whoever waited for that transaction must look again.
// An event whose time nobody knows (another kind of id, and no created_at) counts as remembered.
// `consumer_since`: nothing is deleted of a consumer that began later than `forgotten_before`, so
// that it may read what is old.
bool is_forgotten(const Event& event, WallTime forgotten_before, WallTime consumer_since);

}  // namespace dovetail
