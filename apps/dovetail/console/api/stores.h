// The stores under it all: the doctor's findings, and replication slots.
#pragma once

#include <memory>
#include <vector>

#include "console/api/desk.h"
#include "console/route.h"

namespace dovetail::console {

std::vector<Route> store_routes(const std::shared_ptr<Desk>& desk);

}  // namespace dovetail::console
