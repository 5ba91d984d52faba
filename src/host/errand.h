// Threads that outlive their callers: a connect or a name look-up cannot be interrupted, and a
// caller must be able to stop.
#pragma once

#include <cstddef>
#include <functional>

#include "core/clock.h"

namespace dovetail {

// Runs `errand` in its own thread. The errand must own all that it uses. Any thread. Throws
// std::system_error if no thread can be started.
void run_errand(std::function<void()> errand);

// The same for a thread that runs already: it counts as an errand between these two calls.
void errand_began();
void errand_ended();  // the last call of the thread

// The number of errands that have not ended.
std::size_t errands_left();
// Waits for all errands, at most `limit`. True: all have ended. The exit of the process waits for
// them, too, for some seconds: a thread must not meet destructors of static objects.
bool wait_for_errands(Duration limit);

}  // namespace dovetail
