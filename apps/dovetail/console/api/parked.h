// Parked events: by reason, and what an operator decides about them.
#pragma once

#include <memory>
#include <vector>

#include "console/api/desk.h"
#include "console/route.h"

namespace dovetail::console {

std::vector<Route> parked_routes(const std::shared_ptr<Desk>& desk);

}  // namespace dovetail::console
