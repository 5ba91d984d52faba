// What operators order for a relay or a consumer: pause, drain, resume.
#pragma once

#include <memory>
#include <vector>

#include "console/api/desk.h"
#include "console/route.h"

namespace dovetail::console {

std::vector<Route> order_routes(const std::shared_ptr<Desk>& desk);

}  // namespace dovetail::console
