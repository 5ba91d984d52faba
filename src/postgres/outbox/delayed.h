// Events that wait for their time, from the side of operators.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/operations.h"
#include "postgres/connection/connection.h"

namespace dovetail::postgres {

// nullopt: there are none.
Result<std::optional<DelayedStatus>> delayed_status(Connection& connection);

// In the order in which they are due.
Result<std::vector<EventRow>> list_delayed(Connection& connection, const EventFilter& filter);

// Takes it away before its time, and writes that down. rejected: there is none of this id that
// waits, or this role may not.
Status cancel_delayed(const std::string& url, const EventId& id, const std::string& reason);

}  // namespace dovetail::postgres
