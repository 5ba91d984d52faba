// What operators did, newest first.
#pragma once

#include <memory>
#include <vector>

#include "console/api/desk.h"
#include "console/route.h"

namespace dovetail::console {

std::vector<Route> audit_routes(const std::shared_ptr<Desk>& desk);

}  // namespace dovetail::console
