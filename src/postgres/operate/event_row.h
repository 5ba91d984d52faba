// An event as queries for operators give it.
#pragma once

#include <cstddef>
#include <string>

#include "core/operations.h"
#include "postgres/connection/connection.h"

namespace dovetail::postgres {

// Columns: position, id, relay, state, topic, aggregate type, aggregate id, type, content type,
// bytes of the payload, aggregate version, created. Headers are a column after these, where they
// are asked for.
inline constexpr std::size_t kHeadersColumn = 12;

inline EventRow event_row(const Rows& rows, std::size_t i) {
  EventRow event;
  event.position = rows.int8(i, 0);
  event.id = rows.uuid(i, 1);
  event.relay = std::string(rows.text(i, 2));
  event.state = parse_event_state(rows.text(i, 3)).value_or(EventState::pending);
  event.topic = std::string(rows.text(i, 4));
  event.aggregate_type = std::string(rows.text(i, 5));
  event.aggregate_id = std::string(rows.text(i, 6));
  event.type = std::string(rows.text(i, 7));
  event.content_type = std::string(rows.text(i, 8));
  event.payload_bytes = static_cast<std::uint64_t>(rows.int4(i, 9));
  event.aggregate_version = rows.int8(i, 10);
  event.created_at = rows.timestamptz(i, 11);
  return event;
}

}  // namespace dovetail::postgres
