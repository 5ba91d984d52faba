// The signals that stop a daemon: SIGTERM, SIGINT and, unless it was started under nohup, SIGHUP.
// They are blocked in every thread; the waiting thread takes them.
#pragma once

#include <optional>

#include "core/clock.h"

namespace dovetail::app {

// Call it before any thread starts, also those of a broker's library.
void block_stop_signals();
// Empty: no signal came in time. REQUIRES: they are blocked.
std::optional<int> wait_for_stop_signal(Duration wait_max);
// Whether this signal during a stop means "at once". A closed terminal may send SIGHUP twice.
bool is_urgent(int signal);

}  // namespace dovetail::app
