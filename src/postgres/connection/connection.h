// One connection to a PostgreSQL server, with parameters, results and errors. It keeps no state in
// the server's session, so it works behind a pooler that may use another session for each
// transaction.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/clock.h"
#include "core/handle.h"
#include "dovetail/event.h"
#include "dovetail/result.h"

struct pg_conn;
struct pg_result;
extern "C" void PQclear(pg_result* result);
extern "C" void PQfinish(pg_conn* connection);

namespace dovetail::postgres {

// The parameters $1, $2, ... of a statement, in order, with their types. All except unknown() are
// sent in binary. Text and bytes are not copied: they must stay valid until the statement has run.
class Params {
 public:
  Params& null();  // of the type that the statement expects
  Params& boolean(bool value);
  Params& int4(std::int32_t value);
  Params& int8(std::int64_t value);
  Params& text(std::string_view value);
  Params& bytea(std::string_view value);
  Params& uuid(const EventId& value);
  Params& timestamptz(WallTime value);
  Params& unknown(std::string value);  // in text form, of the type that the statement expects

  Params& int4_array(std::span<const std::int32_t> values);
  Params& int8_array(std::span<const std::int64_t> values);
  Params& text_array(std::span<const std::string_view> values);
  Params& bytea_array(std::span<const std::string_view> values);
  Params& uuid_array(std::span<const EventId> values);
  Params& timestamptz_array(std::span<const WallTime> values);

  std::size_t size() const { return values_.size(); }
  std::size_t bytes() const;  // of all values

 private:
  friend class Statement;
  struct Value {
    std::uint32_t type;
    std::string_view view;  // owned by the caller
    std::string own{};      // a copy, if `is_own`
    bool is_own = false;
    bool is_null = false;
    bool is_text_form = false;
  };
  Params& add(std::uint32_t type, std::string own);
  std::vector<Value> values_;
};

// The result of a statement, in binary form. A getter must match the type of its column: a wrong
// width is a bug of dovetail and ends the process. Views are valid as long as the Rows.
class Rows {
 public:
  Rows() = default;
  explicit Rows(pg_result* result) : result_(result) {}

  pg_result* get() const { return result_.get(); }
  std::size_t size() const;
  bool empty() const { return size() == 0; }
  std::int64_t affected() const;  // rows inserted, updated, deleted or selected

  bool is_null(std::size_t row, int column) const;
  bool boolean(std::size_t row, int column) const;
  std::int16_t int2(std::size_t row, int column) const;
  std::int32_t int4(std::size_t row, int column) const;
  std::int64_t int8(std::size_t row, int column) const;
  EventId uuid(std::size_t row, int column) const;
  std::string_view text(std::size_t row, int column) const;   // also json, name, varchar
  std::string_view bytea(std::size_t row, int column) const;  // also jsonb: a byte 1, then the text
  // Infinity becomes the nearest WallTime.
  WallTime timestamptz(std::size_t row, int column) const;

 private:
  Handle<pg_result, PQclear> result_;
};

// What the relay does about a server error, by SQLSTATE. `during_commit`: the transaction may have
// committed.
Errc errc_of(std::string_view sqlstate, bool during_commit = false);

// The error of the server or libpq in one line, and what to check. Only the primary text: the
// detail may quote data. `rights_hint`: the rights to name if they are missing.
Error server_error(const pg_conn* connection, const pg_result* result, bool during_commit = false,
                   std::string_view rights_hint = {});

// rejected: the server is older than PostgreSQL 13.
Status check_server_version(pg_conn* connection);

// Runs a statement on a connection of the caller, such as the application's own. Waits for the
// server as long as set_time_limit() of dovetail/postgres.h says; see call.h.
Result<Rows> run(pg_conn* connection, std::string_view sql, const Params& params = {});

// Prepares a statement under a name in the server's session, with the types of `params`; their
// values do not matter. Repeating it is harmless if no transaction is open.
Status prepare(pg_conn* connection, const std::string& name, std::string_view sql,
               const Params& params);
Result<Rows> run_prepared(pg_conn* connection, const std::string& name, const Params& params);

// The same, then COMMIT, in one round trip. in_doubt: the connection was lost. After any other
// error nothing is committed; roll back.
Status run_and_commit(pg_conn* connection, std::string_view sql, const Params& params);
Status run_prepared_and_commit(pg_conn* connection, const std::string& name, const Params& params);

// For callers that read answers themselves. False: the connection is lost. send_prepare() sets
// the unnamed statement with the types of `params`; the others run it, with binary or text
// rows.
bool send_prepare(pg_conn* connection, std::string_view sql, const Params& params);
bool send_prepared(pg_conn* connection, const Params& params, bool binary_rows);
// Waits until the socket can be read (or written, if bytes are left to send). False: timeout.
bool wait_for_socket(pg_conn* connection, bool also_write,
                     std::chrono::steady_clock::time_point end);

// An error text of the server or libpq, in one line.
std::string one_line(const char* text);

using OwnedConnection = Handle<pg_conn, PQfinish>;

inline constexpr Duration kConnectMax = std::chrono::seconds(10);

// Connects within `limit` (whole seconds, at least 2) unless `conninfo` sets another limit. Then no
// libpq call waits for the server. `replication`: libpq's setting of that name, or null.
Result<OwnedConnection> connect_to(const std::string& conninfo, const char* replication = nullptr,
                                   Duration limit = kConnectMax);

// One thread at a time. If a statement gets no answer within the time limit, the connection is
// closed; it is never repaired.
class Connection {
 public:
  Connection() = default;
  // `conninfo`: key=value pairs or a postgresql:// URL, as for libpq. Sets timeouts for dead peers
  // unless it has them. Errors never show the password. rejected: the server is too old. `limit`:
  // for connecting.
  static Result<Connection> open(const std::string& conninfo, Duration limit = kConnectMax);

  explicit operator bool() const { return connection_ != nullptr; }
  void close();
  pg_conn* get() const { return connection_.get(); }
  void set_timeout(Duration timeout) { timeout_ = timeout; }

  // Of the last statement that the server refused; empty: none yet. The same in every language of
  // the server.
  const std::string& sqlstate() const { return sqlstate_; }

  // One statement with parameters. A connection error closes the connection.
  Result<Rows> query(std::string_view sql, const Params& params = {});
  // Runs the statement once for each set of parameters in one round trip. The first set gives the
  // types.
  Result<std::vector<Rows>> query_each(std::string_view sql, std::span<const Params> each);
  // Any number of statements without parameters, in one implicit transaction unless they contain
  // BEGIN.
  Status execute(std::string_view sql);
  // in_doubt: the connection was lost before the answer. After any other error nothing is
  // committed.
  Status commit();

  // Sends a statement now and reads its answer later, so that the server works meanwhile. One at a
  // time. Other statements may come in between; they wait for it.
  Status ask_ahead(std::string_view sql, const Params& params);
  Result<Rows> take_ahead();

 private:
  Result<Rows> finish(bool sent, bool during_commit);
  Status settle_ahead();

  OwnedConnection connection_;
  bool is_asked_ahead_ = false;  // its answer is not read yet
  Rows ahead_{};                 // its answer, read early because another statement came
  std::string sqlstate_{};
  Duration timeout_ = std::chrono::seconds(30);
};

// An SQL expression: its transaction waits for the disk at COMMIT, even if the server's default
// does not. Use it when someone is told about the result.
inline const std::string kDurably =
    "set_config('synchronous_commit', CASE current_setting('synchronous_commit') "
    "WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END, true)";

// BEGIN now; ROLLBACK at the end of the scope unless committed.
class Transaction {
 public:
  static Result<Transaction> begin(Connection& connection, std::string_view sql = "BEGIN");
  Transaction(Transaction&& other) noexcept : connection_(other.connection_) {
    other.connection_ = nullptr;
  }
  Transaction& operator=(Transaction&&) = delete;
  ~Transaction();

  // in_doubt: the connection was lost before the answer. rejected, unavailable: rolled back.
  Status commit();

 private:
  explicit Transaction(Connection& connection) : connection_(&connection) {}
  Connection* connection_;
};

// A name in double quotes, safe in any statement. rejected: empty, too long, or with a NUL.
Result<std::string> quoted_name(std::string_view name);
// A text in single quotes, safe in any statement.
std::string quoted_text(std::string_view text);

}  // namespace dovetail::postgres
