// One connection to a PostgreSQL server, its parameters, its results and its errors. Nothing here
// leaves state behind in the server's session, so everything works behind a pooler that gives each
// transaction another session.
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

// The parameters $1, $2, ... of one statement, in order, with their types; all but unknown() go in
// binary. Text and bytes are not copied: they must live until the statement has run.
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
    std::string_view view;  // of the caller
    std::string own{};      // of ours, when `is_own`
    bool is_own = false;
    bool is_null = false;
    bool is_text_form = false;
  };
  Params& add(std::uint32_t type, std::string own);
  std::vector<Value> values_;
};

// What a statement returned, in binary form. A getter must match the type of its column: another
// width is a bug of ours and ends the process. Views end with the Rows.
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
  std::string_view bytea(std::size_t row, int column) const;  // also jsonb: a byte 1, then its text
  // Infinities become the ends of what WallTime can say.
  WallTime timestamptz(std::size_t row, int column) const;

 private:
  Handle<pg_result, PQclear> result_;
};

// What the relay is to do about an error of the server, by its SQLSTATE. `during_commit`: nobody
// knows whether the transaction committed.
Errc errc_of(std::string_view sqlstate, bool during_commit = false);

// What the server or libpq said, in one line, and what to check. Only the primary text: the detail
// may quote what a row holds. `rights_hint`: which rights are needed, when that is what is missing.
Error server_error(pg_conn* connection, const pg_result* result, bool during_commit = false,
                   std::string_view rights_hint = {});

// rejected: the server is older than PostgreSQL 13.
Status check_server_version(pg_conn* connection);

// One statement on a connection of somebody else's, such as the application's own. Waits without
// limit, as libpq does.
Result<Rows> run(pg_conn* connection, std::string_view sql, const Params& params = {});

// Gives a statement a name in the server's session, with the types of `params`; their values do not
// matter. The same again is accepted, unless a transaction is open.
Status prepare(pg_conn* connection, const std::string& name, std::string_view sql,
               const Params& params);
Result<Rows> run_prepared(pg_conn* connection, const std::string& name, const Params& params);

// The same, then COMMIT, in one round trip. in_doubt: the connection was lost. Otherwise, after a
// failure, nothing is committed and the transaction is to be rolled back.
Status run_and_commit(pg_conn* connection, std::string_view sql, const Params& params);
Status run_prepared_and_commit(pg_conn* connection, const std::string& name, const Params& params);

// For those who wait for answers by themselves. False: the connection is lost.
// The statement without a name, with the types of `params`, and one run of it, whose rows come in
// binary form or as text.
bool send_prepare(pg_conn* connection, std::string_view sql, const Params& params);
bool send_prepared(pg_conn* connection, const Params& params, bool binary_rows);
// Waits until the socket can be read (or written, when bytes are left to send). False: too late.
bool wait_for_socket(pg_conn* connection, bool also_write,
                     std::chrono::steady_clock::time_point end);

// What the server or libpq wrote, in one line.
std::string one_line(const char* text);

using OwnedConnection = Handle<pg_conn, PQfinish>;

inline constexpr Duration kConnectMax = std::chrono::seconds(10);

// Connects within `limit`, in whole seconds and 2 at least, unless `conninfo` says another; then no
// call of libpq waits for the server. `replication`: as libpq's setting of that name; null: none.
Result<OwnedConnection> connect_to(const std::string& conninfo, const char* replication = nullptr,
                                   Duration limit = kConnectMax);

// One thread at a time. A statement that gets no answer within the time limit
// costs the connection: it is closed, never repaired.
class Connection {
 public:
  Connection() = default;
  // `conninfo`: as libpq takes it, key=value pairs or a postgresql:// URL. Times of dead peers are
  // set unless it sets them. Errors never show the password. rejected: the server is too old.
  // `limit`: of connecting.
  static Result<Connection> open(const std::string& conninfo, Duration limit = kConnectMax);

  explicit operator bool() const { return connection_ != nullptr; }
  void close();
  pg_conn* get() const { return connection_.get(); }
  void set_timeout(Duration timeout) { timeout_ = timeout; }

  // Of the last statement that the server refused; empty: none yet. It does not depend on the
  // server's language.
  const std::string& sqlstate() const { return sqlstate_; }

  // One statement with parameters. An error of the connection closes it.
  Result<Rows> query(std::string_view sql, const Params& params = {});
  // The same statement once for each of these, in one round trip. Their types are those of the
  // first.
  Result<std::vector<Rows>> query_each(std::string_view sql, std::span<const Params> each);
  // Any number of statements without parameters, in one implicit transaction unless they say
  // otherwise.
  Status execute(std::string_view sql);
  // in_doubt: the connection was lost before the answer came. After any other error nothing is
  // committed.
  Status commit();

  // Asks now and takes the answer later, so that the server works meanwhile. One at a time; other
  // statements may come in between, and wait for it.
  Status ask_ahead(std::string_view sql, const Params& params);
  Result<Rows> take_ahead();

 private:
  Result<Rows> finish(bool sent, bool during_commit);
  Status settle_ahead();

  OwnedConnection connection_;
  bool is_asked_ahead_ = false;  // its answer is still to be read
  Rows ahead_{};                 // its answer, read because something else was in a hurry
  std::string sqlstate_{};
  Duration timeout_ = std::chrono::seconds(30);
};

// An expression: the transaction that evaluates it waits for the disk even where the server's
// default is not to. For whatever somebody else is told of after the commit.
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

  // in_doubt: the connection was lost before the answer came. rejected, unavailable: rolled back.
  Status commit();

 private:
  explicit Transaction(Connection& connection) : connection_(&connection) {}
  Connection* connection_;
};

// A name inside double quotes, safe in any statement. rejected: empty, too long, or with a NUL.
Result<std::string> quoted_name(std::string_view name);
// A text inside single quotes, safe in any statement.
std::string quoted_text(std::string_view text);

}  // namespace dovetail::postgres
