// Publishes on a connection whose answers are read later.
#pragma once

#include <functional>
#include <string_view>

#include "dovetail/event.h"
#include "dovetail/result.h"
#include "postgres/connection/connection.h"

namespace dovetail::postgres {

using Send = std::function<Status(std::string_view sql, const Params& params)>;

// Checks the event, sets its id, and passes the statement that publishes it to `send`, which must
// send it before it returns.
Result<EventId> send_publish(const NewEvent& event, const EventLimits& limits, const Send& send);

}  // namespace dovetail::postgres
