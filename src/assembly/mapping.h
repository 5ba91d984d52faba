// Turns the configuration of a mapped table into a TableMapping.
#pragma once

#include "config/config.h"
#include "dovetail/result.h"
#include "postgres/mapped/table.h"

namespace dovetail::assembly {

// Errors begin with the place in the config file.
Result<postgres::TableMapping> mapping_of(const config::TableConfig& table);

// The mappings of all relays that serve a table of this store. rejected: one is wrong, or two would
// read the same rows.
Result<postgres::MappedRelays> mapped_relays(const config::StoreConfig& store);

}  // namespace dovetail::assembly
