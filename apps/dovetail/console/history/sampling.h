// What the history is made of.
#pragma once

#include <stop_token>

#include "console/history/history.h"
#include "console/roster.h"
#include "console/watch/watcher.h"
#include "core/clock.h"

namespace dovetail::console {

// Adds to the history what the relays of this process have counted, and what the databases said
// last, until it is stopped.
void sample_again_and_again(const Roster& roster, const Watcher& watcher, Clock& clock,
                            History& history, const std::stop_token& stop);

}  // namespace dovetail::console
