// What follows from an operator's order for a relay, and what is refused before a database is
// asked to write it.
#pragma once

#include <string>

#include "core/operations.h"
#include "core/steering.h"
#include "dovetail/result.h"

namespace dovetail {

// The order changes nothing: the relay has it already.
bool has_order(Hold now, Hold wanted);

// Pause (paused), drain (draining) or resume (none).
ActionReport plan_hold(const RelayStatus& relay, Hold wanted);

// rejected: this relay cannot be moved.
Status check_seek(const RelayStatus& relay);
ActionReport plan_seek(const RelayStatus& relay, const SeekCounts& counts);

// rejected: another name, or forgetting it, would lose something. That no process runs it, the
// database checks when it writes.
Status check_rename(const RelayStatus& relay);
ActionReport plan_rename(const RelayStatus& relay, const std::string& new_name);
Status check_forget(const RelayStatus& relay);
ActionReport plan_forget(const RelayStatus& relay);

// "relay "orders"": for texts.
std::string quoted(const RelayStatus& relay);

}  // namespace dovetail
