// The application's API: publish and claim, inside its own transaction.
#include <sqlite3.h>

#include <array>

#include "core/inbox/forgotten.h"
#include "dovetail/sqlite.h"
#include "host/host.h"
#include "sqlite/connection/database.h"
#include "sqlite/connection/event_columns.h"
#include "sqlite/inbox/consumer_row.h"

namespace dovetail::sqlite {

namespace {

constexpr std::string_view kInsert =
    "INSERT INTO dovetail_outbox (id, topic, aggregate_type, aggregate_id, type, content_type, "
    "headers, payload, aggregate_version, created_at) VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9,?10) "
    "ON CONFLICT (id) DO NOTHING";

// Whether the row with this id has the same event. The time of publishing may differ.
constexpr std::string_view kSame =
    "SELECT topic = ?2 AND aggregate_type = ?3 AND aggregate_id = ?4 AND type = ?5 AND "
    "content_type = ?6 AND headers = ?7 AND CAST(payload AS BLOB) = ?8 AND aggregate_version = ?9 "
    "AND ?10 = ?10 FROM dovetail_outbox WHERE id = ?1";

Status require_transaction(sqlite3* connection, const char* what) {
  if (in_transaction(connection)) return {};
  return fail(Errc::rejected,
              std::string(what) +
                  " needs an open transaction, so that it commits together with your own changes; "
                  "BEGIN first, COMMIT afterwards");
}

// For an event whose row was just inserted. Removes the row, whatever the caller does next.
Status check_remembered(sqlite3* transaction, const ConsumerRow& consumer, const EventId& id) {
  const Result<WallTime> forgotten = forgotten_until(transaction, consumer.id);
  if (!forgotten) return fail(forgotten.error());
  Event event;
  event.id = id;
  if (!is_forgotten(event, *forgotten)) return {};
  const Result<bool> known = is_unapplied(transaction, consumer.id, id);
  if (!known) return fail(known.error());
  if (*known) return {};
  Result<Statement> remove = Statement::prepare(
      transaction, "DELETE FROM dovetail_inbox WHERE consumer_id = ?1 AND event_id = ?2");
  if (!remove) return fail(remove.error());
  DOVETAIL_TRY(remove->bind(1, consumer.id).bind_id(2, id).run());
  return fail(
      Errc::rejected,
      "event " + id.to_string() +
          " is older than what the inbox remembers, so it is unknown whether it was applied; "
          "check its effect, and keep inbox rows longer than any event can come again");
}

Result<EventId> insert(sqlite3* connection, Statement& statement, const NewEvent& event,
                       const EventLimits& limits) {
  DOVETAIL_TRY(require_transaction(connection, "publish()"));
  DOVETAIL_TRY(validate(event, limits));
  Result<std::string> headers =
      event.headers.empty() ? Result<std::string>(std::string()) : encode_headers(event.headers);
  if (!headers) return fail(headers.error());

  Event row;
  row.id = event.id ? *event.id : new_event_id();
  row.topic = event.topic;
  row.aggregate_type = event.aggregate_type;
  row.aggregate_id = event.aggregate_id;
  row.type = event.type;
  row.content_type = event.content_type;
  row.headers = *headers;
  row.payload = event.payload;
  row.aggregate_version = event.aggregate_version;
  row.created_at = system_clock().wall();
  bind_event(statement, row, 1);
  DOVETAIL_TRY(statement.run());
  if (statement.changes() == 1) return row.id;

  Result<Statement> same = Statement::prepare(connection, kSame);
  if (!same) return fail(same.error());
  bind_event(*same, row, 1);
  const Result<bool> found = same->step();
  if (!found) return fail(found.error());
  if (*found && same->integer(0) == 1) return row.id;
  return fail(Errc::rejected, "the event id " + row.id.to_string() +
                                  " was published already with other content; give each event its "
                                  "own id");
}

}  // namespace

Result<EventId> publish(sqlite3* connection, const NewEvent& event, const EventLimits& limits) {
  DOVETAIL_TRY(require_transaction(connection, "publish()"));
  Result<Statement> statement = Statement::prepare(connection, kInsert);
  if (!statement) return fail(statement.error());
  return insert(connection, *statement, event, limits);
}

struct Publisher::State {
  sqlite3* connection;
  EventLimits limits;
  Statement insert;
};

Publisher::Publisher(std::unique_ptr<State> state) : state_(std::move(state)) {}
Publisher::Publisher(Publisher&&) noexcept = default;
Publisher& Publisher::operator=(Publisher&&) noexcept = default;
Publisher::~Publisher() = default;

Result<Publisher> Publisher::open(sqlite3* connection, EventLimits limits) {
  DOVETAIL_TRY(check_schema(connection));
  Result<Statement> statement = Statement::prepare(connection, kInsert);
  if (!statement) return fail(statement.error());
  return Publisher(std::make_unique<State>(State{connection, limits, std::move(*statement)}));
}

Result<EventId> Publisher::publish(const NewEvent& event) {
  return insert(state_->connection, state_->insert, event, state_->limits);
}

Result<Claim::State> claim(sqlite3* transaction, std::string_view consumer, const EventId& id) {
  DOVETAIL_TRY(require_transaction(transaction, "claim()"));
  if (consumer.empty())
    return fail(Errc::rejected, "the consumer's name is empty; every consumer needs one");
  const WallTime now = system_clock().wall();
  const Result<ConsumerRow> row = find_consumer(transaction, consumer, now);
  if (!row) return fail(row.error());

  Result<Statement> insert = Statement::prepare(
      transaction,
      "INSERT INTO dovetail_inbox (consumer_id, event_id, applied_at) VALUES (?1, ?2, ?3) "
      "ON CONFLICT DO NOTHING");
  if (!insert) return fail(insert.error());
  DOVETAIL_TRY(insert->bind(1, row->id).bind_id(2, id).bind(3, to_stored(now)).run());
  const bool first = insert->changes() == 1;
  if (first) DOVETAIL_TRY(check_remembered(transaction, *row, id));

  Result<Statement> count = Statement::prepare(
      transaction,
      "UPDATE dovetail_consumer SET applied = applied + ?2, duplicates = duplicates + 1 - ?2 "
      "WHERE name = ?1");
  if (!count) return fail(count.error());
  DOVETAIL_TRY(count->bind_text(1, consumer).bind(2, first ? 1 : 0).run());
  return first ? Claim::State::first : Claim::State::duplicate;
}

}  // namespace dovetail::sqlite
