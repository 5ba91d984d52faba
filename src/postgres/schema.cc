// Makes, checks and updates the tables.
#include "postgres/schema.h"

#include <libpq-fe.h>

#include <array>
#include <string>

#include "postgres_roles_v1.h"
#include "postgres_schema_v1.h"

namespace dovetail::postgres {

namespace {

struct Migration {
  std::int64_t to_version;
  std::string_view sql;
};
// Each brings the schema from the version before it to its own. An older relay must be able to go
// on beside a newer schema of the same number.
constexpr std::array<Migration, 1> kMigrations = {{{1, kPostgresSchemaV1}}};

// 0: there are no tables of dovetail.
Result<std::int64_t> schema_version(pg_conn* connection) {
  // A look at the catalog itself: name lookups may remember that there was nothing, also while we
  // waited for somebody who was making it.
  const Result<Rows> exists =
      run(connection,
          "SELECT EXISTS (SELECT FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n "
          "ON n.oid = c.relnamespace WHERE n.nspname = 'dovetail' AND c.relname = "
          "'schema_version')");
  if (!exists) return fail(exists.error());
  if (!exists->boolean(0, 0)) return 0;
  const Result<Rows> version = run(connection, "SELECT version FROM dovetail.schema_version");
  if (!version) return fail(version.error());
  if (version->empty())
    return fail(Errc::corrupt,
                "the table dovetail.schema_version is empty; restore it from a backup");
  return version->int4(0, 0);
}

Error newer(std::int64_t version) {
  return Error{Errc::corrupt, "the database has version " + std::to_string(version) +
                                  " of dovetail's tables, this program knows version " +
                                  std::to_string(kSchemaVersion) + " at most; upgrade dovetail"};
}

Status execute(pg_conn* connection, std::string_view sql, std::string_view what) {
  pg_result* const result = PQexec(connection, std::string(sql).c_str());
  const Rows owner(result);
  const ExecStatusType status = PQresultStatus(result);
  if (status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK) return {};
  Error error = server_error(connection, result, /*during_commit=*/false,
                             "; check that this user owns the database or was granted CREATE on "
                             "it, owns the schema \"dovetail\" if there is one, and for --roles "
                             "has CREATEROLE");
  return fail(error.code, std::string(what) + ": " + error.text);
}

// Runs `sql` in the open transaction, or in one of its own.
Status in_transaction(pg_conn* connection, std::string_view sql, std::string_view what) {
  const bool is_open = PQtransactionStatus(connection) == PQTRANS_INTRANS;
  if (is_open) return execute(connection, sql, what);
  DOVETAIL_TRY(execute(connection, "BEGIN", what));
  Status done = execute(connection, sql, what);
  if (!done) {
    (void)execute(connection, "ROLLBACK", what);
    return done;
  }
  return execute(connection, "COMMIT", what);
}

Status migrate(pg_conn* connection) {
  constexpr std::string_view kWhat = "creating dovetail's tables";
  // Whoever comes second waits here, and then finds the work done.
  DOVETAIL_TRY(execute(
      connection, "SELECT pg_advisory_xact_lock(hashtextextended('dovetail.schema', 0))", kWhat));
  const Result<std::int64_t> version = schema_version(connection);
  if (!version) return fail(version.error());
  if (*version > kSchemaVersion) return fail(newer(*version));
  for (const Migration& migration : kMigrations)
    if (*version < migration.to_version) DOVETAIL_TRY(execute(connection, migration.sql, kWhat));
  return {};
}

}  // namespace

std::string schema_sql() {
  std::string sql;
  for (const Migration& migration : kMigrations) sql += migration.sql;
  return sql;
}

std::string roles_sql() { return std::string(kPostgresRolesV1); }

Status create_schema(pg_conn* connection) {
  DOVETAIL_TRY(check_server_version(connection));
  const Result<std::int64_t> version = schema_version(connection);
  if (!version) return fail(version.error());
  if (*version > kSchemaVersion) return fail(newer(*version));
  if (*version == kSchemaVersion) return {};
  if (PQtransactionStatus(connection) == PQTRANS_INTRANS) return migrate(connection);
  DOVETAIL_TRY(execute(connection, "BEGIN", "creating dovetail's tables"));
  Status done = migrate(connection);
  if (!done) {
    (void)execute(connection, "ROLLBACK", "creating dovetail's tables");
    return done;
  }
  return execute(connection, "COMMIT", "creating dovetail's tables");
}

Status create_roles(pg_conn* connection) {
  return in_transaction(connection, kPostgresRolesV1, "creating dovetail's roles");
}

Status create_schema(Connection& connection) { return create_schema(connection.get()); }
Status create_roles(Connection& connection) { return create_roles(connection.get()); }

Status check_schema(Connection& connection) {
  if (!connection) return fail(Errc::unavailable, "the connection is closed; open it again");
  const Result<std::int64_t> version = schema_version(connection.get());
  if (!version) return fail(version.error());
  if (*version > kSchemaVersion) return fail(newer(*version));
  if (*version < kSchemaVersion)
    return fail(Errc::rejected,
                *version == 0 ? "there are no tables of dovetail in this database; run `dovetail "
                                "init` or call create_schema()"
                              : "the tables of dovetail in this database are of an older version; "
                                "run `dovetail init`");
  return {};
}

}  // namespace dovetail::postgres
