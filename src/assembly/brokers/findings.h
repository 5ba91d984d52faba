// What doctor can say about a broker from the configuration alone.
#pragma once

#include <cstddef>
#include <vector>

#include "config/config.h"
#include "core/operations.h"

namespace dovetail::assembly {

// The largest payload that outboxes accept whose relays fill this broker; 0: no relay does.
std::size_t payload_bytes_max_for(const config::StoreConfig& broker, const config::Config& config);

// Passwords sent in plain text, and limits that contradict each other. Does not connect.
std::vector<Finding> examine_config(const config::StoreConfig& broker,
                                    const config::Config& config);

}  // namespace dovetail::assembly
