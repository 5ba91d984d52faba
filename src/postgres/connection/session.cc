#include "postgres/connection/session.h"

#include <libpq-fe.h>

#include "core/check.h"
#include "postgres/connection/type_numbers.h"

namespace dovetail::postgres {

namespace {

struct ToParams {
  Params& params;
  void operator()(std::monostate) const { params.null(); }
  void operator()(bool value) const { params.boolean(value); }
  void operator()(std::int64_t value) const { params.int8(value); }
  void operator()(const SqlParams::Text& text) const { params.text(text.value); }
  void operator()(const SqlParams::Bytes& bytes) const { params.bytea(bytes.value); }
  void operator()(const EventId& id) const { params.uuid(id); }
  void operator()(WallTime time) const { params.timestamptz(time); }
};

Params params_of(const SqlParams& from) {
  Params params;
  for (const SqlParams::Value& value : from.values()) std::visit(ToParams{params}, value);
  return params;
}

SqlRows::Value value_of(const Rows& rows, std::size_t row, int column) {
  if (rows.is_null(row, column)) return {};
  switch (PQftype(rows.get(), column)) {
    case kBool:
      return std::int64_t{rows.boolean(row, column)};
    case kInt2:
      return std::int64_t{rows.int2(row, column)};
    case kInt4:
      return std::int64_t{rows.int4(row, column)};
    case kInt8:
      return rows.int8(row, column);
    case kTimestamptz:
      return rows.timestamptz(row, column).time_since_epoch().count();
    case kBytea:
    case kName:
    case kText:
    case kVarchar:
    case kVoid:
    case kUuid:
      return std::string(rows.bytea(row, column));
    default:
      break;
  }
  DOVETAIL_CHECK(!"a type that no rule needs: cast it in the statement");
  return {};
}

SqlRows rows_of(const Rows& from) {
  const int columns = PQnfields(from.get());
  SqlRows rows(static_cast<std::size_t>(columns), from.affected());
  for (std::size_t row = 0; row < from.size(); ++row)
    for (int column = 0; column < columns; ++column) rows.add(value_of(from, row, column));
  return rows;
}

}  // namespace

Status PostgresSession::connect() {
  if (connection_) return {};
  return fail(Errc::unavailable, "the connection is closed; open it again");
}

Result<SqlRows> PostgresSession::run(std::string_view sql, const SqlParams& params) {
  const Result<Rows> rows = connection_.query(sql, params_of(params));
  if (!rows) return fail(rows.error());
  return rows_of(*rows);
}

Result<std::vector<SqlRows>> PostgresSession::run_each(std::string_view sql,
                                                       std::span<const SqlParams> each) {
  std::vector<Params> params;
  params.reserve(each.size());
  for (const SqlParams& one : each) params.push_back(params_of(one));
  const Result<std::vector<Rows>> answers = connection_.query_each(sql, params);
  if (!answers) return fail(answers.error());
  std::vector<SqlRows> all;
  all.reserve(answers->size());
  for (const Rows& rows : *answers) all.push_back(rows_of(rows));
  return all;
}

Status PostgresSession::begin(std::string_view) { return connection_.execute("BEGIN"); }

Status PostgresSession::commit(std::string_view) {
  Status committed = connection_.commit();
  if (!committed) rollback();
  return committed;
}

void PostgresSession::rollback() {
  if (connection_ && in_transaction() && !connection_.execute("ROLLBACK")) connection_.close();
}

bool PostgresSession::in_transaction() const {
  if (!connection_) return false;
  const auto state = PQtransactionStatus(connection_.get());
  return state == PQTRANS_INTRANS || state == PQTRANS_INERROR;
}

Status OwnSession::connect() {
  if (own_) return {};
  Result<Connection> connection = Connection::open(conninfo_, limit_);
  if (!connection) return fail(connection.error());
  own_ = std::move(*connection);
  own_.set_timeout(statement_limit_);
  return {};
}

Result<SqlRows> ServiceConnection::run(std::string_view sql, const SqlParams& params) {
  const Result<Rows> rows = postgres::run(connection_, sql, params_of(params));
  if (!rows) return fail(rows.error());
  return rows_of(*rows);
}

}  // namespace dovetail::postgres
