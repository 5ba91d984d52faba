// Creates, upgrades and checks dovetail's tables.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "dovetail/postgres.h"
#include "postgres/connection/connection.h"

namespace dovetail::postgres {

constexpr std::int64_t kSchemaVersion = 14;

// Upgrades the schema to its version and records that in dovetail.schema_version. If it only adds,
// `compatible_from` stays, and older programs still work. If it removes something, it raises
// `compatible_from`, and comes a version after the last user of that.
struct Migration {
  std::int64_t to_version;
  std::string_view sql;
};
std::span<const Migration> migrations();

Status create_schema(Connection& connection);
// The same with other migrations; the last one makes the version of this program.
Status create_schema(pg_conn* connection, std::span<const Migration> migrations);
Status create_roles(Connection& connection);

// Whether any version of dovetail's tables exists.
Result<bool> has_tables(Connection& connection);

// Returns the version in the database. rejected: there is no schema, or it is too old. corrupt: it
// is too new for programs of `known` version.
Result<std::int64_t> check_schema(Connection& connection, std::int64_t known = kSchemaVersion);

}  // namespace dovetail::postgres
