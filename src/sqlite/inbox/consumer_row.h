// What a SQLite file knows of a consumer, for all who put rows into its inbox.
#pragma once

#include <cstdint>
#include <string_view>

#include "dovetail/event.h"
#include "sqlite/connection/database.h"

namespace dovetail::sqlite {

struct ConsumerRow {
  std::int64_t id = 0;
  bool clean = true;  // false: a session runs, or died
};

// Makes the row when it is not there. Inside the caller's transaction, as the next.
Result<ConsumerRow> find_consumer(sqlite3* transaction, std::string_view name, WallTime now);

// Events of up to this time, without a row, may have been applied: see core/forgotten.h.
Result<WallTime> forgotten_until(sqlite3* transaction, std::int64_t consumer_id);

// Whether the event is known not to have been applied, however old it is.
Result<bool> is_unapplied(sqlite3* transaction, std::int64_t consumer_id, const EventId& id);

// What an inbox row says of the event beside its id: the digest of its payload, and when it could
// first have been applied, or null where the id says that.
Statement& bind_payload(Statement& statement, int column, const Event& event);

// Whether the row that is there belongs to another payload; one of an unknown payload does not.
bool is_other_payload(const Statement& row, int column, const Event& event);

}  // namespace dovetail::sqlite
