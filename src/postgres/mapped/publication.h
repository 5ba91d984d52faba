// The publication that streams the inserts of a mapped table.
#pragma once

#include <string>
#include <string_view>

#include "postgres/connection/connection.h"
#include "postgres/mapped/catalog.h"
#include "postgres/mapped/table.h"

namespace dovetail::postgres {

// The mapping's, or "dovetail_NAME_1a2b3c4d", which is the same at every start of a relay.
std::string publication_of(std::string_view relay, const TableMapping& mapping);

// Creates the relay's publication if it is missing; one that the mapping names must exist. Then
// checks that it includes every insert into the table. rejected: this role may not create it, or it
// leaves something out; the text has the statement for the owner of the table.
Status ensure_publication(Connection& connection, std::string_view relay, const CatalogTable& table,
                          const TableMapping& mapping);
// The check alone.
Status check_publication(Connection& connection, std::string_view relay, const CatalogTable& table,
                         const TableMapping& mapping);

}  // namespace dovetail::postgres
