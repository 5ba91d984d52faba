// Events that wait for their time.
#pragma once

#include <vector>

#include "assembly/database.h"
#include "console/api/call.h"
#include "console/api/cursor.h"
#include "console/api/desk.h"

namespace dovetail::console {

// Store by store, in the order in which they were published.
Expected<Json> list_delayed(const std::vector<const config::StoreConfig*>& stores,
                            const EventSearch& search, const Cursor& cursor, Clock& clock);

// Deletes one, with a reason.
Expected<Json> cancel_delayed(const Desk& desk, const Request& request, const Identity& who);

}  // namespace dovetail::console
