// Threads that outlive those who started them: nobody can interrupt a connect, or the look-up of a
// name, and somebody waits for us to stop.
#pragma once

#include <cstddef>
#include <functional>

#include "core/clock.h"

namespace dovetail {

// Runs `errand` in a thread of its own. It owns all that it touches. Any thread. Throws
// std::system_error when no thread can be started.
void run_errand(std::function<void()> errand);

// The same for a thread that runs already: between these two it counts as one.
void errand_began();
void errand_ended();  // the last thing that the thread does

// How many have not ended.
std::size_t errands_left();
// Waits for all of them, at most `limit`. True: none is left. At the exit of the process it is
// waited for them, too, for some seconds: a thread must not meet destructors of static objects.
bool wait_for_errands(Duration limit);

}  // namespace dovetail
