#include "sqlite/consumer_row.h"

namespace dovetail::sqlite {

Result<ConsumerRow> find_consumer(sqlite3* transaction, std::string_view name, WallTime now) {
  Result<Statement> add = Statement::prepare(
      transaction,
      "INSERT INTO dovetail_consumer (name, created_at) VALUES (?1, ?2) ON CONFLICT (name) DO "
      "NOTHING");
  if (!add) return fail(add.error());
  DOVETAIL_TRY(add->bind_text(1, name).bind(2, to_stored(now)).run());
  Result<Statement> select = Statement::prepare(
      transaction, "SELECT id, clean, created_at FROM dovetail_consumer WHERE name = ?1");
  if (!select) return fail(select.error());
  const Result<bool> row = select->bind_text(1, name).step();
  if (!row) return fail(row.error());
  return ConsumerRow{select->integer(0), select->integer(1) != 0, from_stored(select->integer(2))};
}

Result<WallTime> forgotten_before(sqlite3* transaction) {
  Result<Statement> select =
      Statement::prepare(transaction, "SELECT forgotten_before FROM dovetail_inbox_state");
  if (!select) return fail(select.error());
  const Result<bool> row = select->step();
  if (!row) return fail(row.error());
  return from_stored(*row ? select->integer(0) : 0);
}

}  // namespace dovetail::sqlite
