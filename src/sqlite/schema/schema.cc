// Creates, checks and upgrades the tables, and sets up connections.
#include <sqlite3.h>

#include <iterator>
#include <string>

#include "dovetail/sqlite.h"
#include "sqlite/connection/database.h"
#include "sqlite_schema_v1.h"
#include "sqlite_schema_v10.h"
#include "sqlite_schema_v2.h"
#include "sqlite_schema_v3.h"
#include "sqlite_schema_v4.h"
#include "sqlite_schema_v5.h"
#include "sqlite_schema_v6.h"
#include "sqlite_schema_v7.h"
#include "sqlite_schema_v8.h"
#include "sqlite_schema_v9.h"

namespace dovetail::sqlite {

namespace {

// 0: there are no dovetail tables.
Result<std::int64_t> schema_version(sqlite3* connection) {
  Result<Statement> exists = Statement::prepare(
      connection,
      "SELECT count(*) FROM sqlite_schema WHERE type='table' AND name='dovetail_schema'");
  if (!exists) return fail(exists.error());
  const Result<bool> row = exists->step();
  if (!row) return fail(row.error());
  if (exists->integer(0) == 0) return 0;
  Result<Statement> select = Statement::prepare(connection, "SELECT version FROM dovetail_schema");
  if (!select) return fail(select.error());
  const Result<bool> version = select->step();
  if (!version) return fail(version.error());
  if (!*version)
    return fail(Errc::corrupt, "the table dovetail_schema is empty; restore it from a backup");
  return select->integer(0);
}

Error newer(std::int64_t version) {
  return Error{Errc::corrupt, "the file has version " + std::to_string(version) +
                                  " of dovetail's tables, this program supports up to version " +
                                  std::to_string(kSchemaVersion) + "; upgrade dovetail"};
}

// The step from each version to the next.
constexpr std::string_view kSteps[] = {
    kSqliteSchemaV1, kSqliteSchemaV2, kSqliteSchemaV3, kSqliteSchemaV4, kSqliteSchemaV5,
    kSqliteSchemaV6, kSqliteSchemaV7, kSqliteSchemaV8, kSqliteSchemaV9, kSqliteSchemaV10};
static_assert(std::size(kSteps) == kSchemaVersion);

Status create_tables(sqlite3* connection) {
  const Result<std::int64_t> version = schema_version(connection);
  if (!version) return fail(version.error());
  if (*version > kSchemaVersion) return fail(newer(*version));
  if (*version == kSchemaVersion) return {};
  for (auto from = static_cast<std::size_t>(*version); from < std::size(kSteps); ++from) {
    const int code =
        sqlite3_exec(connection, std::string(kSteps[from]).c_str(), nullptr, nullptr, nullptr);
    if (code != SQLITE_OK) return fail(error_of(connection, code, "creating dovetail's tables"));
  }
  return {};
}

// Returns the file's mode afterwards.
Result<std::string> switch_to_wal(sqlite3* connection) {
  Result<Statement> mode = Statement::prepare(connection, "PRAGMA journal_mode=WAL");
  if (!mode) return fail(mode.error());
  const Result<bool> row = mode->step();
  if (!row) return fail(row.error());
  return *row ? std::string(mode->bytes(0)) : std::string();
}

}  // namespace

Status prepare_connection(sqlite3* connection) {
  sqlite3_busy_timeout(connection, 5000);
  Result<std::string> mode = switch_to_wal(connection);
  // While several processes switch a new file at once, SQLite returns "busy" without waiting.
  for (int tries = 0; !mode && mode.error().code == Errc::unavailable && tries < 100; ++tries) {
    sqlite3_sleep(10);
    mode = switch_to_wal(connection);
  }
  if (!mode) return fail(mode.error());
  // A database in memory has no journal file and needs none.
  if (*mode != "wal" && *mode != "memory")
    return fail(Errc::rejected, "the journal mode stays \"" + *mode +
                                    "\" instead of WAL; check that no transaction is open and that "
                                    "the file is on a local file system");
  const int code = sqlite3_exec(
      connection, "PRAGMA wal_autocheckpoint=0; PRAGMA synchronous=FULL; PRAGMA mmap_size=0",
      nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) return fail(error_of(connection, code, "setting up the connection"));
  return {};
}

Status create_schema(sqlite3* connection) {
  // An up-to-date file needs no write lock, so every start of a service may call this.
  const Result<std::int64_t> version = schema_version(connection);
  if (!version) return fail(version.error());
  if (*version > kSchemaVersion) return fail(newer(*version));
  if (*version == kSchemaVersion) return {};
  if (in_transaction(connection)) return create_tables(connection);
  Result<Transaction> transaction = Transaction::begin(connection, "creating dovetail's tables");
  if (!transaction) return fail(transaction.error());
  DOVETAIL_TRY(create_tables(connection));
  return transaction->commit("creating dovetail's tables");
}

Result<Database> open_store(const std::string& path, const OpenOptions& options) {
  Result<Database> database = Database::open(path, options);
  if (!database) return database;
  DOVETAIL_TRY(check_schema(database->get()));
  return database;
}

Status ensure_store(const std::string& path) {
  OpenOptions options;
  options.create = true;
  Result<Database> database = Database::open(path, options);
  if (!database) return fail(database.error());
  Result<Statement> pages = database->prepare("PRAGMA page_count");
  if (!pages) return fail(pages.error());
  const Result<bool> row = pages->step();
  if (!row) return fail(row.error());
  const bool is_new = pages->integer(0) == 0;
  pages->reset();
  // The owner chose the mode of an existing file.
  if (is_new) DOVETAIL_TRY(prepare_connection(database->get()));
  return create_schema(database->get());
}

Status check_schema(sqlite3* connection) {
  const Result<std::int64_t> version = schema_version(connection);
  if (!version) return fail(version.error());
  if (*version > kSchemaVersion) return fail(newer(*version));
  if (*version < kSchemaVersion) {
    const char* name = sqlite3_db_filename(connection, "main");
    const std::string file = name == nullptr ? "" : name;
    if (*version > 0)
      return fail(Errc::unavailable, file + ": the file has version " + std::to_string(*version) +
                                         " of dovetail's tables, this program needs version " +
                                         std::to_string(kSchemaVersion) +
                                         "; run `dovetail init` or call create_schema()");
    return fail(Errc::unavailable, file +
                                       ": the file has no tables of dovetail; run "
                                       "`dovetail init` or call create_schema()");
  }
  return {};
}

}  // namespace dovetail::sqlite
