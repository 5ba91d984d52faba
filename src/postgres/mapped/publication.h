// The publication through which the inserts of a mapped table are streamed.
#pragma once

#include <string>
#include <string_view>

#include "postgres/connection/connection.h"
#include "postgres/mapped/catalog.h"
#include "postgres/mapped/table.h"

namespace dovetail::postgres {

// That of the mapping, or "dovetail_NAME_1a2b3c4d", the same for a relay at every start.
std::string publication_of(std::string_view relay, const TableMapping& mapping);

// Makes the publication of the relay unless it is there; one that the mapping names must be there.
// Then checks that it has every insert into the table. rejected: this role may not make it, or it
// leaves something out; the text has the statement that the owner of the table is to run.
Status ensure_publication(Connection& connection, std::string_view relay, const CatalogTable& table,
                          const TableMapping& mapping);
// Without making it.
Status check_publication(Connection& connection, std::string_view relay, const CatalogTable& table,
                         const TableMapping& mapping);

}  // namespace dovetail::postgres
