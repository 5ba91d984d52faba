// How the rules that all databases share talk to a database: statements with parameters, rows
// and transactions. Each database implements the session and writes the statements in its own
// SQL.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/clock.h"
#include "dovetail/event.h"
#include "dovetail/result.h"

namespace dovetail {

// The parameters $1, $2, ... of a statement, in order. Text and bytes are not copied: they must
// stay valid until the statement has run.
class SqlParams {
 public:
  struct Text {
    std::string_view value;
  };
  struct Bytes {
    std::string_view value;
  };
  using Value = std::variant<std::monostate, bool, std::int64_t, Text, Bytes, EventId, WallTime>;

  SqlParams& null() { return add({}); }
  SqlParams& boolean(bool value) { return add(value); }
  SqlParams& integer(std::int64_t value) { return add(value); }
  SqlParams& text(std::string_view value) { return add(Text{value}); }
  SqlParams& bytes(std::string_view value) { return add(Bytes{value}); }
  SqlParams& id(const EventId& value) { return add(value); }
  SqlParams& time(WallTime value) { return add(value); }
  SqlParams& microseconds(Duration value) { return add(value.count()); }

  std::span<const Value> values() const { return values_; }

 private:
  SqlParams& add(Value value) {
    values_.push_back(value);
    return *this;
  }
  std::vector<Value> values_;
};

// A copy of a statement's result, for rules with few or small rows. Times and booleans are
// integers. A getter of the wrong type is a bug of dovetail and ends the process.
class SqlRows {
 public:
  std::size_t size() const { return columns_ == 0 ? 0 : values_.size() / columns_; }
  bool empty() const { return values_.empty(); }
  // Rows that the statement inserted, changed or deleted.
  std::int64_t affected() const { return affected_; }

  bool is_null(std::size_t row, std::size_t column) const;
  std::int64_t integer(std::size_t row, std::size_t column) const;
  bool boolean(std::size_t row, std::size_t column) const { return integer(row, column) != 0; }
  WallTime time(std::size_t row, std::size_t column) const;
  Duration microseconds(std::size_t row, std::size_t column) const;
  const std::string& bytes(std::size_t row, std::size_t column) const;  // also for text columns
  EventId id(std::size_t row, std::size_t column) const;

  // For sessions: one row, with one value per column.
  using Value = std::variant<std::monostate, std::int64_t, std::string>;
  explicit SqlRows(std::size_t columns = 0, std::int64_t affected = 0)
      : columns_(columns), affected_(affected) {}
  void add(Value value) { values_.push_back(std::move(value)); }
  void set_affected(std::int64_t affected) { affected_ = affected; }

 private:
  const Value& at(std::size_t row, std::size_t column) const;

  std::size_t columns_;
  std::int64_t affected_;
  std::vector<Value> values_;
};

// A function of the database returns a number; another statement changes as many rows.
std::uint64_t count_in(const SqlRows& rows);

// Runs statements one by one, for rules that leave transactions to their caller.
//
// Times come from the database: statements use its clock, and the rules pass durations. For a
// database without a clock, the runner uses the machine's.
class SqlRunner {
 public:
  virtual ~SqlRunner() = default;
  virtual Result<SqlRows> run(std::string_view sql, const SqlParams& params) = 0;
  Result<SqlRows> run(std::string_view sql) { return run(sql, {}); }
};

// One connection, for one thread at a time. Errors mean what they mean for the relay: after
// unavailable or in_doubt, connect() again.
class SqlSession : public SqlRunner {
 public:
  // Connects if needed, and prepares what its users need.
  virtual Status connect() = 0;
  virtual void close() = 0;

  // Runs the statement once for each set of parameters, in order; one result each. One round trip
  // if possible. A statement that writes needs a transaction. A parameter is null in all sets or in
  // none.
  virtual Result<std::vector<SqlRows>> run_each(std::string_view sql,
                                                std::span<const SqlParams> each) = 0;

  // `doing` names the purpose: "parking events".
  virtual Status begin(std::string_view doing) = 0;
  // in_doubt: it may have committed. Afterwards no transaction is open, whatever it returns.
  virtual Status commit(std::string_view doing) = 0;
  virtual void rollback() = 0;
  virtual bool in_transaction() const = 0;
};

// Begins now; rolls back at the end of its scope unless committed.
class SqlTransaction {
 public:
  static Result<SqlTransaction> begin(SqlSession& session, std::string_view doing);
  SqlTransaction(SqlTransaction&& other) noexcept;
  SqlTransaction& operator=(SqlTransaction&&) = delete;
  ~SqlTransaction();

  Status commit();

 private:
  SqlTransaction(SqlSession& session, std::string_view doing) : session_(&session), doing_(doing) {}
  SqlSession* session_;
  std::string doing_;
};

}  // namespace dovetail
