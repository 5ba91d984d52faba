#include "sqlite/connection/database.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cstring>

#include "core/check.h"

namespace dovetail::sqlite {

void close_connection(sqlite3* connection) { sqlite3_close_v2(connection); }
void finalize_statement(sqlite3_stmt* statement) { sqlite3_finalize(statement); }

namespace {

std::string where(sqlite3* connection) {
  const char* file = connection == nullptr ? nullptr : sqlite3_db_filename(connection, "main");
  return file == nullptr || *file == '\0' ? std::string("the database") : std::string(file);
}

struct Meaning {
  Errc code;
  const char* text;
};

Meaning meaning_of(int code) {
  switch (code & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return {Errc::unavailable,
              "another connection locks the database; check for a long open transaction"};
    case SQLITE_FULL:
      return {Errc::unavailable, "the disk is full; free some space or prune the file"};
    case SQLITE_CANTOPEN:
      return {Errc::unavailable, "cannot open the file; check its path and permissions"};
    case SQLITE_PERM:
    case SQLITE_AUTH:
      return {Errc::unavailable, "access denied; check the permissions of the file"};
    case SQLITE_READONLY:
      return {Errc::unavailable,
              "the file or its directory is read-only; check permissions and mount options"};
    case SQLITE_IOERR:
      return {Errc::unavailable, "input/output error; check the disk and the file system"};
    case SQLITE_PROTOCOL:
      return {Errc::unavailable,
              "file locking failed; check that the file is on a local file system"};
    case SQLITE_NOMEM:
      return {Errc::unavailable, "out of memory; check the limits of the process"};
    case SQLITE_INTERRUPT:
      return {Errc::unavailable, "interrupted; try again"};
    case SQLITE_SCHEMA:
      return {Errc::unavailable, "the schema changed meanwhile; try again"};
    case SQLITE_CORRUPT:
      return {Errc::corrupt,
              "the file is damaged; stop writing, run PRAGMA integrity_check, restore a backup"};
    case SQLITE_NOTADB:
      return {Errc::corrupt, "the file is not a SQLite database; check the path"};
    case SQLITE_CONSTRAINT:
      return {Errc::rejected, "a constraint of the table refused it; check the values"};
    case SQLITE_TOOBIG:
      return {Errc::rejected, "too large for SQLite; check the size of the payload"};
    default:
      return {Errc::rejected, "check the statement and that `dovetail init` was run on the file"};
  }
}

}  // namespace

Error error_of(sqlite3* connection, int code, std::string_view doing) {
  const Meaning meaning = meaning_of(code);
  std::string text = where(connection) + ": " + std::string(doing) + ": ";
  // SQLite's error text names tables, columns or rules, never bound values.
  const bool has_words =
      connection != nullptr && (sqlite3_errcode(connection) & 0xff) == (code & 0xff);
  text += has_words ? sqlite3_errmsg(connection) : sqlite3_errstr(code);
  text += "; ";
  text += meaning.text;
  return Error{meaning.code, std::move(text)};
}

Error commit_error_of(sqlite3* connection, int code, std::string_view doing) {
  Error error = error_of(connection, code, doing);
  if ((code & 0xff) == SQLITE_IOERR) error.code = Errc::in_doubt;
  return error;
}

// --- Statement

Result<Statement> Statement::prepare(sqlite3* connection, std::string_view sql) {
  sqlite3_stmt* raw = nullptr;
  const int code = sqlite3_prepare_v3(connection, sql.data(), static_cast<int>(sql.size()),
                                      SQLITE_PREPARE_PERSISTENT, &raw, nullptr);
  if (code != SQLITE_OK) return fail(error_of(connection, code, "preparing a statement"));
  Statement statement;
  statement.handle_.reset(raw);
  return statement;
}

Statement& Statement::bind(int parameter, std::int64_t value) {
  DOVETAIL_CHECK(sqlite3_bind_int64(handle_.get(), parameter, value) == SQLITE_OK);
  return *this;
}

Statement& Statement::bind_null(int parameter) {
  DOVETAIL_CHECK(sqlite3_bind_null(handle_.get(), parameter) == SQLITE_OK);
  return *this;
}

Statement& Statement::bind_text(int parameter, std::string_view text) {
  // A null pointer would bind NULL.
  const char* data = text.data() == nullptr ? "" : text.data();
  // A text beyond SQLite's limit stays unbound, and the table's NOT NULL rule refuses the row.
  sqlite3_bind_text64(handle_.get(), parameter, data, text.size(), SQLITE_STATIC, SQLITE_UTF8);
  return *this;
}

Statement& Statement::bind_blob(int parameter, std::string_view bytes) {
  const char* data = bytes.data() == nullptr ? "" : bytes.data();
  sqlite3_bind_blob64(handle_.get(), parameter, data, bytes.size(), SQLITE_STATIC);
  return *this;
}

Statement& Statement::bind_id(int parameter, const EventId& id) {
  return bind_blob(parameter, {reinterpret_cast<const char*>(id.bytes.data()), id.bytes.size()});
}

Result<bool> Statement::step() {
  const int code = sqlite3_step(handle_.get());
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) {
    sqlite3_reset(handle_.get());
    return false;
  }
  sqlite3* connection = sqlite3_db_handle(handle_.get());
  Error error = error_of(connection, sqlite3_extended_errcode(connection), "running a statement");
  sqlite3_reset(handle_.get());
  return fail(std::move(error));
}

Status Statement::run() {
  while (true) {
    const Result<bool> row = step();
    if (!row) return fail(row.error());
    if (!*row) return {};
  }
}

int Statement::parameters() const { return sqlite3_bind_parameter_count(handle_.get()); }

std::string_view Statement::parameter_name(int parameter) const {
  const char* name = sqlite3_bind_parameter_name(handle_.get(), parameter);
  return name == nullptr ? std::string_view() : name;
}

bool Statement::writes() const { return sqlite3_stmt_readonly(handle_.get()) == 0; }

int Statement::changes() const { return sqlite3_changes(sqlite3_db_handle(handle_.get())); }

void Statement::reset() { sqlite3_reset(handle_.get()); }

int Statement::columns() const { return sqlite3_column_count(handle_.get()); }

bool Statement::is_integer(int column) const {
  return sqlite3_column_type(handle_.get(), column) == SQLITE_INTEGER;
}

std::int64_t Statement::integer(int column) const {
  return sqlite3_column_int64(handle_.get(), column);
}

bool Statement::is_null(int column) const {
  return sqlite3_column_type(handle_.get(), column) == SQLITE_NULL;
}

std::string_view Statement::bytes(int column) const {
  sqlite3_stmt* statement = handle_.get();
  // Get the pointer first: that may convert the value, which changes its length.
  const void* data = sqlite3_column_type(statement, column) == SQLITE_BLOB
                         ? sqlite3_column_blob(statement, column)
                         : static_cast<const void*>(sqlite3_column_text(statement, column));
  const int size = sqlite3_column_bytes(statement, column);
  return {static_cast<const char*>(data), static_cast<std::size_t>(size)};
}

EventId Statement::id(int column) const {
  const std::string_view from = bytes(column);
  EventId result;
  if (from.size() == result.bytes.size())
    std::memcpy(result.bytes.data(), from.data(), from.size());
  return result;
}

// --- Database

namespace {

// Only the owner may read payloads, unless they decide otherwise. SQLite would make the file
// readable for all; its WAL gets the file's mode. An existing file keeps its mode.
void create_for_owner(const std::string& path) {
  if (path.empty() || path == ":memory:" || path.starts_with("file:")) return;
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file >= 0) ::close(file);  // SQLite reports the failure
}

}  // namespace

Result<Database> Database::open(const std::string& path, const OpenOptions& options) {
  Database database;
  if (options.create) create_for_owner(path);
  sqlite3* raw = nullptr;
  const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX |
                    (options.create ? SQLITE_OPEN_CREATE : 0);
  const int code = sqlite3_open_v2(path.c_str(), &raw, flags, nullptr);
  database.handle_.reset(raw);
  if (code != SQLITE_OK) {
    const Meaning meaning = meaning_of(code);
    return fail(meaning.code, path + ": " + sqlite3_errstr(code) + "; " + meaning.text);
  }
  sqlite3_extended_result_codes(raw, 1);
  sqlite3_busy_timeout(raw, options.busy_timeout_ms);
  // The first statement reads the file: now it shows whether it is a database.
  Result<Statement> mode = database.prepare("PRAGMA journal_mode");
  if (!mode) return fail(mode.error());
  const Result<bool> row = mode->step();
  if (!row) return fail(row.error());
  const bool wal = *row && mode->bytes(0) == "wal";
  mode->reset();
  const bool ordered = wal && options.durability == Durability::ordered;
  DOVETAIL_TRY(database.execute(ordered ? "PRAGMA synchronous=NORMAL" : "PRAGMA synchronous=FULL",
                                "setting up"));
  // See prepare_connection(): only Checkpointer may checkpoint.
  DOVETAIL_TRY(database.execute("PRAGMA wal_autocheckpoint=0; PRAGMA mmap_size=0", "setting up"));
  return database;
}

Status Database::execute(const char* sql, std::string_view doing) {
  const int code = sqlite3_exec(get(), sql, nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) return fail(error_of(get(), code, doing));
  return {};
}

Status Database::prepare(Statement& into, std::string_view sql) const {
  Result<Statement> statement = prepare(sql);
  if (!statement) return fail(statement.error());
  into = std::move(*statement);
  return {};
}

std::string Database::file() const {
  const char* file = sqlite3_db_filename(get(), "main");
  return file == nullptr ? std::string() : std::string(file);
}

Result<std::int64_t> Database::data_version() {
  if (!data_version_) DOVETAIL_TRY(prepare(data_version_, "PRAGMA data_version"));
  const Result<bool> row = data_version_.step();
  if (!row) return fail(row.error());
  const std::int64_t version = *row ? data_version_.integer(0) : 0;
  data_version_.reset();
  return version;
}

// --- Transaction

bool in_transaction(sqlite3* connection) { return sqlite3_get_autocommit(connection) == 0; }

Status begin_immediate(sqlite3* connection, std::string_view doing) {
  const int code = sqlite3_exec(connection, "BEGIN IMMEDIATE", nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) return fail(error_of(connection, code, doing));
  return {};
}

Status commit(sqlite3* connection, std::string_view doing) {
  const int code = sqlite3_exec(connection, "COMMIT", nullptr, nullptr, nullptr);
  if (code == SQLITE_OK) return {};
  Error error = commit_error_of(connection, code, doing);
  rollback(connection);
  return fail(std::move(error));
}

void rollback(sqlite3* connection) {
  // It fails only if SQLite has rolled back itself.
  if (connection != nullptr && in_transaction(connection))
    sqlite3_exec(connection, "ROLLBACK", nullptr, nullptr, nullptr);
}

Result<Transaction> Transaction::begin(sqlite3* connection, std::string_view doing) {
  DOVETAIL_TRY(begin_immediate(connection, doing));
  return Transaction(connection);
}

Transaction::~Transaction() { rollback(connection_); }

Status Transaction::commit(std::string_view doing) {
  return sqlite::commit(std::exchange(connection_, nullptr), doing);
}

// --- Checkpointer

namespace {

constexpr std::int64_t kWalBytesMax = 8 << 20;
// Renewals of a lease alone should not cause a checkpoint every few seconds.
constexpr std::int64_t kIdleWalBytesMax = 64 << 10;
constexpr std::int64_t kRetryAfterUs = 500'000;
constexpr int kCheckpointWaitMs = 50;

std::int64_t wal_bytes(const std::string& file) {
  struct stat wal{};
  return stat((file + "-wal").c_str(), &wal) == 0 ? static_cast<std::int64_t>(wal.st_size) : 0;
}

std::int64_t steady_us() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::int64_t>(now.tv_sec) * 1'000'000 + now.tv_nsec / 1000;
}

}  // namespace

void Checkpointer::after_commit(sqlite3* connection, const std::string& file) {
  // The size costs a system call; a few commits more or less do not matter.
  if (++commits_ % 8 != 0 || steady_us() < not_before_us_) return;
  if (wal_bytes(file) > kWalBytesMax) try_checkpoint(connection);
}

void Checkpointer::when_idle(sqlite3* connection, const std::string& file) {
  if (steady_us() >= not_before_us_ && wal_bytes(file) > kIdleWalBytesMax)
    try_checkpoint(connection);
}

void Checkpointer::try_checkpoint(sqlite3* connection) {
  sqlite3_busy_timeout(connection, kCheckpointWaitMs);
  const int code =
      sqlite3_wal_checkpoint_v2(connection, nullptr, SQLITE_CHECKPOINT_TRUNCATE, nullptr, nullptr);
  sqlite3_busy_timeout(connection, kBusyTimeoutMs);
  // If it fails, for example because the file is busy, the WAL is longer until the next try.
  if (code != SQLITE_OK) not_before_us_ = steady_us() + kRetryAfterUs;
}

}  // namespace dovetail::sqlite
