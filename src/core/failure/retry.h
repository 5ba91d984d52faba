// How long to wait before the next try: exponential with jitter, so that callers that fail together
// do not come back together.
#pragma once

#include <cstdint>

#include "core/clock.h"

namespace dovetail {

struct RetryPolicy {
  Duration base = std::chrono::milliseconds(50);
  Duration cap = std::chrono::seconds(15);
};

// The wait before try number `failures` + 1: uniform in the upper half of min(cap, base *
// 2^failures), at least 1 ms. A wait near zero would break the link between the number of failures
// and the time they took.
Duration retry_delay(const RetryPolicy& policy, std::uint32_t failures, Random& random);

// The latest time that can be right for a wait, if no pause is longer than `pause_max`. A later due
// time comes from a clock that was set back since.
inline WallTime latest_due(WallTime now, Duration pause_max) { return now + pause_max; }
// The rule of every store: an event that waits is tried when it is due, or when its due time cannot
// be right.
bool is_due(WallTime due, WallTime now, Duration pause_max);

}  // namespace dovetail
