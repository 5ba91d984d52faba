// How long to wait before trying again: exponential with jitter, so that many who fail
// together do not come back together.
#pragma once

#include <cstdint>

#include "core/clock.h"

namespace dovetail {

struct RetryPolicy {
  Duration base = std::chrono::milliseconds(50);
  Duration cap = std::chrono::seconds(15);
};

// A wait before try number `failures` + 1, uniform in the upper half of min(cap, base *
// 2^failures), and at least 1 ms: a wait that may be next to nothing makes the count of failures
// say little about the time that they took.
Duration retry_delay(const RetryPolicy& policy, std::uint32_t failures, Random& random);

// Until when something that waits can still have to wait, where no pause is longer than
// `pause_max`. What is due later than that was given its time by a clock that was set back since.
inline WallTime latest_due(WallTime now, Duration pause_max) { return now + pause_max; }
// The rule of every store: what waits is tried when its time has come, and when its time cannot be
// right.
bool is_due(WallTime due, WallTime now, Duration pause_max);

}  // namespace dovetail
