// The lasting name of the place where a relay's events go.
#pragma once

#include <string>

#include "config/config.h"

namespace dovetail::assembly {

// The other end of the relay, seen from the store with its progress: the store that it fills, or
// the broker that it reads. It has host, port, database, virtual host, exchange or path, but not
// how to connect (user, TLS, timeouts), and no secret. Stores keep it with the progress and refuse
// another one, because two processes of one name would split the events over two places.
std::string target_of(const config::Config& config, const config::RelayConfig& relay);

}  // namespace dovetail::assembly
