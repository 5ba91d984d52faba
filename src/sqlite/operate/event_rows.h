// Events with their state for each reader, as a query gives them.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "core/operations.h"
#include "sqlite/connection/database.h"

namespace dovetail::sqlite {

constexpr std::size_t kReadersMax = 1000;  // of one store

// "SELECT ... FROM ... AS o LEFT JOIN ..." of outbox or mailbox, for read_rows(). ?1 is the source,
// ?2 a reader or empty; `derived` is the state.
std::string select_events(SourceKind source);

// As many as `limit`, and then all readers of the last event: the next page begins behind it.
Result<std::vector<EventRow>> read_rows(Statement& select, std::size_t limit);

}  // namespace dovetail::sqlite
