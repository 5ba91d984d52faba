// Binds a relay to its target, or to its broker if it reads one.
#pragma once

#include <string_view>

#include "dovetail/result.h"

namespace dovetail {

// Otherwise two processes of one name would split its events over two targets. The text says how to
// change the target on purpose.
Error other_target(std::string_view relay, std::string_view bound, std::string_view wanted);

}  // namespace dovetail
