// Whether inboxes remember long enough.
#pragma once

#include <vector>

#include "config/config.h"
#include "core/operations.h"

namespace dovetail::assembly {

// Events that a broker can deliver again after the consumers' inboxes have forgotten them.
std::vector<Finding> examine_retention(const config::StoreConfig& broker,
                                       const config::Config& config);

}  // namespace dovetail::assembly
