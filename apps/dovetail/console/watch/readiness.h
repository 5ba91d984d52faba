// Whether the daemon does its work. No I/O.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "core/clock.h"
#include "overview/problems.h"

namespace dovetail::console {

struct Readiness {
  bool is_ready = true;
  std::vector<app::Problem> reasons{};  // why it is not
};

// A relay that is halted makes the daemon not ready at once, and what may pass by itself when it
// has lasted for `away_max`. `relays`: those of this process; what others run does not count.
// What is paused, parked or late does not make it unready.
Readiness readiness_of(const std::vector<app::Problem>& problems,
                       const std::set<std::string>& relays, WallTime now, Duration away_max);

}  // namespace dovetail::console
