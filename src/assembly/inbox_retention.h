// Whether inboxes remember for long enough.
#pragma once

#include <vector>

#include "config/config.h"
#include "core/operations.h"

namespace dovetail::assembly {

// What a broker that consumers read can deliver again after their inboxes have forgotten it.
std::vector<Finding> examine_retention(const config::StoreConfig& broker,
                                       const config::Config& config);

}  // namespace dovetail::assembly
