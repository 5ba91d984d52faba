// The SQLite library, wrapped once: connections, statements, transactions and what its errors mean
// to us. Nothing here is for several threads.
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

// What a result code of SQLite means to us. `doing` says what was tried: "reading the outbox".
Error error_of(sqlite3* connection, int code, std::string_view doing);
// The same for COMMIT, where an I/O error leaves open whether it happened.
Error commit_error_of(sqlite3* connection, int code, std::string_view doing);

// A prepared statement, kept. Bound bytes are not copied: they must live until the statement ran.
// Parameters and columns count from 1 and 0, as in SQLite.
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
  // To the end, rows thrown away.
  Status run();
  // What its parameters are called, from 1 on; empty: one without a name.
  int parameters() const;
  std::string_view parameter_name(int parameter) const;
  bool writes() const;
  // How many rows the statement that ran last on this connection inserted, changed or deleted.
  int changes() const;
  // Ends the reading of rows. A statement that still has rows holds its snapshot of the file.
  void reset();

  int columns() const;
  bool is_integer(int column) const;
  std::int64_t integer(int column) const;
  bool is_null(int column) const;
  std::string_view bytes(int column) const;  // text or blob; valid until the next step
  EventId id(int column) const;              // all zero when it is not 16 bytes long

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
  full,    // a commit has reached the disk when it returns
  ordered  // after a power cut the last commits may be gone, but never one before another (WAL
           // only; else full)
};

// How long our own connections wait for another writer: below a third of the usual lease, since
// the thread of a relay must come back to renew it.
inline constexpr int kBusyTimeoutMs = 3000;

struct OpenOptions {
  bool create = false;
  Durability durability = Durability::full;
  int busy_timeout_ms = kBusyTimeoutMs;
};

class Database {
 public:
  Database() = default;
  // A path, or a "file:" URI. Never changes the journal mode.
  static Result<Database> open(const std::string& path, const OpenOptions& options = {});

  sqlite3* get() const { return handle_.get(); }
  explicit operator bool() const { return handle_ != nullptr; }
  void close() { handle_.reset(); }

  Status execute(const char* sql, std::string_view doing);
  Result<Statement> prepare(std::string_view sql) const { return Statement::prepare(get(), sql); }
  Status prepare(Statement& into, std::string_view sql) const;
  // The absolute path of the file; empty for a database in memory.
  std::string file() const;
  // Grows whenever another connection has committed.
  Result<std::int64_t> data_version();

 private:
  Handle<sqlite3, close_connection> handle_;
  Statement data_version_;
};

// BEGIN IMMEDIATE ... COMMIT; rolls back when it is destroyed uncommitted.
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
              std::string_view doing);  // leaves no transaction open, whatever happens
void rollback(sqlite3* connection);
bool in_transaction(sqlite3* connection);

// corrupt: made by a newer dovetail; unavailable: there are no tables of dovetail in the file yet,
// or those of an older one.
Status check_schema(sqlite3* connection);
inline constexpr std::int64_t kSchemaVersion = 8;

// Opens a file that must have dovetail's tables.
Result<Database> open_store(const std::string& path, const OpenOptions& options = {});

// For a service's own file: makes it when it is not there, in WAL mode, and creates the tables
// where they are missing.
Status ensure_store(const std::string& path);

// Empties the WAL into the file when it has grown, or when the file has been quiet. Never waits
// long: when somebody is in the way it is tried again later.
class Checkpointer {
 public:
  // After a commit.
  void after_commit(sqlite3* connection, const std::string& file);
  // Nothing has happened for a while.
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

// Text that may be stored and shown: valid UTF-8 without NUL, at most 1000 bytes.
std::string stored_reason(std::string_view text);

}  // namespace dovetail::sqlite
