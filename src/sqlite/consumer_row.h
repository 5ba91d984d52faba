// What a SQLite file knows of a consumer, for all who put rows into its inbox.
#pragma once

#include <cstdint>
#include <string_view>

#include "dovetail/event.h"
#include "sqlite/database.h"

namespace dovetail::sqlite {

struct ConsumerRow {
  std::int64_t id = 0;
  bool clean = true;  // false: a session runs, or died
  WallTime since{};   // when it was first seen
};

// Makes the row when it is not there. Inside the caller's transaction, as the next.
Result<ConsumerRow> find_consumer(sqlite3* transaction, std::string_view name, WallTime now);

// Events of before this, without a row, may have been applied: see core/forgotten.h.
Result<WallTime> forgotten_before(sqlite3* transaction);

}  // namespace dovetail::sqlite
