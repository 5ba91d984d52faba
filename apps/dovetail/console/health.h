// Whether the process lives.
#pragma once

#include <vector>

#include "console/route.h"

namespace dovetail::console {

// GET /livez, for everybody: the listener's thread answers, whatever hangs.
std::vector<Route> health_routes();

}  // namespace dovetail::console
