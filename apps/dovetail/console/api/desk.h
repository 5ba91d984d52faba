// What the handlers of the API work with.
#pragma once

#include <memory>

#include "config/config.h"
#include "console/history/history.h"
#include "console/refusals.h"
#include "console/roster.h"
#include "core/clock.h"

namespace dovetail::console {

// Owned by every handler, and by what runs beside them. `keeper` holds the config and the roster.
struct Desk {
  const config::Config& config;
  const Roster& roster;
  Clock& clock;
  std::shared_ptr<const void> keeper;
  std::shared_ptr<const History> history;
  std::shared_ptr<const Refusals> refusals;
  WallTime started_at{};
};

}  // namespace dovetail::console
