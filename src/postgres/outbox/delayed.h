// Delayed events, for operators.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/operations.h"
#include "postgres/connection/connection.h"

namespace dovetail::postgres {

// nullopt: none.
Result<std::optional<DelayedStatus>> delayed_status(Connection& connection);

// In the order of their delivery times.
Result<std::vector<EventRow>> list_delayed(Connection& connection, const EventFilter& filter);

// Removes a delayed event and records that. rejected: no delayed event has this id, or this role
// may not remove it.
Status cancel_delayed(const std::string& url, const EventId& id, const std::string& reason);

}  // namespace dovetail::postgres
