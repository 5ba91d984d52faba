// The tables of dovetail, from the side of those who work on them.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "dovetail/postgres.h"
#include "postgres/connection/connection.h"

namespace dovetail::postgres {

constexpr std::int64_t kSchemaVersion = 10;

// Brings the schema from the version before it to its own, and says so in dovetail.schema_version.
// One that only adds leaves `compatible_from` as it is, so that older programs go on beside it. One
// that takes something away raises it, and comes a version after the one that stopped needing it.
struct Migration {
  std::int64_t to_version;
  std::string_view sql;
};
std::span<const Migration> migrations();

Status create_schema(Connection& connection);
// The same with other migrations, the last of which makes what this program was made for.
Status create_schema(pg_conn* connection, std::span<const Migration> migrations);
Status create_roles(Connection& connection);

// Whether there are tables of dovetail at all, of whatever version.
Result<bool> has_tables(Connection& connection);

// rejected: there is no schema, or it is older than this program needs. corrupt: it is newer, and
// no longer for programs of `known` version. Returns the version that is there.
Result<std::int64_t> check_schema(Connection& connection, std::int64_t known = kSchemaVersion);

}  // namespace dovetail::postgres
