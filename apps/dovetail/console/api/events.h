// Events: search, one with all that the stores know about it, its payload, and a changed copy.
#pragma once

#include <memory>
#include <vector>

#include "console/api/desk.h"
#include "console/route.h"

namespace dovetail::console {

std::vector<Route> event_routes(const std::shared_ptr<Desk>& desk);

}  // namespace dovetail::console
