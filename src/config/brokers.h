// The broker part of the configuration file.
#pragma once

#include <filesystem>
#include <string_view>

#include "config/config.h"
#include "config/keys/section.h"

namespace dovetail::config {

// The error of a TLS key in a store whose url has no TLS.
inline constexpr std::string_view kWithoutTls =
    "the url is without it (with it: kafka+tls://, amqps://, nats+tls://, rediss://, https://)";

// Whether the scheme belongs to a broker.
bool is_broker_url(std::string_view url);

// Reads [store.NAME] of a broker. `file`: the path of the configuration file.
void read_broker(Section& section, StoreConfig& store, const std::filesystem::path& file);

// Checks a relay with a broker at either end and sets its defaults. Call it before the relay is
// added to `config`.
void read_broker_relay(Section& section, RelayConfig& relay, Config& config);

// The same for the source, if it is a broker.
void read_broker_source(Section& section, RelayConfig& relay, Config& config);

}  // namespace dovetail::config
