// The tables of dovetail, from the side of those who work on them.
#pragma once

#include <cstdint>

#include "dovetail/postgres.h"
#include "postgres/connection.h"

namespace dovetail::postgres {

constexpr std::int64_t kSchemaVersion = 1;

Status create_schema(Connection& connection);
Status create_roles(Connection& connection);

// rejected: there is no schema, or it is older than this program needs; corrupt: it is newer.
Status check_schema(Connection& connection);

}  // namespace dovetail::postgres
