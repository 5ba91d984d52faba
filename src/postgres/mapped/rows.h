// Makes events from inserts of a mapped table in the WAL stream: the same events that reading the
// table would make.
#pragma once

#include <cstdint>
#include <memory>

#include "postgres/mapped/catalog.h"
#include "postgres/mapped/table.h"
#include "postgres/stream/rows.h"

namespace dovetail::postgres {

// Ignores messages, and rows of other tables, which a publication of another program may have.
// Events are numbered from `last_position` on, which must outlive it: numbers grow in reading order
// over all sessions.
std::unique_ptr<WalRows> mapped_rows(const CatalogTable& table, const TableMapping& mapping,
                                     std::int64_t& last_position);

// Whether the mapping's rows can be read in binary form. For most types only the server knows the
// text for a header or key, and must send text.
bool can_be_binary(const CatalogTable& table, const TableMapping& mapping);

}  // namespace dovetail::postgres
