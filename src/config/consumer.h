// The consumer part of the configuration file, with handlers.
#pragma once

#include "config/config.h"
#include "config/keys/section.h"

namespace dovetail::config {

// Reads every [[consumer]] and its [[consumer.handler]]. Call it after stores and relays.
void read_consumers(Section& root, Config& config);

// As in the file: "sql".
std::string_view to_string(HandlerConfig::Kind kind);

}  // namespace dovetail::config
