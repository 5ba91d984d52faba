// What the doctor finds in a store.
#pragma once

#include <vector>

#include "commands/output.h"
#include "config/config.h"
#include "core/operations.h"

namespace dovetail::app {

// With the handlers of the consumers whose inbox is there. A store that does not answer is a
// finding, too.
std::vector<Finding> examine(const config::StoreConfig& store, const config::Config& config);

Json json_of(const config::StoreConfig& store, const std::vector<Finding>& findings);

}  // namespace dovetail::app
