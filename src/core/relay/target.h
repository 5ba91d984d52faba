// A relay is bound to where its events go, or, where it reads a broker, come from.
#pragma once

#include <string_view>

#include "dovetail/result.h"

namespace dovetail {

// Two processes of one name would share its events between two targets. Says how to change it on
// purpose.
Error other_target(std::string_view relay, std::string_view bound, std::string_view wanted);

}  // namespace dovetail
