// The part of the configuration file that is about relays. Consumers are relays too, and share most
// of it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "config/config.h"
#include "config/keys/section.h"
#include "config/stores.h"

namespace dovetail::config {

// Reads every [[relay]]. After the stores.
void read_relays(Section& root, Config& config);

// What relays and consumers share: how the outbox of a PostgreSQL store is read ...
void declare_log_options(RelayConfig& relay, const FindStore& from, Settings& keys);
// ... and attempts, times, batches and windows.
void declare_relay_options(RelayConfig& relay, Settings& keys);
// What is wrong with several of them together.
void check_relay_options(Section& section, const RelayOptions& options);
// Wrong, where the log cannot be read as it says; `lanes_key` is what the lanes are called here.
void check_log_options(Section& section, const RelayConfig& relay, std::string_view lanes_key,
                       const Config& config);
// Wrong, when a relay or a consumer of that name was read before.
void check_reader_name(Section& section, const std::string& name, const Config& config);

// "table": what is read instead of the outbox.
std::optional<TableConfig> read_mapped_table(Section& section);
void add_mapped_table(std::optional<TableConfig> table, const RelayConfig& relay, Config& config);

}  // namespace dovetail::config
