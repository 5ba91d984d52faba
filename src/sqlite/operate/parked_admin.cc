// What an operator sees and decides about parked events.
#include <algorithm>

#include "sqlite/connection/database.h"
#include "sqlite/lane/parked_rows.h"
#include "sqlite/operate/admin.h"
#include "sqlite/operate/audit.h"

namespace dovetail::sqlite {

namespace {

struct Parked {
  std::int64_t number = 0;
  std::string relay;
  std::string state;
  bool head = false;
  bool finished = false;
  std::string aggregate_type;
  std::string aggregate_id;
};

// All rows of the event, one for each reader that parked it.
Result<std::vector<Parked>> find(Database& database, std::string_view reader, const EventId& id) {
  Result<Statement> select = database.prepare(
      "SELECT number, relay, state, at_head, finished_at, aggregate_type, aggregate_id FROM "
      "dovetail_parked WHERE id = ?1 AND (?2 = '' OR relay = ?2) ORDER BY finished_at > 0, "
      "relay");
  if (!select) return fail(select.error());
  select->bind_id(1, id).bind_text(2, reader);
  std::vector<Parked> rows;
  while (true) {
    const Result<bool> row = select->step();
    if (!row) return fail(row.error());
    if (!*row) break;
    rows.push_back(Parked{select->integer(0), std::string(select->bytes(1)),
                          std::string(select->bytes(2)), select->integer(3) != 0,
                          select->integer(4) != 0, std::string(select->bytes(5)),
                          std::string(select->bytes(6))});
  }
  const std::string whose =
      reader.empty() ? std::string() : " for relay \"" + std::string(reader) + "\"";
  if (rows.empty())
    return fail(Errc::rejected, "the event " + id.to_string() + " is not parked" + whose +
                                    "; check the id with `dovetail parked`");
  if (rows.front().finished)
    return fail(Errc::rejected, "the event " + id.to_string() + " is already finished: it was " +
                                    rows.front().state + "; nothing is left to do");
  std::erase_if(rows, [](const Parked& row) { return row.finished; });
  return rows;
}

// Names the event that has to be decided first.
Error behind_another(Database& database, const EventId& id, const Parked& row) {
  std::string head = "another event";
  Result<Statement> select = database.prepare(
      "SELECT id FROM dovetail_parked INDEXED BY dovetail_parked_head WHERE relay = ?1 AND "
      "aggregate_type = ?2 AND aggregate_id = ?3 AND at_head = 1");
  if (select) {
    select->bind_text(1, row.relay).bind_text(2, row.aggregate_type).bind_text(3, row.aggregate_id);
    if (const Result<bool> found = select->step(); found && *found)
      head = select->id(0).to_string();
  }
  return Error{Errc::rejected,
               "the event " + id.to_string() + " waits behind " + head + " of the key " +
                   row.aggregate_type + "/" + row.aggregate_id +
                   "; replay or discard that one first, then this one follows automatically"};
}

constexpr std::string_view kReplay =
    "UPDATE dovetail_parked SET state = 'waiting', attempts = 0, retry_at = ?1, "
    "note = 'replay asked for' WHERE ";

}  // namespace

Result<std::vector<ParkedRow>> list_parked(const std::string& path, const ParkedFilter& filter) {
  Result<Database> database = open_store(path);
  if (!database) return fail(database.error());
  std::string sql =
      "SELECT number, relay, id, position, state, at_head, attempts, reason, note, topic, "
      "aggregate_type, aggregate_id, type, length(payload), parked_at, retry_at, finished_at "
      "FROM dovetail_parked WHERE number > ?1 AND (?2 = '' OR relay = ?2) AND "
      "(?3 = '' OR aggregate_id = ?3) AND (?5 = '' OR aggregate_type = ?5) AND (?6 = '' OR type = "
      "?6) "
      "AND (?7 = '' OR instr(reason, ?7) > 0)";
  EventId id;
  if (!filter.id.empty()) {
    const Result<EventId> parsed = EventId::parse(filter.id);
    if (!parsed) return fail(parsed.error());
    id = *parsed;
    sql += " AND id = ?8";
  }
  if (!filter.with_finished) sql += " AND finished_at = 0";
  if (filter.heads_only) sql += " AND at_head = 1";
  sql += " ORDER BY number LIMIT ?4";
  Result<Statement> select = database->prepare(sql);
  if (!select) return fail(select.error());
  select->bind(1, filter.after)
      .bind_text(2, filter.relay)
      .bind_text(3, filter.key)
      .bind(4, static_cast<std::int64_t>(filter.limit))
      .bind_text(5, filter.aggregate_type)
      .bind_text(6, filter.type)
      .bind_text(7, filter.reason_contains);
  if (!filter.id.empty()) select->bind_id(8, id);
  std::vector<ParkedRow> rows;
  while (true) {
    const Result<bool> row = select->step();
    if (!row) return fail(row.error());
    if (!*row) return rows;
    ParkedRow& parked = rows.emplace_back();
    parked.number = select->integer(0);
    parked.relay = std::string(select->bytes(1));
    parked.id = select->id(2);
    parked.position = select->integer(3);
    parked.state = parse_event_state(select->bytes(4)).value_or(EventState::parked);
    parked.head = select->integer(5) != 0;
    parked.attempts = static_cast<std::uint32_t>(select->integer(6));
    parked.reason = std::string(select->bytes(7));
    parked.note = std::string(select->bytes(8));
    parked.topic = std::string(select->bytes(9));
    parked.aggregate_type = std::string(select->bytes(10));
    parked.aggregate_id = std::string(select->bytes(11));
    parked.type = std::string(select->bytes(12));
    parked.payload_bytes = static_cast<std::uint64_t>(select->integer(13));
    parked.parked_at = from_stored(select->integer(14));
    parked.retry_at = from_stored(select->integer(15));
    parked.finished_at = from_stored(select->integer(16));
  }
}

Result<std::uint64_t> replay_event(const std::string& path, std::string_view reader,
                                   const EventId& id, Clock& clock) {
  Result<Database> database = open_store(path);
  if (!database) return fail(database.error());
  Result<Transaction> transaction = Transaction::begin(database->get(), "replaying");
  if (!transaction) return fail(transaction.error());
  const Result<std::vector<Parked>> rows = find(*database, reader, id);
  if (!rows) return fail(rows.error());
  Result<Statement> update = database->prepare(std::string(kReplay) + "number = ?2");
  if (!update) return fail(update.error());
  for (const Parked& row : *rows) {
    if (!row.head) return fail(behind_another(*database, id, row));
    DOVETAIL_TRY(update->bind(1, to_stored(clock.wall())).bind(2, row.number).run());
  }
  DOVETAIL_TRY(write_audit(*database,
                           {.what = "replay",
                            .relay = std::string(reader),
                            .subject = id.to_string(),
                            .events = rows->size()},
                           clock));
  DOVETAIL_TRY(transaction->commit("replaying"));
  return rows->size();
}

Result<std::uint64_t> replay_key(const std::string& path, std::string_view reader,
                                 std::string_view aggregate_type, std::string_view aggregate_id,
                                 Clock& clock) {
  Result<Database> database = open_store(path);
  if (!database) return fail(database.error());
  Result<Statement> update = database->prepare(
      std::string(kReplay) +
      "at_head = 1 AND (?2 = '' OR relay = ?2) AND (?3 = '' OR aggregate_type = ?3) AND "
      "aggregate_id = ?4 AND aggregate_id <> ''");
  if (!update) return fail(update.error());
  update->bind(1, to_stored(clock.wall()))
      .bind_text(2, reader)
      .bind_text(3, aggregate_type)
      .bind_text(4, aggregate_id);
  DOVETAIL_TRY(update->run());
  if (update->changes() == 0)
    return fail(Errc::rejected, "no event of the key \"" +
                                    std::string(aggregate_id.substr(0, 100)) +
                                    "\" is parked; check the key with `dovetail parked`");
  return static_cast<std::uint64_t>(update->changes());
}

Result<std::uint64_t> replay_all(const std::string& path, std::string_view reader, Clock& clock) {
  Result<Database> database = open_store(path);
  if (!database) return fail(database.error());
  Result<Statement> update =
      database->prepare(std::string(kReplay) + "at_head = 1 AND (?2 = '' OR relay = ?2)");
  if (!update) return fail(update.error());
  DOVETAIL_TRY(update->bind(1, to_stored(clock.wall())).bind_text(2, reader).run());
  return static_cast<std::uint64_t>(update->changes());
}

Status discard(const std::string& path, std::string_view reader, const EventId& id,
               std::string_view reason, Clock& clock) {
  const std::string note = stored_reason(reason);
  if (note.empty())
    return fail(Errc::rejected,
                "a discard needs a reason, which is recorded; say why you give up the event");
  Result<Database> database = open_store(path);
  if (!database) return fail(database.error());
  Result<Transaction> transaction = Transaction::begin(database->get(), "discarding");
  if (!transaction) return fail(transaction.error());
  const Result<std::vector<Parked>> rows = find(*database, reader, id);
  if (!rows) return fail(rows.error());
  if (rows->size() > 1)
    return fail(Errc::rejected, "several readers parked the event " + id.to_string() +
                                    "; name the reader that should give it up");
  const Parked& row = rows->front();
  if (!row.head) return fail(behind_another(*database, id, row));
  Result<Statement> update = database->prepare(
      "UPDATE dovetail_parked SET state = 'discarded', at_head = 0, finished_at = ?1, note = ?2 "
      "WHERE number = ?3");
  if (!update) return fail(update.error());
  DOVETAIL_TRY(
      update->bind(1, to_stored(clock.wall())).bind_text(2, note).bind(3, row.number).run());
  ParkedHeads heads;
  DOVETAIL_TRY(heads.prepare(*database));
  DOVETAIL_TRY(heads.refresh(row.relay, row.aggregate_type, row.aggregate_id));
  DOVETAIL_TRY(write_audit(*database,
                           {.what = "discard",
                            .relay = row.relay,
                            .subject = id.to_string(),
                            .events = 1,
                            .reason = note},
                           clock));
  return transaction->commit("discarding");
}

}  // namespace dovetail::sqlite
