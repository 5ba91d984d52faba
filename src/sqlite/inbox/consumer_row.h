// The row of a consumer in a SQLite file, for all code that writes to its inbox.
#pragma once

#include <cstdint>
#include <string_view>

#include "dovetail/event.h"
#include "sqlite/connection/database.h"

namespace dovetail::sqlite {

struct ConsumerRow {
  std::int64_t id = 0;
  bool clean = true;  // false: a session is running, or died
};

// Creates the row if missing. Inside the caller's transaction, like the next functions.
Result<ConsumerRow> find_consumer(sqlite3* transaction, std::string_view name, WallTime now);

// Events up to this time without a row may have been applied: see core/inbox/forgotten.h.
Result<WallTime> forgotten_until(sqlite3* transaction, std::int64_t consumer_id);

// Whether the event is known as not applied, whatever its age.
Result<bool> is_unapplied(sqlite3* transaction, std::int64_t consumer_id, const EventId& id);

// Binds what an inbox row has besides the id: the digest of the payload, and the time when the
// event could first be applied, or null if the id has it.
Statement& bind_payload(Statement& statement, int column, const Event& event);

// Whether an existing row has another payload. An unknown payload counts as the same.
bool is_other_payload(const Statement& row, int column, const Event& event);

}  // namespace dovetail::sqlite
