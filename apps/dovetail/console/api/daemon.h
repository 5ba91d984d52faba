// This process: what its config has, and what it has done since it started.
#pragma once

#include <memory>
#include <vector>

#include "console/api/desk.h"
#include "console/route.h"

namespace dovetail::console {

std::vector<Route> daemon_routes(const std::shared_ptr<Desk>& desk);

}  // namespace dovetail::console
