// Wraps the SQLite library: connections, statements, transactions and the meaning of its errors.
// Everything here is for one thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/handle.h"
#include "dovetail/event.h"
#include "dovetail/result.h"

struct sqlite3;
struct sqlite3_stmt;

namespace dovetail::sqlite {

void close_connection(sqlite3* connection);
void finalize_statement(sqlite3_stmt* statement);

// The meaning of a SQLite result code. `doing` names the action: "reading the outbox".
Error error_of(sqlite3* connection, int code, std::string_view doing);
// The same for COMMIT: after an I/O error it may have happened.
Error commit_error_of(sqlite3* connection, int code, std::string_view doing);

// A prepared statement. Bound bytes are not copied: they must stay valid until it has run.
// Parameters count from 1 and columns from 0, as in SQLite.
class Statement {
 public:
  Statement() = default;
  static Result<Statement> prepare(sqlite3* connection, std::string_view sql);

  Statement& bind(int parameter, std::int64_t value);
  Statement& bind_null(int parameter);
  Statement& bind_text(int parameter, std::string_view text);
  Statement& bind_blob(int parameter, std::string_view bytes);
  Statement& bind_id(int parameter, const EventId& id);

  // True: there is a row. After false or an error the statement is reset.
  Result<bool> step();
  // Runs to the end and drops all rows.
  Status run();
  // Parameter names, from index 1; empty: unnamed.
  int parameters() const;
  std::string_view parameter_name(int parameter) const;
  bool writes() const;
  // The rows that the last statement on this connection inserted, changed or deleted.
  int changes() const;
  // Stops reading. A statement with unread rows keeps its snapshot of the file.
  void reset();

  int columns() const;
  bool is_integer(int column) const;
  std::int64_t integer(int column) const;
  bool is_null(int column) const;
  std::string_view bytes(int column) const;  // text or blob; valid until the next step()
  EventId id(int column) const;              // all zero if it does not have 16 bytes

  explicit operator bool() const { return handle_ != nullptr; }

 private:
  Handle<sqlite3_stmt, finalize_statement> handle_;
};

// Resets a statement at the end of a scope.
class Reading {
 public:
  explicit Reading(Statement& statement) : statement_(statement) {}
  Reading(const Reading&) = delete;
  Reading& operator=(const Reading&) = delete;
  ~Reading() { statement_.reset(); }

 private:
  Statement& statement_;
};

enum class Durability : std::uint8_t {
  full,    // a commit is on the disk when it returns
  ordered  // a power cut may lose the last commits, but never an earlier one only (WAL mode only;
           // else like full)
};

// How long our connections wait for another writer. Below a third of the usual lease, because the
// relay's thread must renew it.
inline constexpr int kBusyTimeoutMs = 3000;

struct OpenOptions {
  bool create = false;
  Durability durability = Durability::full;
  int busy_timeout_ms = kBusyTimeoutMs;
};

class Database {
 public:
  Database() = default;
  // A path or a "file:" URI. Never changes the journal mode.
  static Result<Database> open(const std::string& path, const OpenOptions& options = {});

  sqlite3* get() const { return handle_.get(); }
  explicit operator bool() const { return handle_ != nullptr; }
  void close() { handle_.reset(); }

  Status execute(const char* sql, std::string_view doing);
  Result<Statement> prepare(std::string_view sql) const { return Statement::prepare(get(), sql); }
  Status prepare(Statement& into, std::string_view sql) const;
  // The absolute path of the file; empty for a database in memory.
  std::string file() const;
  // Grows with each commit of another connection.
  Result<std::int64_t> data_version();

 private:
  Handle<sqlite3, close_connection> handle_;
  Statement data_version_;
};

// BEGIN IMMEDIATE ... COMMIT; the destructor rolls back if not committed.
class Transaction {
 public:
  static Result<Transaction> begin(sqlite3* connection, std::string_view doing);
  Transaction(Transaction&& other) noexcept : connection_(other.connection_) {
    other.connection_ = nullptr;
  }
  Transaction& operator=(Transaction&&) = delete;
  ~Transaction();

  Status commit(std::string_view doing);

 private:
  explicit Transaction(sqlite3* connection) : connection_(connection) {}
  sqlite3* connection_;
};

Status begin_immediate(sqlite3* connection, std::string_view doing);
Status commit(sqlite3* connection,
              std::string_view doing);  // afterwards no transaction is open
void rollback(sqlite3* connection);
bool in_transaction(sqlite3* connection);

// corrupt: a newer dovetail made the file. unavailable: the file has no dovetail tables yet, or
// older ones.
Status check_schema(sqlite3* connection);
inline constexpr std::int64_t kSchemaVersion = 10;

// Opens a file that already has dovetail's tables.
Result<Database> open_store(const std::string& path, const OpenOptions& options = {});

// For a service's own file: creates it in WAL mode if missing, and creates missing
// tables.
Status ensure_store(const std::string& path);

// Copies the WAL into the file when the WAL has grown or the file was quiet. Never waits long: if
// another connection is in the way, it tries again later.
class Checkpointer {
 public:
  // After a commit.
  void after_commit(sqlite3* connection, const std::string& file);
  // When nothing has happened for a while.
  void when_idle(sqlite3* connection, const std::string& file);

 private:
  void try_checkpoint(sqlite3* connection);
  std::int64_t commits_ = 0;
  std::int64_t not_before_us_ = 0;
};

// Microseconds as SQLite stores them.
inline std::int64_t to_stored(WallTime time) { return time.time_since_epoch().count(); }
inline WallTime from_stored(std::int64_t microseconds) {
  return WallTime{std::chrono::microseconds{microseconds}};
}

}  // namespace dovetail::sqlite
