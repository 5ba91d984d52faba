#include "sqlite/connection/session.h"

#include <charconv>
#include <utility>

#include "core/check.h"
#include "host/host.h"

namespace dovetail::sqlite {

namespace {

struct Bind {
  Statement& statement;
  int parameter;
  void operator()(std::monostate) const { statement.bind_null(parameter); }
  void operator()(bool value) const { statement.bind(parameter, value ? 1 : 0); }
  void operator()(std::int64_t value) const { statement.bind(parameter, value); }
  void operator()(const SqlParams::Text& text) const { statement.bind_text(parameter, text.value); }
  void operator()(const SqlParams::Bytes& bytes) const {
    statement.bind_blob(parameter, bytes.value);
  }
  void operator()(const EventId& id) const { statement.bind_id(parameter, id); }
  void operator()(WallTime time) const { statement.bind(parameter, to_stored(time)); }
};

SqlRows::Value value_of(const Statement& statement, int column) {
  if (statement.is_null(column)) return {};
  if (statement.is_integer(column)) return statement.integer(column);
  return std::string(statement.bytes(column));
}

}  // namespace

SqliteSession::SqliteSession(std::string path, Durability durability, Clock& clock,
                             std::string boot)
    : path_(std::move(path)), durability_(durability), clock_(clock), boot_(std::move(boot)) {}

SqliteSession::SqliteSession(sqlite3* connection, Clock& clock, std::string boot)
    : clock_(clock), boot_(std::move(boot)), connection_(connection) {}

Status SqliteSession::connect() {
  if (connection_ != nullptr) return {};
  OpenOptions options;
  options.durability = durability_;
  Result<Database> database = open_store(path_, options);
  if (!database) return fail(database.error());
  DOVETAIL_TRY(opened(*database));
  database_ = std::move(*database);
  connection_ = database_.get();
  file_ = database_.file();
  return {};
}

void SqliteSession::close() {
  prepared_.clear();
  connection_ = nullptr;
  database_.close();
}

Result<SqliteSession::Prepared*> SqliteSession::prepare(std::string_view sql) {
  if (connection_ == nullptr)
    return fail(Errc::unavailable, "the connection is closed; open it again");
  if (const auto known = prepared_.find(sql); known != prepared_.end()) return &known->second;
  Result<Statement> statement = Statement::prepare(connection_, sql);
  if (!statement) return fail(statement.error());
  Prepared prepared;
  for (int i = 1; i <= statement->parameters(); ++i) {
    const std::string_view name = statement->parameter_name(i);
    if (name == ":now") prepared.now = i;
    if (name == ":boot_time") prepared.boot_time = i;
    if (name == ":boot") prepared.boot = i;
    if (name == ":user") prepared.user = i;
    if (name.starts_with(':')) continue;
    DOVETAIL_CHECK(name.starts_with('$'));
    std::size_t number = 0;
    std::from_chars(name.data() + 1, name.data() + name.size(), number);
    if (prepared.numbered.size() < number) prepared.numbered.resize(number);
    prepared.numbered[number - 1] = i;
  }
  prepared.statement = std::move(*statement);
  return &prepared_.emplace(sql, std::move(prepared)).first->second;
}

void SqliteSession::bind(Prepared& prepared, const SqlParams& params) {
  const std::span<const SqlParams::Value> values = params.values();
  DOVETAIL_CHECK(prepared.numbered.size() <= values.size());
  for (std::size_t i = 0; i < prepared.numbered.size(); ++i)
    if (prepared.numbered[i] != 0)
      std::visit(Bind{prepared.statement, prepared.numbered[i]}, values[i]);
  if (prepared.now != 0) prepared.statement.bind(prepared.now, to_stored(clock_.wall()));
  if (prepared.boot_time != 0)
    prepared.statement.bind(prepared.boot_time, clock_.now().time_since_epoch().count());
  if (prepared.boot != 0) prepared.statement.bind_text(prepared.boot, boot_);
  if (prepared.user != 0) {
    if (user_.empty()) user_ = user_name();
    prepared.statement.bind_text(prepared.user, user_);
  }
}

Result<SqlRows> SqliteSession::run(Prepared& prepared, const SqlParams& params) {
  bind(prepared, params);
  Statement& statement = prepared.statement;
  const Reading reading(statement);
  const int columns = statement.columns();
  SqlRows rows(static_cast<std::size_t>(columns));
  while (true) {
    const Result<bool> row = statement.step();
    if (!row) return fail(row.error());
    if (!*row) break;
    for (int column = 0; column < columns; ++column) rows.add(value_of(statement, column));
  }
  if (statement.writes()) rows.set_affected(statement.changes());
  return rows;
}

Result<SqlRows> SqliteSession::run(std::string_view sql, const SqlParams& params) {
  const Result<Prepared*> prepared = prepare(sql);
  if (!prepared) return fail(prepared.error());
  Result<SqlRows> rows = run(**prepared, params);
  // A statement alone is a transaction.
  if (rows && database_ && (*prepared)->statement.writes() && !in_transaction())
    checkpointer_.after_commit(connection_, file_);
  return rows;
}

Result<std::vector<SqlRows>> SqliteSession::run_each(std::string_view sql,
                                                     std::span<const SqlParams> each) {
  const Result<Prepared*> prepared = prepare(sql);
  if (!prepared) return fail(prepared.error());
  std::vector<SqlRows> all;
  all.reserve(each.size());
  for (const SqlParams& params : each) {
    Result<SqlRows> rows = run(**prepared, params);
    if (!rows) return fail(rows.error());
    all.push_back(std::move(*rows));
  }
  return all;
}

Status SqliteSession::begin(std::string_view doing) {
  if (connection_ == nullptr)
    return fail(Errc::unavailable, "the connection is closed; open it again");
  return begin_immediate(connection_, doing);
}

Status SqliteSession::commit(std::string_view doing) {
  DOVETAIL_TRY(sqlite::commit(connection_, doing));
  if (database_) checkpointer_.after_commit(connection_, file_);
  return {};
}

void SqliteSession::rollback() { sqlite::rollback(connection_); }

}  // namespace dovetail::sqlite
