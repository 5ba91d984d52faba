// Payloads: hidden until somebody asks for one, with a reason, which the audit keeps.
#pragma once

#include "console/api/call.h"
#include "console/api/desk.h"

namespace dovetail::console {

// The audit is written first: a payload that cannot be recorded is not shown.
Expected<Json> reveal_payload(const Desk& desk, const Request& request, const Identity& who);

// Publishes a changed copy as a new event with an id that the client chooses, so that a repeated
// request publishes once; and discards the parked one, in the same transaction.
Expected<Json> publish_edited(const Desk& desk, const Request& request, const Identity& who);

}  // namespace dovetail::console
