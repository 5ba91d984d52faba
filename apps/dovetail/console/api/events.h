// Events: search, one with all that the stores know about it, its payload, and a changed copy.
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "assembly/database.h"
#include "console/api/call.h"
#include "console/api/desk.h"
#include "console/route.h"

namespace dovetail::console {

// How long one search may take; the answer then says where to go on.
constexpr Duration kSearchTime = std::chrono::milliseconds(150);

// An event with its state for each relay that reads it: the rows from `at` on that are of one
// event. Moves `at` behind them.
Json event_json(const config::StoreConfig& store, SourceKind source,
                const std::vector<EventRow>& rows, std::size_t& at);

std::vector<Route> event_routes(const std::shared_ptr<Desk>& desk);

}  // namespace dovetail::console
