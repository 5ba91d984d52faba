#include "sqlite/inbox/inbox_store.h"

#include <sqlite3.h>

#include <algorithm>

#include "core/inbox/forgotten.h"
#include "core/inbox/guarded.h"
#include "sqlite/inbox/consumer_row.h"

namespace dovetail::sqlite {

namespace {

constexpr std::string_view kInsert =
    "INSERT INTO dovetail_inbox (consumer_id, event_id, applied_at, digest, available_at) VALUES "
    "(?1, ?2, ?3, ?4, ?5) ON CONFLICT DO NOTHING";
constexpr std::string_view kKnown =
    "SELECT digest FROM dovetail_inbox WHERE consumer_id = ?1 AND event_id = ?2";
constexpr std::string_view kTakeBack =
    "DELETE FROM dovetail_inbox WHERE consumer_id = ?1 AND event_id = ?2";
constexpr std::string_view kNoteUnapplied =
    "INSERT INTO dovetail_unapplied (consumer_id, event_id, since) VALUES (?1, ?2, ?3) "
    "ON CONFLICT DO NOTHING";
constexpr std::string_view kForgetUnapplied =
    "DELETE FROM dovetail_unapplied WHERE consumer_id = ?1 AND event_id = ?2";
constexpr std::string_view kAddTotals =
    "UPDATE dovetail_consumer SET applied = applied + ?2, duplicates = duplicates + ?3 "
    "WHERE id = ?1";
constexpr std::string_view kCountAttempt =
    "INSERT INTO dovetail_attempt (consumer_id, event_id, attempts, updated_at) "
    "VALUES (?1, ?2, max(0, ?3), ?4) ON CONFLICT (consumer_id, event_id) DO UPDATE "
    "SET attempts = max(0, attempts + ?3), updated_at = ?4 RETURNING attempts";
constexpr std::string_view kForgetAttempt =
    "DELETE FROM dovetail_attempt WHERE consumer_id = ?1 AND event_id = ?2";
constexpr std::string_view kAnyAttempts =
    "SELECT EXISTS (SELECT 1 FROM dovetail_attempt WHERE consumer_id = ?1)";

}  // namespace

BatchHandler for_each(Handler each) {
  if (!each) return nullptr;
  return [each = std::move(each)](sqlite3* transaction, Events events) -> Status {
    for (const Event* event : events) DOVETAIL_TRY(each(transaction, *event));
    return {};
  };
}

SqliteInboxStore::SqliteInboxStore(std::string path, std::string consumer,
                                   std::vector<TransactionHandler> handlers, Clock& clock)
    : path_(std::move(path)),
      consumer_(std::move(consumer)),
      handlers_(std::move(handlers)),
      clock_(clock) {}

SqliteInboxStore::SqliteInboxStore(std::string path, std::string consumer, Handler handler,
                                   Clock& clock)
    : SqliteInboxStore(std::move(path), consumer,
                       {TransactionHandler{consumer, {}, for_each(std::move(handler))}}, clock) {}

SqliteInboxStore::~SqliteInboxStore() = default;

Result<bool> SqliteInboxStore::open() {
  // Statements of the handler would keep the old connection and its transaction open.
  rollback();
  Result<Database> database = open_store(path_);
  if (!database) return fail(database.error());
  database_ = std::move(*database);
  file_ = database_.file();
  sqlite3_commit_hook(
      database_.get(),
      [](void* self) {
        auto* store = static_cast<SqliteInboxStore*>(self);
        store->commit_tried_ |= store->in_handler_;
        return store->in_handler_ ? 1 : 0;
      },
      this);
  sqlite3_rollback_hook(
      database_.get(),
      [](void* self) {
        auto* store = static_cast<SqliteInboxStore*>(self);
        store->rolled_back_ |= store->in_handler_;
      },
      this);
  // A rollback by SQLite itself says nothing about the handler; a rollback by the handler
  // does.
  sqlite3_set_authorizer(
      database_.get(),
      [](void* self, int action, const char* what, const char*, const char*, const char*) {
        auto* store = static_cast<SqliteInboxStore*>(self);
        if (store->in_handler_ && action == SQLITE_TRANSACTION && what != nullptr)
          store->rollback_asked_ |= std::string_view(what) == "ROLLBACK";
        return SQLITE_OK;
      },
      this);
  DOVETAIL_TRY(prepare());
  Result<bool> clean = start_session();
  if (!clean) return clean;
  // A reconnect of a living session does not show a death.
  return std::exchange(session_open_, true) || *clean;
}

Status SqliteInboxStore::prepare() {
  DOVETAIL_TRY(database_.prepare(insert_, kInsert));
  DOVETAIL_TRY(database_.prepare(take_back_, kTakeBack));
  DOVETAIL_TRY(database_.prepare(known_, kKnown));
  DOVETAIL_TRY(database_.prepare(note_unapplied_, kNoteUnapplied));
  DOVETAIL_TRY(database_.prepare(forget_unapplied_, kForgetUnapplied));
  DOVETAIL_TRY(database_.prepare(add_totals_, kAddTotals));
  DOVETAIL_TRY(database_.prepare(count_attempt_, kCountAttempt));
  DOVETAIL_TRY(database_.prepare(forget_attempt_, kForgetAttempt));
  return database_.prepare(any_attempts_, kAnyAttempts);
}

Result<bool> SqliteInboxStore::start_session() {
  Result<Transaction> transaction = Transaction::begin(database_.get(), "opening the inbox");
  if (!transaction) return fail(transaction.error());
  const Result<ConsumerRow> row = find_consumer(database_.get(), consumer_, clock_.wall());
  if (!row) return fail(row.error());
  consumer_id_ = row->id;
  known_handlers_.clear();
  for (const TransactionHandler& handler : handlers_) {
    const Result<ConsumerRow> of_handler =
        find_consumer(database_.get(), handler.name, clock_.wall());
    if (!of_handler) return fail(of_handler.error());
    known_handlers_.push_back(Known{of_handler->id});
  }
  Result<Statement> mark =
      database_.prepare("UPDATE dovetail_consumer SET clean = 0 WHERE id = ?1");
  if (!mark) return fail(mark.error());
  DOVETAIL_TRY(mark->bind(1, consumer_id_).run());
  DOVETAIL_TRY(look_for_attempts());
  DOVETAIL_TRY(transaction->commit("opening the inbox"));
  return row->clean;
}

Status SqliteInboxStore::look_for_attempts() {
  const Result<bool> row = any_attempts_.bind(1, consumer_id_).step();
  if (!row) return fail(row.error());
  counts_attempts_ = any_attempts_.integer(0) != 0;
  any_attempts_.reset();
  return {};
}

Status SqliteInboxStore::begin() {
  if (!database_ || !session_open_)
    return fail(Errc::unavailable, "the inbox is closed; call open() first");
  return begin_immediate(database_.get(), "opening an inbox transaction");
}

Status SqliteInboxStore::insert(Events events, std::span<Arrival> arrivals) {
  const Status inserted = insert_all(events, arrivals);
  if (!inserted) rollback();
  return inserted;
}

Status SqliteInboxStore::insert_all(Events events, std::span<Arrival> arrivals) {
  batch_.begin(events);
  for (Known& handler : known_handlers_) {
    const Result<WallTime> forgotten = forgotten_until(database_.get(), handler.id);
    if (!forgotten) return fail(forgotten.error());
    handler.forgotten_until = *forgotten;
  }
  insert_.bind(3, to_stored(clock_.wall()));
  for (std::uint32_t i = 0; i < events.size(); ++i) {
    for (std::uint32_t h = 0; h < handlers_.size(); ++h) {
      if (!wants_type(handlers_[h].types, events[i]->type)) continue;
      HandlerRow& row = batch_.rows.emplace_back();
      row.event = i;
      row.handler = h;
      DOVETAIL_TRY(insert_one(*events[i], row));
    }
    if (counts_attempts_)
      DOVETAIL_TRY(forget_attempt_.bind(1, consumer_id_).bind_id(2, events[i]->id).run());
  }
  batch_.tell(arrivals);
  return {};
}

Status SqliteInboxStore::insert_one(const Event& event, HandlerRow& row) {
  const Known& handler = known_handlers_[row.handler];
  insert_.bind(1, handler.id);
  DOVETAIL_TRY(bind_payload(insert_.bind_id(2, event.id), 4, event).run());
  const Result<Arrival> arrival =
      insert_.changes() == 1 ? check_first(event, handler) : compare(event, handler);
  if (!arrival) return fail(arrival.error());
  row.arrival = *arrival;
  return {};
}

// Its row was just inserted; it is removed again if the event may have been applied before.
Result<Arrival> SqliteInboxStore::check_first(const Event& event, const Known& handler) {
  const bool is_old = is_forgotten(event, handler.forgotten_until);
  if (is_old) {
    const Result<bool> known = is_unapplied(database_.get(), handler.id, event.id);
    if (!known) return fail(known.error());
    if (!*known) {
      DOVETAIL_TRY(take_back_.bind(1, handler.id).bind_id(2, event.id).run());
      return Arrival::forgotten;
    }
  }
  if (counts_attempts_ || is_old)
    DOVETAIL_TRY(forget_unapplied_.bind(1, handler.id).bind_id(2, event.id).run());
  return Arrival::first;
}

Result<Arrival> SqliteInboxStore::compare(const Event& event, const Known& handler) {
  const Reading reading(known_);
  const Result<bool> row = known_.bind(1, handler.id).bind_id(2, event.id).step();
  if (!row) return fail(row.error());
  return *row && is_other_payload(known_, 0, event) ? Arrival::conflict : Arrival::duplicate;
}

bool SqliteInboxStore::wants(const Event& event) const { return any_wants(handlers_, event.type); }

Status SqliteInboxStore::apply(Events events) {
  batch_.choose(events);
  for (std::uint32_t h = 0; h < handlers_.size(); ++h) {
    const Events wanted = batch_.events_for(h);
    if (!wanted.empty()) DOVETAIL_TRY(run_handler(handlers_[h], wanted));
  }
  return {};
}

Status SqliteInboxStore::run_handler(const TransactionHandler& handler, Events events) {
  commit_tried_ = rolled_back_ = rollback_asked_ = false;
  in_handler_ = true;
  Status applied = guarded([&] { return handler.run(database_.get(), events); });
  in_handler_ = false;
  const bool is_ended = rolled_back_ || !in_transaction(database_.get());
  if (commit_tried_ || (rollback_asked_ && is_ended))
    return fail(Errc::rejected,
                "the handler ended the transaction, which it must not do; nothing was "
                "committed; check the handler for COMMIT, END and ROLLBACK");
  if (applied && is_ended)
    return fail(
        Errc::failed,
        "the transaction was rolled back inside the handler; check that the handler checks every "
        "error of SQLite");
  return applied;
}

Status SqliteInboxStore::commit(std::uint64_t applied, std::uint64_t duplicates) {
  applied -= std::min(batch_.unwanted(), applied);
  add_totals_.bind(1, consumer_id_)
      .bind(2, static_cast<std::int64_t>(applied))
      .bind(3, static_cast<std::int64_t>(duplicates));
  if (Status added = add_totals_.run(); !added) {
    rollback();
    return added;
  }
  DOVETAIL_TRY(sqlite::commit(database_.get(), "committing the inbox"));
  if (counts_attempts_) DOVETAIL_TRY(look_for_attempts());
  checkpointer_.after_commit(database_.get(), file_);
  return {};
}

void SqliteInboxStore::rollback() { sqlite::rollback(database_.get()); }

Result<std::uint32_t> SqliteInboxStore::count_attempt(const EventId& id, std::int64_t change) {
  if (!database_) return fail(Errc::unavailable, "the inbox is closed; call open() first");
  Result<Transaction> transaction = Transaction::begin(database_.get(), "counting an attempt");
  if (!transaction) return fail(transaction.error());
  count_attempt_.bind(1, consumer_id_)
      .bind_id(2, id)
      .bind(3, change)
      .bind(4, to_stored(clock_.wall()));
  const Result<bool> row = count_attempt_.step();
  if (!row) return fail(row.error());
  const auto attempts = static_cast<std::uint32_t>(count_attempt_.integer(0));
  count_attempt_.reset();
  if (attempts == 0)
    DOVETAIL_TRY(forget_attempt_.bind(1, consumer_id_).bind_id(2, id).run());
  else
    counts_attempts_ = true;
  // Only unapplied events are tried, and a parked event may be replayed at any age.
  if (change > 0)
    for (const std::uint32_t handler : batch_.not_applied_by(id))
      DOVETAIL_TRY(note_unapplied_.bind(1, known_handlers_[handler].id)
                       .bind_id(2, id)
                       .bind(3, to_stored(clock_.wall()))
                       .run());
  DOVETAIL_TRY(transaction->commit("counting an attempt"));
  return attempts;
}

Status SqliteInboxStore::close() {
  if (!database_) return {};
  rollback();
  Result<Statement> mark =
      database_.prepare("UPDATE dovetail_consumer SET clean = 1 WHERE id = ?1");
  if (!mark) return fail(mark.error());
  DOVETAIL_TRY(mark->bind(1, consumer_id_).run());
  session_open_ = false;
  return {};
}

}  // namespace dovetail::sqlite
