// One event: its life, and every row that a store has about it.
#pragma once

#include "console/api/call.h"
#include "console/api/desk.h"

namespace dovetail::console {

Expected<Json> event_life(const Desk& desk, const Request& request);

}  // namespace dovetail::console
