#include "sqlite/inbox/consumer_row.h"

#include "core/inbox/forgotten.h"

namespace dovetail::sqlite {

Result<ConsumerRow> find_consumer(sqlite3* transaction, std::string_view name, WallTime now) {
  Result<Statement> add = Statement::prepare(
      transaction,
      "INSERT INTO dovetail_consumer (name, created_at) VALUES (?1, ?2) ON CONFLICT (name) DO "
      "NOTHING");
  if (!add) return fail(add.error());
  DOVETAIL_TRY(add->bind_text(1, name).bind(2, to_stored(now)).run());
  Result<Statement> select =
      Statement::prepare(transaction, "SELECT id, clean FROM dovetail_consumer WHERE name = ?1");
  if (!select) return fail(select.error());
  const Result<bool> row = select->bind_text(1, name).step();
  if (!row) return fail(row.error());
  return ConsumerRow{select->integer(0), select->integer(1) != 0};
}

Result<WallTime> forgotten_until(sqlite3* transaction, std::int64_t consumer_id) {
  Result<Statement> select = Statement::prepare(
      transaction, "SELECT forgotten_until FROM dovetail_consumer WHERE id = ?1");
  if (!select) return fail(select.error());
  const Result<bool> row = select->bind(1, consumer_id).step();
  if (!row) return fail(row.error());
  return from_stored(*row ? select->integer(0) : 0);
}

Result<bool> is_unapplied(sqlite3* transaction, std::int64_t consumer_id, const EventId& id) {
  Result<Statement> select = Statement::prepare(
      transaction, "SELECT 1 FROM dovetail_unapplied WHERE consumer_id = ?1 AND event_id = ?2");
  if (!select) return fail(select.error());
  return select->bind(1, consumer_id).bind_id(2, id).step();
}

Statement& bind_payload(Statement& statement, int column, const Event& event) {
  statement.bind(column, payload_digest(event.payload));
  const std::optional<WallTime> time = available_at(event);
  if (!time || time == time_of(event.id)) return statement.bind_null(column + 1);
  return statement.bind(column + 1, to_stored(*time));
}

bool is_other_payload(const Statement& row, int column, const Event& event) {
  return !row.is_null(column) && row.integer(column) != payload_digest(event.payload);
}

}  // namespace dovetail::sqlite
