// The gateway part of the configuration file.
#pragma once

#include "config/config.h"
#include "config/keys/section.h"

namespace dovetail::config {

// Reads [gateway]. Call it after the stores.
void read_gateway(Section& section, Config& config);

}  // namespace dovetail::config
