// The relay part of the configuration file. Consumers are relays, too, and share most of
// it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"
#include "config/keys/section.h"
#include "config/stores.h"

namespace dovetail::config {

// Reads every [[relay]]. Call it after the stores.
void read_relays(Section& root, Config& config);

// Keys of relays and consumers: how to read the outbox of a PostgreSQL store ...
void declare_wal_options(RelayConfig& relay, const FindStore& from, Settings& keys);
// ... where the first start begins ...
void declare_start(RelayConfig& relay, const FindStore& from, Settings& keys);
// ... and attempts, times, batches and windows.
void declare_relay_options(RelayConfig& relay, Settings& keys);
// Checks settings that must fit together.
void check_relay_options(Section& section, const RelayOptions& options);
// Error if the WAL cannot be read as configured; `lanes_key`: the name of the lanes key here.
void check_log_options(Section& section, const RelayConfig& relay, std::string_view lanes_key,
                       const Config& config);
// Error if a relay of a mapped table has keys that choose events: its own columns do that.
void check_start_and_filter(Section& section, bool is_mapped);
// What is wrong with patterns of types or topics; empty: nothing.
std::string check_patterns(const std::vector<std::string>& patterns);
// Error if a relay or consumer of that name exists already.
void check_reader_name(Section& section, const std::string& name, const Config& config);

// "table": the mapped table.
std::optional<TableConfig> read_mapped_table(Section& section);
void add_mapped_table(std::optional<TableConfig> table, const RelayConfig& relay, Config& config);

}  // namespace dovetail::config
