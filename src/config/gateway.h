// The part of the configuration file that is about the gateway.
#pragma once

#include "config/config.h"
#include "config/keys/section.h"

namespace dovetail::config {

// Reads [gateway]. After the stores.
void read_gateway(Section& section, Config& config);

}  // namespace dovetail::config
