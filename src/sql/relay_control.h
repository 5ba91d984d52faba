// The rules about what operators order for a relay: what is refused, and what follows from an
// order. The database only writes it.
#pragma once

#include <string>

#include "core/operations.h"
#include "core/steering.h"
#include "dovetail/result.h"

namespace dovetail {

// Pause (paused), drain (draining) or resume (none).
ActionReport plan_hold(const RelayStatus& relay, Hold wanted);

// "relay "orders"": for texts.
std::string quoted(const RelayStatus& relay);

}  // namespace dovetail
