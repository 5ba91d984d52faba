// How long to wait before trying again: exponential with full jitter, so that many who fail
// together do not come back together.
#pragma once

#include <cstdint>

#include "core/clock.h"

namespace dovetail {

struct RetryPolicy {
  Duration base = std::chrono::milliseconds(50);
  Duration cap = std::chrono::seconds(30);
};

// A wait before try number `failures` + 1, uniform in [1 ms, min(cap, base * 2^failures)].
Duration retry_delay(const RetryPolicy& policy, std::uint32_t failures, Random& random);

}  // namespace dovetail
