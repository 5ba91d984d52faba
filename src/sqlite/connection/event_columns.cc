#include "sqlite/connection/event_columns.h"

namespace dovetail::sqlite {

Event read_event(const Statement& statement, std::int64_t position, int first) {
  Event event;
  event.id = statement.id(first);
  event.position = position;
  event.topic = statement.bytes(first + 1);
  event.aggregate_type = statement.bytes(first + 2);
  event.aggregate_id = statement.bytes(first + 3);
  event.type = statement.bytes(first + 4);
  event.content_type = statement.bytes(first + 5);
  event.headers = statement.bytes(first + 6);
  event.payload = statement.bytes(first + 7);
  event.aggregate_version = statement.integer(first + 8);
  event.created_at = from_stored(statement.integer(first + 9));
  return event;
}

void bind_event(Statement& statement, const Event& event, int first) {
  statement.bind_id(first, event.id)
      .bind_text(first + 1, event.topic)
      .bind_text(first + 2, event.aggregate_type)
      .bind_text(first + 3, event.aggregate_id)
      .bind_text(first + 4, event.type)
      .bind_text(first + 5, event.content_type)
      .bind_text(first + 6, event.headers)
      .bind_blob(first + 7, event.payload)
      .bind(first + 8, event.aggregate_version)
      .bind(first + 9, to_stored(event.created_at));
}

}  // namespace dovetail::sqlite
