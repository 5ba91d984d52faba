// The signals that ask a daemon to stop: SIGTERM, SIGINT and, unless we were started to survive it
// (nohup), SIGHUP. They are blocked in every thread, and taken by the one that looks for them.
#pragma once

#include <optional>

#include "core/clock.h"

namespace dovetail::app {

// Call before any thread is started, which a broker's library may do.
void block_stop_signals();
// None: nothing came in this time. REQUIRES: they are blocked.
std::optional<int> wait_for_stop_signal(Duration wait_max);
// Whether one that comes while we stop means "at once". A terminal that goes away may say so twice.
bool is_urgent(int signal);

}  // namespace dovetail::app
