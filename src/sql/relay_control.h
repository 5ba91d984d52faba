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
