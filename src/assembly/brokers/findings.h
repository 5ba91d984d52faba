// What the doctor can say about a broker by the config alone.
#pragma once

#include <cstddef>
#include <vector>

#include "config/config.h"
#include "core/operations.h"

namespace dovetail::assembly {

// The largest payload that the outboxes accept whose relays fill this broker; 0: none does.
std::size_t payload_bytes_max_for(const config::StoreConfig& broker, const config::Config& config);

// A password that travels readable, and limits that do not fit together. Asks nobody.
std::vector<Finding> examine_config(const config::StoreConfig& broker,
                                    const config::Config& config);

}  // namespace dovetail::assembly
