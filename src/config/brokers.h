// The part of the configuration file that is about brokers.
#pragma once

#include <filesystem>
#include <string_view>

#include "config/config.h"
#include "config/keys/section.h"

namespace dovetail::config {

// Why a key that is about TLS does not fit a url.
inline constexpr std::string_view kWithoutTls =
    "the url is without it (with it: kafka+tls://, amqps://, nats+tls://, rediss://, https://)";

// Whether its scheme is that of a broker.
bool is_broker_url(std::string_view url);

// Reads [store.NAME] of a broker. `file`: the configuration file.
void read_broker(Section& section, StoreConfig& store, const std::filesystem::path& file);

// What a relay may do with a broker at either end, and what its settings are where none are
// written. Before this relay is added to `config`.
void read_broker_relay(Section& section, RelayConfig& relay, Config& config);

// The same for the end that is read, where that is a broker.
void read_broker_source(Section& section, RelayConfig& relay, Config& config);

}  // namespace dovetail::config
