// Where the events of a relay go, in words that stay the same as long as the place does.
#pragma once

#include <string>

#include "config/config.h"

namespace dovetail::assembly {

// The other end than the one that keeps the relay's progress: the store that it fills, or the
// broker that it reads. Which host, port, database, virtual host, exchange or path; not how it is
// reached (user, TLS, timeouts) and nothing secret. Stores keep it with the progress and refuse
// another one, because two processes of one name would share the events between two places.
std::string target_of(const config::Config& config, const config::RelayConfig& relay);

}  // namespace dovetail::assembly
