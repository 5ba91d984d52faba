// Whether the daemon does its work, and what it knows.
#pragma once

#include <vector>

#include "config/config.h"
#include "console/roster.h"
#include "console/route.h"
#include "console/watch/watcher.h"

namespace dovetail::console {

// GET /readyz for everybody, /metrics and /api/v1/status for viewers. The listener's thread
// answers, whatever hangs. All must outlive the listener.
std::vector<Route> watch_routes(const config::Config& config, const Roster& roster,
                                const Watcher& watcher);

}  // namespace dovetail::console
