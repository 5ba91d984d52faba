#include "postgres/connection/connection.h"

#include <libpq-fe.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>

#include "core/check.h"
#include "postgres/connection/byte_order.h"
#include "postgres/connection/statement.h"
#include "postgres/connection/type_numbers.h"

namespace dovetail::postgres {

namespace {

std::int64_t to_stored(WallTime time) { return time.time_since_epoch().count() - kEpochOffset; }

std::string_view view_of(const EventId& id) {
  return {reinterpret_cast<const char*>(id.bytes.data()), id.bytes.size()};
}

// A one-dimensional array without nulls in binary form.
template <class Values, class Append>
std::string array_of(std::uint32_t element, const Values& values, Append append) {
  std::string out;
  append_big_endian(out, std::int32_t{values.empty() ? 0 : 1});
  append_big_endian(out, std::int32_t{0});
  append_big_endian(out, static_cast<std::int32_t>(element));
  if (values.empty()) return out;
  append_big_endian(out, static_cast<std::int32_t>(values.size()));
  append_big_endian(out, std::int32_t{1});
  for (const auto& value : values) append(out, value);
  return out;
}

void append_sized(std::string& out, std::string_view bytes) {
  append_big_endian(out, static_cast<std::int32_t>(bytes.size()));
  out += bytes;
}

bool starts_with_any(std::string_view text, std::initializer_list<std::string_view> prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(),
                     [&](std::string_view prefix) { return text.starts_with(prefix); });
}

constexpr std::string_view kRolesHint =
    "; grant this user dovetail_app to publish, dovetail_worker to receive events and requests, "
    "dovetail_relay to run relays, or dovetail_operator to inspect, replay and discard; init and "
    "prune need the owner of the schema";

// What to check, if the server's text does not say it.
std::string_view hint_of(std::string_view sqlstate) {
  if (starts_with_any(sqlstate, {"42P01", "3F000", "42883", "42703"}))
    return "; run `dovetail init` of this version in this database";
  if (starts_with_any(sqlstate, {"42P06", "42P07", "42710"}))
    return "; another object in this database has that name; check it";
  if (sqlstate == "25006") return "; connect to the primary, not to a standby";
  if (starts_with_any(sqlstate, {"28", "3D000"}))
    return "; check the user, the password and the database in the connection settings";
  if (starts_with_any(sqlstate, {"08", "57P0"})) return "; check that the server runs";
  if (sqlstate.starts_with("53")) return "; check the server's connections, memory and disk space";
  if (sqlstate == "55P03")
    return "; check for long transactions that lock these tables, and try again";
  if (starts_with_any(sqlstate, {"23502", "23514"})) return "; check that part of the event";
  if (sqlstate == "22021") return "; check that every text is valid UTF-8 without NUL characters";
  if (sqlstate == "22P05") return "; check the text, and use a database with the encoding UTF8";
  return "; check the server's log";
}

}  // namespace

std::string one_line(const char* text) {
  std::string out;
  for (std::string_view left = text == nullptr ? "" : text; !left.empty(); left.remove_prefix(1)) {
    const bool is_space = left[0] == '\n' || left[0] == '\t' || left[0] == ' ';
    if (!is_space) out += left[0];
    if (is_space && !out.empty() && out.back() != ' ') out += ' ';
  }
  if (out.ends_with(' ')) out.pop_back();
  return out;
}

Error server_error(const pg_conn* connection, const pg_result* result, bool during_commit,
                   std::string_view rights_hint) {
  const char* field = result == nullptr ? nullptr : PQresultErrorField(result, PG_DIAG_SQLSTATE);
  const std::string sqlstate = field == nullptr ? "" : field;
  if (sqlstate.empty()) {
    const std::string text = one_line(PQerrorMessage(connection));
    return Error{during_commit ? Errc::in_doubt : Errc::unavailable,
                 (during_commit ? "the connection was lost during COMMIT: "
                                : "the connection to the server is lost: ") +
                     text + "; check that the server runs"};
  }
  const std::string primary = one_line(PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY));
  const char* given = PQresultErrorField(result, PG_DIAG_MESSAGE_HINT);
  std::string hint(hint_of(sqlstate));
  if (given != nullptr && sqlstate != "42883") hint = "; " + one_line(given);
  // The server's own errors about rights have no hint; those of our functions do.
  if (sqlstate == "42501" && given == nullptr)
    hint = rights_hint.empty() ? kRolesHint : rights_hint;
  return Error{errc_of(sqlstate, during_commit), primary + " (" + sqlstate + ")" + hint};
}

bool succeeded(const pg_result* result) {
  const ExecStatusType status = PQresultStatus(result);
  return status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK || status == PGRES_EMPTY_QUERY;
}

namespace {

void ignore_notice(void*, const char*) {}

}  // namespace

Params& Params::add(std::uint32_t type, std::string own) {
  Value value{type, {}, std::move(own), true};
  values_.push_back(std::move(value));
  return *this;
}

Params& Params::null() {
  values_.push_back(Value{kUnknown, {}, {}, false, true});
  return *this;
}
Params& Params::boolean(bool value) { return add(kBool, std::string(1, value ? '\1' : '\0')); }
Params& Params::int4(std::int32_t value) { return add(kInt4, big_endian(value)); }
Params& Params::int8(std::int64_t value) { return add(kInt8, big_endian(value)); }
Params& Params::text(std::string_view value) {
  values_.push_back(Value{kText, value});
  return *this;
}
Params& Params::bytea(std::string_view value) {
  values_.push_back(Value{kBytea, value});
  return *this;
}
Params& Params::uuid(const EventId& value) { return add(kUuid, std::string(view_of(value))); }
Params& Params::timestamptz(WallTime value) {
  return add(kTimestamptz, big_endian(to_stored(value)));
}
Params& Params::unknown(std::string value) {
  add(kUnknown, std::move(value));
  values_.back().is_text_form = true;
  return *this;
}

Params& Params::int4_array(std::span<const std::int32_t> values) {
  return add(kInt4Array, array_of(kInt4, values, [](std::string& out, std::int32_t value) {
               append_sized(out, big_endian(value));
             }));
}
Params& Params::int8_array(std::span<const std::int64_t> values) {
  return add(kInt8Array, array_of(kInt8, values, [](std::string& out, std::int64_t value) {
               append_sized(out, big_endian(value));
             }));
}
Params& Params::text_array(std::span<const std::string_view> values) {
  return add(kTextArray, array_of(kText, values, append_sized));
}
Params& Params::bytea_array(std::span<const std::string_view> values) {
  return add(kByteaArray, array_of(kBytea, values, append_sized));
}
Params& Params::uuid_array(std::span<const EventId> values) {
  return add(kUuidArray, array_of(kUuid, values, [](std::string& out, const EventId& value) {
               append_sized(out, view_of(value));
             }));
}
Params& Params::timestamptz_array(std::span<const WallTime> values) {
  return add(kTimestamptzArray, array_of(kTimestamptz, values, [](std::string& out, WallTime time) {
               append_sized(out, big_endian(to_stored(time)));
             }));
}

std::size_t Params::bytes() const {
  std::size_t bytes = 0;
  for (const Value& value : values_) bytes += value.is_own ? value.own.size() : value.view.size();
  return bytes;
}

Statement::Statement(std::string_view sql, const Params& params) : sql_(sql) {
  for (const Params::Value& value : params.values_) {
    // An empty text is not null, but libpq takes a null pointer for null.
    const std::string_view bytes = value.is_own ? std::string_view(value.own) : value.view;
    types_.push_back(value.type);
    values_.push_back(value.is_null ? nullptr : bytes.data() == nullptr ? "" : bytes.data());
    lengths_.push_back(static_cast<int>(bytes.size()));
    formats_.push_back(value.is_text_form ? 0 : 1);
  }
}

bool Statement::send(pg_conn* connection) const {
  return PQsendQueryParams(connection, sql_.c_str(), static_cast<int>(values_.size()),
                           types_.data(), values_.data(), lengths_.data(), formats_.data(), 1) == 1;
}

bool Statement::send_prepared(pg_conn* connection, bool binary_rows) const {
  return PQsendQueryPrepared(connection, sql_.c_str(), static_cast<int>(values_.size()),
                             values_.data(), lengths_.data(), formats_.data(),
                             binary_rows ? 1 : 0) == 1;
}

bool Statement::send_prepare(pg_conn* connection, const std::string& name) const {
  return PQsendPrepare(connection, name.c_str(), sql_.c_str(), static_cast<int>(types_.size()),
                       types_.data()) == 1;
}

std::size_t Rows::size() const {
  return result_ ? static_cast<std::size_t>(PQntuples(result_.get())) : 0;
}

std::int64_t Rows::affected() const {
  if (!result_) return 0;
  const char* text = PQcmdTuples(result_.get());
  return text == nullptr || *text == '\0' ? 0 : std::strtoll(text, nullptr, 10);
}

bool Rows::is_null(std::size_t row, int column) const {
  return PQgetisnull(result_.get(), static_cast<int>(row), column) == 1;
}

std::string_view Rows::bytea(std::size_t row, int column) const {
  const int line = static_cast<int>(row);
  return {PQgetvalue(result_.get(), line, column),
          static_cast<std::size_t>(PQgetlength(result_.get(), line, column))};
}
std::string_view Rows::text(std::size_t row, int column) const { return bytea(row, column); }

bool Rows::boolean(std::size_t row, int column) const {
  const std::string_view bytes = bytea(row, column);
  DOVETAIL_CHECK(bytes.size() == 1);
  return bytes[0] != '\0';
}
std::int16_t Rows::int2(std::size_t row, int column) const {
  const std::string_view bytes = bytea(row, column);
  DOVETAIL_CHECK(bytes.size() == 2);
  return read_big_endian<std::int16_t>(bytes.data());
}
std::int32_t Rows::int4(std::size_t row, int column) const {
  const std::string_view bytes = bytea(row, column);
  DOVETAIL_CHECK(bytes.size() == 4);
  return read_big_endian<std::int32_t>(bytes.data());
}
std::int64_t Rows::int8(std::size_t row, int column) const {
  const std::string_view bytes = bytea(row, column);
  DOVETAIL_CHECK(bytes.size() == 8);
  return read_big_endian<std::int64_t>(bytes.data());
}
EventId Rows::uuid(std::size_t row, int column) const {
  const std::string_view bytes = bytea(row, column);
  DOVETAIL_CHECK(bytes.size() == 16);
  EventId id;
  std::memcpy(id.bytes.data(), bytes.data(), 16);
  return id;
}
WallTime Rows::timestamptz(std::size_t row, int column) const {
  return wall_time_of(int8(row, column));
}

Errc errc_of(std::string_view sqlstate, bool during_commit) {
  if (starts_with_any(sqlstate, {"XX"})) return Errc::corrupt;
  // The server ended the session, or the pooler lost it.
  if (starts_with_any(sqlstate, {"08", "57P0"}))
    return during_commit ? Errc::in_doubt : Errc::unavailable;
  if (sqlstate == "40003") return Errc::in_doubt;
  if (sqlstate == "DT001") return Errc::stopped;  // dovetail.raise_lost()
  if (starts_with_any(sqlstate, {"53", "40", "55P03", "55006", "57014", "25006", "58", "28"}))
    return Errc::unavailable;
  return Errc::rejected;
}

Status check_server_version(pg_conn* connection) {
  constexpr int kOldest = 130000;
  const char* version = PQparameterStatus(connection, "server_version");
  if (version == nullptr || PQserverVersion(connection) >= kOldest) return {};
  return fail(Errc::rejected, "the server is PostgreSQL " + std::string(version) +
                                  ", which has no pg_snapshot; upgrade it to 13 or newer");
}

bool send_prepare(pg_conn* connection, std::string_view sql, const Params& params) {
  return Statement(sql, params).send_prepare(connection);
}

bool send_prepared(pg_conn* connection, const Params& params, bool binary_rows) {
  return Statement({}, params).send_prepared(connection, binary_rows);
}

namespace {

constexpr std::string_view kTlsHint =
    " (for TLS: sslmode, sslrootcert, and that the server's certificate names the host)";

}  // namespace

Result<OwnedConnection> connect_to(const std::string& conninfo, const char* replication,
                                   Duration limit) {
  // Zero would mean no limit.
  const std::string limit_s = std::to_string(
      std::max<std::int64_t>(2, std::chrono::ceil<std::chrono::seconds>(limit).count()));
  // A later keyword replaces an earlier one, so the caller's settings come last.
  const std::array<const char*, 10> keywords = {"connect_timeout",     "keepalives_idle",
                                                "keepalives_interval", "keepalives_count",
                                                "tcp_user_timeout",    "fallback_application_name",
                                                "client_encoding",     "dbname",
                                                "replication",         nullptr};
  const std::array<const char*, 10> values = {limit_s.c_str(), "10",       "5",    "3",
                                              "30000",         "dovetail", "UTF8", conninfo.c_str(),
                                              replication,     nullptr};
  OwnedConnection connection(PQconnectdbParams(keywords.data(), values.data(), 1));
  pg_conn* const raw = connection.get();
  if (raw == nullptr)
    return fail(Errc::unavailable,
                "out of memory while connecting; check the memory limit of this process");
  if (PQstatus(raw) != CONNECTION_OK) {
    const std::string said = one_line(PQerrorMessage(raw));
    const bool is_tls = said.find("SSL") != std::string::npos ||
                        said.find("certificate") != std::string::npos ||
                        said.find("no encryption") != std::string::npos;
    return fail(Errc::unavailable, "cannot connect: " + said + "; check the connection settings" +
                                       std::string(is_tls ? kTlsHint : "") +
                                       " and that the server runs");
  }
  DOVETAIL_TRY(check_server_version(raw));
  PQsetNoticeProcessor(raw, ignore_notice, nullptr);
  if (PQsetnonblocking(raw, 1) != 0)
    return fail(Errc::unavailable, "cannot set up the connection; check the server");
  return connection;
}

Result<Connection> Connection::open(const std::string& conninfo, Duration limit) {
  Result<OwnedConnection> opened = connect_to(conninfo, nullptr, limit);
  if (!opened) return fail(opened.error());
  Connection connection;
  connection.connection_ = std::move(*opened);
  return connection;
}

bool wait_for_socket(pg_conn* connection, bool also_write,
                     std::chrono::steady_clock::time_point end) {
  while (true) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    if (left.count() <= 0) return false;
    pollfd poll_fd{PQsocket(connection), static_cast<short>(POLLIN | (also_write ? POLLOUT : 0)),
                   0};
    const int ready =
        ::poll(&poll_fd, 1, static_cast<int>(std::min<std::int64_t>(left.count(), 60'000)));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
  }
}

pg_result* take_results(pg_conn* connection, std::chrono::steady_clock::time_point end) {
  pg_result* kept = nullptr;
  while (true) {
    const int unsent = PQflush(connection);
    if (unsent < 0) break;
    if (unsent == 0 && PQisBusy(connection) == 0) {
      pg_result* next = PQgetResult(connection);
      if (next == nullptr) return kept;
      if (kept == nullptr || succeeded(kept)) std::swap(kept, next);
      PQclear(next);
      continue;
    }
    if (!wait_for_socket(connection, unsent == 1, end)) break;
    if (PQconsumeInput(connection) == 0) break;
  }
  PQclear(kept);
  return nullptr;
}

Result<Rows> Connection::finish(bool sent, bool during_commit) {
  const auto end = std::chrono::steady_clock::now() + timeout_;
  pg_result* const result = sent ? take_results(get(), end) : nullptr;
  Rows rows(result);
  if (result != nullptr && succeeded(result)) return rows;
  if (const char* state = PQresultErrorField(result, PG_DIAG_SQLSTATE)) sqlstate_ = state;
  Error error = server_error(get(), result, during_commit);
  if (result == nullptr && std::chrono::steady_clock::now() >= end)
    error.text = "no answer from the server in time; check its load and the network";
  if (result == nullptr || PQstatus(get()) != CONNECTION_OK) close();
  return fail(std::move(error));
}

void Connection::close() {
  connection_.reset();
  is_asked_ahead_ = false;
  ahead_ = {};
}

Status Connection::ask_ahead(std::string_view sql, const Params& params) {
  DOVETAIL_TRY(settle_ahead());
  ahead_ = {};
  if (!Statement(sql, params).send(get())) {
    close();
    return fail(Errc::unavailable, "the connection is lost; check that the server runs");
  }
  is_asked_ahead_ = true;
  return {};
}

Result<Rows> Connection::take_ahead() {
  DOVETAIL_TRY(settle_ahead());
  return std::move(ahead_);
}

Status Connection::settle_ahead() {
  if (!connection_) return fail(Errc::unavailable, "the connection is closed; open it again");
  if (!is_asked_ahead_) return {};
  is_asked_ahead_ = false;
  Result<Rows> rows = finish(true, false);
  if (!rows) return fail(rows.error());
  ahead_ = std::move(*rows);
  return {};
}

Result<Rows> Connection::query(std::string_view sql, const Params& params) {
  DOVETAIL_TRY(settle_ahead());
  return finish(Statement(sql, params).send(get()), false);
}

Status Connection::execute(std::string_view sql) {
  DOVETAIL_TRY(settle_ahead());
  const Result<Rows> rows = finish(PQsendQuery(get(), std::string(sql).c_str()) == 1, false);
  if (!rows) return fail(rows.error());
  return {};
}

Status Connection::commit() {
  if (!connection_) return fail(Errc::unavailable, "the connection was lost; do it again");
  // After a failed statement, COMMIT answers ROLLBACK without an error.
  const bool failed_before = PQtransactionStatus(get()) == PQTRANS_INERROR;
  const Result<Rows> rows = finish(PQsendQuery(get(), "COMMIT") == 1, true);
  if (!rows) return fail(rows.error());
  if (failed_before)
    return fail(Errc::rejected,
                "the transaction was rolled back, because a statement in it failed; "
                "check the first error");
  return {};
}

Result<Transaction> Transaction::begin(Connection& connection, std::string_view sql) {
  DOVETAIL_TRY(connection.execute(sql));
  return Transaction(connection);
}

Transaction::~Transaction() {
  if (connection_ == nullptr || !*connection_) return;
  if (!connection_->execute("ROLLBACK")) connection_->close();
}

Status Transaction::commit() {
  Connection* const connection = connection_;
  connection_ = nullptr;
  DOVETAIL_CHECK(connection != nullptr);
  return connection->commit();
}

Result<std::string> quoted_name(std::string_view name) {
  // The server cuts longer names, so two names could become one.
  if (name.empty() || name.size() > 63 || name.find('\0') != std::string_view::npos)
    return fail(Errc::rejected,
                "\"" + std::string(name.substr(0, 70)) +
                    "\" cannot be the name of a table or column; use 1 to 63 bytes");
  std::string out = "\"";
  for (const char c : name) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + '"';
}

std::string quoted_text(std::string_view text) {
  // The E form does not depend on standard_conforming_strings.
  std::string out = "E'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') out += c;
    if (c != '\0') out += c;
  }
  return out + '\'';
}

}  // namespace dovetail::postgres
