// The JSON API: everything under /api/v1 but the sign-in.
#pragma once

#include <memory>
#include <vector>

#include "console/api/desk.h"
#include "console/route.h"

namespace dovetail::console {

std::vector<Route> api_routes(const std::shared_ptr<Desk>& desk);

}  // namespace dovetail::console
