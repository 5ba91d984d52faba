// The part of the configuration file that is about the HTTP listener of the daemon, and addresses
// to listen at.
#pragma once

#include <string>

#include "config/config.h"
#include "config/keys/section.h"

namespace dovetail::config {

// Takes "ADDRESS:PORT"; says what is wrong with it, or nothing.
std::string take_listen(const std::string& listen, http::EndpointOptions& endpoint);

// Reads [http].
void read_http(Section& section, Config& config);

}  // namespace dovetail::config
