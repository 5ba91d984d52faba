// Makes events of the inserts of a mapped table that a stream of the log brings: the same events
// that reading the table itself would make.
#pragma once

#include <cstdint>
#include <memory>

#include "postgres/mapped/catalog.h"
#include "postgres/mapped/table.h"
#include "postgres/stream/rows.h"

namespace dovetail::postgres {

// Rows of other tables, which a foreign publication may have, are left alone; so are messages.
// Events are numbered on from `last_position`, which must outlive it: numbers grow in the order of
// reading, from session to session.
std::unique_ptr<WalRows> mapped_rows(const CatalogTable& table, const TableMapping& mapping,
                                     std::int64_t& last_position);

// Whether the rows of this mapping can be read in binary form. Of most types only the server knows
// the text that a header or a key is made of, and must send that.
bool can_be_binary(const CatalogTable& table, const TableMapping& mapping);

}  // namespace dovetail::postgres
