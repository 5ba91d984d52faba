// From the words of the config file to the mapping of a table that exists already.
#pragma once

#include "config/config.h"
#include "dovetail/result.h"
#include "postgres/mapped/table.h"

namespace dovetail::assembly {

// Errors begin with the place in the config file.
Result<postgres::TableMapping> mapping_of(const config::TableConfig& table);

// Those of all relays that serve a table of this store. rejected: one of them is wrong, or two
// would take the same rows.
Result<postgres::MappedRelays> mapped_relays(const config::StoreConfig& store);

}  // namespace dovetail::assembly
