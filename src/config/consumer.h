// The part of the configuration file that is about consumers and their handlers.
#pragma once

#include "config/config.h"
#include "config/keys/section.h"

namespace dovetail::config {

// Reads every [[consumer]] with its [[consumer.handler]]. After the stores and the relays.
void read_consumers(Section& root, Config& config);

// As the file has it: "sql".
std::string_view to_string(HandlerConfig::Kind kind);

}  // namespace dovetail::config
