// Creates, checks and upgrades the tables.
#include "postgres/schema/schema.h"

#include <libpq-fe.h>

#include <algorithm>
#include <array>
#include <string>

#include "postgres/connection/call.h"
#include "postgres_roles_v1.h"
#include "postgres_schema_objects.h"
#include "postgres_schema_v1.h"
#include "postgres_schema_v10.h"
#include "postgres_schema_v11.h"
#include "postgres_schema_v12.h"
#include "postgres_schema_v13.h"
#include "postgres_schema_v14.h"
#include "postgres_schema_v2.h"
#include "postgres_schema_v3.h"
#include "postgres_schema_v4.h"
#include "postgres_schema_v5.h"
#include "postgres_schema_v6.h"
#include "postgres_schema_v7.h"
#include "postgres_schema_v8.h"
#include "postgres_schema_v9.h"

namespace dovetail::postgres {

namespace {

constexpr std::array<Migration, 14> kMigrations = {{{1, kPostgresSchemaV1},
                                                    {2, kPostgresSchemaV2},
                                                    {3, kPostgresSchemaV3},
                                                    {4, kPostgresSchemaV4},
                                                    {5, kPostgresSchemaV5},
                                                    {6, kPostgresSchemaV6},
                                                    {7, kPostgresSchemaV7},
                                                    {8, kPostgresSchemaV8},
                                                    {9, kPostgresSchemaV9},
                                                    {10, kPostgresSchemaV10},
                                                    {11, kPostgresSchemaV11},
                                                    {12, kPostgresSchemaV12},
                                                    {13, kPostgresSchemaV13},
                                                    {14, kPostgresSchemaV14}}};

struct Stored {
  std::int64_t version = 0;  // 0: there are no dovetail tables
  std::int64_t compatible_from = 0;
};

Result<Stored> stored_version(pg_conn* connection) {
  // Reads the catalogue directly: a name lookup may remember that the table was missing, even if it
  // was created while we waited.
  const Result<Rows> exists =
      run(connection,
          "SELECT EXISTS (SELECT FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n "
          "ON n.oid = c.relnamespace WHERE n.nspname = 'dovetail' AND c.relname = "
          "'schema_version')");
  if (!exists) return fail(exists.error());
  if (!exists->boolean(0, 0)) return Stored{};
  const Result<Rows> row =
      run(connection, "SELECT version, compatible_from FROM dovetail.schema_version");
  if (!row) return fail(row.error());
  if (row->empty() || row->int4(0, 0) < 1)
    return fail(Errc::corrupt,
                "the table dovetail.schema_version holds no version; restore it from a backup");
  return Stored{row->int4(0, 0), row->int4(0, 1)};
}

// A newer schema is fine if it says that it is compatible.
Status check_not_too_new(const Stored& stored, std::int64_t known) {
  if (stored.version <= known || stored.compatible_from <= known) return {};
  return fail(Errc::corrupt, "the database has version " + std::to_string(stored.version) +
                                 " of dovetail's tables, which is for programs that know version " +
                                 std::to_string(stored.compatible_from) +
                                 " at least; this one knows " + std::to_string(known) +
                                 "; upgrade dovetail");
}

// Locks of the application's own statements can hold a migration up, and large tables take a while.
constexpr Duration kSchemaMax = std::chrono::minutes(10);

Status execute(pg_conn* connection, std::string_view sql, std::string_view what) {
  const Status done = run_script(connection, sql, std::max(time_limit(), kSchemaMax),
                                 "; check that this user owns the database or was granted CREATE "
                                 "on it, owns the schema \"dovetail\" if there is one, and for "
                                 "--roles has CREATEROLE");
  if (done) return {};
  return fail(done.error().code, std::string(what) + ": " + done.error().text);
}

// Calls `work` in the open transaction, or in its own.
template <class Work>
Status in_transaction(pg_conn* connection, std::string_view what, Work work) {
  if (PQtransactionStatus(connection) == PQTRANS_INTRANS) return work();
  DOVETAIL_TRY(execute(connection, "BEGIN", what));
  Status done = work();
  if (!done) {
    (void)execute(connection, "ROLLBACK", what);
    return done;
  }
  return execute(connection, "COMMIT", what);
}

// Gives this database's roles their rights on new objects.
Status refresh_roles(pg_conn* connection) {
  const Result<Rows> used =
      run(connection, "SELECT EXISTS (SELECT FROM dovetail.schema_made WHERE kind = 'right')");
  if (!used) return fail(used.error());
  if (!used->boolean(0, 0)) return {};
  return execute(connection, kPostgresRolesV1, "granting rights to dovetail's roles");
}

Status migrate(pg_conn* connection, std::span<const Migration> migrations) {
  constexpr std::string_view kWhat = "creating dovetail's tables";
  // A second process waits here and then finds the work done.
  DOVETAIL_TRY(execute(
      connection, "SELECT pg_advisory_xact_lock(hashtextextended('dovetail.schema', 0))", kWhat));
  const Result<Stored> stored = stored_version(connection);
  if (!stored) return fail(stored.error());
  if (stored->version >= migrations.back().to_version) return {};
  // Publishers queue behind a waiting lock, so the wait is short.
  if (stored->version > 0)
    DOVETAIL_TRY(execute(connection, "SET LOCAL lock_timeout = '2s'", kWhat));
  for (const Migration& migration : migrations)
    if (stored->version < migration.to_version)
      DOVETAIL_TRY(execute(connection, migration.sql, kWhat));
  if (stored->version > 0) DOVETAIL_TRY(refresh_roles(connection));
  return execute(connection, kPostgresSchemaObjects, kWhat);
}

}  // namespace

std::span<const Migration> migrations() { return kMigrations; }

std::string schema_sql() {
  std::string sql;
  for (const Migration& migration : kMigrations) sql += migration.sql;
  return sql + "\n" + std::string(kPostgresSchemaObjects);
}

std::string roles_sql() { return std::string(kPostgresRolesV1); }

Status create_schema(pg_conn* connection, std::span<const Migration> migrations) {
  DOVETAIL_TRY(check_server_version(connection));
  const std::int64_t known = migrations.back().to_version;
  const Result<Stored> stored = stored_version(connection);
  if (!stored) return fail(stored.error());
  DOVETAIL_TRY(check_not_too_new(*stored, known));
  if (stored->version >= known) return {};
  return in_transaction(connection, "creating dovetail's tables",
                        [&] { return migrate(connection, migrations); });
}

Status create_schema(pg_conn* connection) { return create_schema(connection, kMigrations); }

Status create_roles(pg_conn* connection) {
  constexpr std::string_view kWhat = "creating dovetail's roles";
  return in_transaction(connection, kWhat,
                        [&] { return execute(connection, kPostgresRolesV1, kWhat); });
}

Status create_schema(Connection& connection) { return create_schema(connection.get()); }
Status create_roles(Connection& connection) { return create_roles(connection.get()); }

Result<bool> has_tables(Connection& connection) {
  if (!connection) return fail(Errc::unavailable, "the connection is closed; open it again");
  const Result<Stored> stored = stored_version(connection.get());
  if (!stored) return fail(stored.error());
  return stored->version != 0;
}

Result<std::int64_t> check_schema(Connection& connection, std::int64_t known) {
  if (!connection) return fail(Errc::unavailable, "the connection is closed; open it again");
  const Result<Stored> stored = stored_version(connection.get());
  if (!stored) return fail(stored.error());
  DOVETAIL_TRY(check_not_too_new(*stored, known));
  if (stored->version >= known) return stored->version;
  return fail(Errc::rejected,
              stored->version == 0
                  ? "there are no tables of dovetail in this database; run `dovetail init` or call "
                    "create_schema()"
                  : "the tables of dovetail in this database are of version " +
                        std::to_string(stored->version) + ", and this program needs " +
                        std::to_string(known) + "; run `dovetail init`");
}

}  // namespace dovetail::postgres
