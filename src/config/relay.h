// The part of the configuration file that is about relays. Consumers are relays too, and share most
// of it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "config/config.h"
#include "config/section.h"

namespace dovetail::config {

bool is_plain_name(std::string_view name);
inline constexpr std::string_view kNameForm = "a name is made of letters, digits, '-', '_' and '.'";

// Reads every [[relay]]. After the stores.
void read_relays(Section& root, Config& config);

// What every relay can be told about attempts, times, batches and windows.
void read_relay_options(Section& section, RelayConfig& relay);
// How the outbox of a PostgreSQL store is read: "mode", and what goes with the log only.
void read_log_options(Section& section, RelayConfig& relay);
// Wrong, where that cannot be; `lanes_key` is what the lanes are called here.
void check_log_options(Section& section, const RelayConfig& relay, std::string_view lanes_key,
                       const Config& config);
// Wrong, unless there is a store of that name.
void check_store_name(Section& section, std::string_view key, const std::string& name,
                      const Config& config);
// Wrong, when a relay or a consumer of that name was read before.
void check_reader_name(Section& section, const std::string& name, const Config& config);

// "table": what is read instead of the outbox.
std::optional<TableConfig> read_mapped_table(Section& section);
// Wrong, where the store that is read has no such tables.
void check_table(Section& section, const RelayConfig& relay, const Config& config);
void add_mapped_table(std::optional<TableConfig> table, const RelayConfig& relay, Config& config);

}  // namespace dovetail::config
