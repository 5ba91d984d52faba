#include "postgres/inbox/inbox_store.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "core/check.h"
#include "core/inbox/forgotten.h"
#include "core/inbox/guarded.h"
#include "core/inbox/handler_batch.h"
#include "postgres/inbox/version_guard.h"
#include "postgres/schema/schema.h"

namespace dovetail::postgres {

namespace {

using Answer = Pipeline::Answer;

// READ COMMITTED, because the time of forgetting must be read after waiting for the transaction
// that deletes rows.
constexpr std::string_view kBegin = "BEGIN ISOLATION LEVEL READ COMMITTED, READ WRITE";
// A consumer that stalls, or whose machine disappears, would block others on its inserted rows
// until the server notices, which takes hours by default. If the operator has set a limit, it
// stays. The source is told after the commit, so a crash of the server must not lose the commit,
// whatever the server's default is.
constexpr std::string_view kSettings =
    "SELECT CASE WHEN current_setting('idle_in_transaction_session_timeout') = '0' THEN "
    "set_config('idle_in_transaction_session_timeout', $1, true) END, "
    "CASE WHEN current_setting('synchronous_commit') = 'off' THEN "
    "set_config('synchronous_commit', 'on', true) END";
// The epoch (1970) means "the time in the id".
constexpr std::string_view kInsert =
    "INSERT INTO dovetail.inbox (event_id, consumer_id, digest, available_at) SELECT arrived.id, "
    "arrived.consumer, arrived.digest, nullif(arrived.available_at, 'epoch') FROM "
    "unnest($1::uuid[], $2::int[], $3::int8[], $4::timestamptz[]) AS arrived (id, consumer, "
    "digest, "
    "available_at) ON CONFLICT DO NOTHING RETURNING event_id, consumer_id";
constexpr std::string_view kForgotten =
    "SELECT consumer_id, until FROM dovetail.forgetting WHERE consumer_id = ANY ($1)";
constexpr std::string_view kKnown =
    "SELECT event_id, consumer_id, digest FROM dovetail.inbox WHERE event_id = ANY ($1::uuid[])";
// Takes the events out that are known as not applied, and returns them.
constexpr std::string_view kTakeUnapplied =
    "DELETE FROM dovetail.unapplied AS u USING dovetail.forgetting AS f WHERE u.event_id = ANY "
    "($1::uuid[]) AND u.consumer_id = ANY ($2) AND f.consumer_id = u.consumer_id AND "
    "(u.by_operator "
    "OR f.exact) RETURNING u.event_id, u.consumer_id";
constexpr std::string_view kNoteUnapplied =
    "INSERT INTO dovetail.unapplied (event_id, consumer_id) SELECT $1, unnest($2::int[]) ON "
    "CONFLICT DO NOTHING";
constexpr std::string_view kForgetAttempts =
    "WITH applied AS (DELETE FROM dovetail.unapplied WHERE event_id = ANY ($1::uuid[]) AND "
    "consumer_id = ANY ($3)) "
    "DELETE FROM dovetail.attempt WHERE event_id = ANY ($1::uuid[]) AND consumer_id = $2";
constexpr std::string_view kAnyAttempts =
    "SELECT EXISTS (SELECT FROM dovetail.attempt WHERE consumer_id = $1)";
constexpr std::string_view kAddTotals =
    "UPDATE dovetail.consumer_session SET applied = applied + $3, duplicates = duplicates + $4, "
    "superseded = superseded + $5, updated_at = now() WHERE consumer_id = $1 AND session = $2";
constexpr std::string_view kCountAttempt =
    "INSERT INTO dovetail.attempt AS known (event_id, consumer_id, attempts) "
    "VALUES ($1, $2, greatest(0, $3)) ON CONFLICT (event_id, consumer_id) DO UPDATE "
    "SET attempts = greatest(0, known.attempts + $3), updated_at = clock_timestamp() "
    "RETURNING attempts";
constexpr std::string_view kForgetAttempt =
    "DELETE FROM dovetail.attempt WHERE event_id = $1 AND consumer_id = $2 AND attempts = 0";
constexpr std::string_view kIds =
    "SELECT name, id FROM dovetail.consumer WHERE name = ANY ($1::text[])";
constexpr std::string_view kMakeIds =
    "INSERT INTO dovetail.consumer (name) SELECT unnest($1::text[]) ON CONFLICT DO NOTHING";
// The outer query does not see the changes of the insert.
constexpr std::string_view kStartSession =
    "WITH started AS (INSERT INTO dovetail.consumer_session (consumer_id, session, clean) "
    "VALUES ($1, $2, false) ON CONFLICT (consumer_id, session) DO UPDATE SET clean = false, "
    "updated_at = clock_timestamp()) SELECT coalesce((SELECT clean FROM dovetail.consumer_session "
    "WHERE consumer_id = $1 AND session = $2), true)";
constexpr std::string_view kEndSession =
    "UPDATE dovetail.consumer_session SET clean = true, updated_at = clock_timestamp() "
    "WHERE consumer_id = $1 AND session = $2";

std::vector<InboxKey> keys_of(const Rows& rows) {
  std::vector<InboxKey> keys;
  for (std::size_t i = 0; i < rows.size(); ++i) keys.emplace_back(rows.uuid(i, 0), rows.int4(i, 1));
  return keys;
}

}  // namespace

TransactionHandler cpp_handler(std::string name, std::vector<std::string> types, Handler each) {
  return {std::move(name), std::move(types),
          [each = std::move(each)](BatchInvocation& invocation, Events events) -> Status {
            for (const Event* event : events) DOVETAIL_TRY(each(invocation, *event));
            return Status{};
          }};
}

TransactionHandler cpp_batch_handler(std::string name, std::vector<std::string> types,
                                     BatchHandler batch) {
  return {std::move(name), std::move(types),
          [batch = std::move(batch)](BatchInvocation& invocation, Events events) {
            return batch(invocation, events);
          }};
}

struct PostgresInboxStore::State {
  // A handler as the database knows it.
  struct Known {
    std::int32_t id = 0;
    WallTime forgotten_until = WallTime::min();
  };

  explicit State(InboxStoreOptions given) : options(std::move(given)) {}

  Status connect();
  Status read_ids(Connection& connection);
  Status begin_if_needed();
  void list_rows(Events events);
  Status insert_rows();
  bool moved_line(const Rows& lines);
  Status send_insert(const std::vector<const HandlerRow*>& chosen);
  Status look_for_known();
  Status insert_unapplied();
  Status leave_late_ones();
  bool is_forgotten(const Event& event, std::size_t handler) const {
    return dovetail::is_forgotten(event, handlers[handler].forgotten_until);
  }
  std::vector<std::int32_t> handler_ids() const;
  void rollback();
  Params lane_params() const {
    return Params().int4(consumer_id).int4(static_cast<std::int32_t>(options.lane));
  }

  InboxStoreOptions options;
  Pipeline pipeline{};
  std::int32_t consumer_id = 0;
  std::vector<Known> handlers{};  // one for each handler of the options
  bool counts_attempts = false;   // some event has attempts: remove them when it is applied
  bool session_open = false;
  bool is_begun = false;  // on the server
  bool broke = false;     // the connection broke in the last apply()

  // For the open transaction.
  HandlerBatch batch{};        // its rows are in the order of insertion
  bool is_line_moved = false;  // since the rows were built
  VersionGuard guard{};
};

PostgresInboxStore::PostgresInboxStore(InboxStoreOptions options)
    : state_(std::make_unique<State>(std::move(options))) {}
PostgresInboxStore::~PostgresInboxStore() = default;

Status PostgresInboxStore::State::connect() {
  is_begun = false;
  pipeline.close();
  Result<Connection> opened = Connection::open(options.conninfo);
  if (!opened) return fail(opened.error());
  const Result<std::int64_t> version = check_schema(*opened);
  if (!version) return fail(version.error());
  DOVETAIL_TRY(read_ids(*opened));
  for (const TransactionHandler& handler : options.handlers)
    if (handler.check) DOVETAIL_TRY(handler.check(*opened));
  const Result<Rows> attempts = opened->query(kAnyAttempts, Params().int4(consumer_id));
  if (!attempts) return fail(attempts.error());
  counts_attempts = attempts->boolean(0, 0);
  pipeline = Pipeline(std::move(*opened));
  return {};
}

Status PostgresInboxStore::State::read_ids(Connection& connection) {
  std::vector<std::string_view> names{options.consumer};
  std::set<std::string_view> different;
  for (const TransactionHandler& handler : options.handlers) {
    if (!different.insert(handler.name).second)
      return fail(Errc::rejected,
                  "two handlers have the name \"" + handler.name + "\"; give each its own name");
    names.push_back(handler.name);
  }
  std::map<std::string, std::int32_t, std::less<>> ids;
  for (const bool is_made : {false, true}) {
    const Result<Rows> known = connection.query(kIds, Params().text_array(names));
    if (!known) return fail(known.error());
    for (std::size_t row = 0; row < known->size(); ++row)
      ids.emplace(known->text(row, 0), known->int4(row, 1));
    const auto is_new = [&](std::string_view name) { return ids.find(name) == ids.end(); };
    if (is_made || std::none_of(names.begin(), names.end(), is_new)) break;
    const Result<Rows> made = connection.query(kMakeIds, Params().text_array(names));
    if (!made) return fail(made.error());
  }
  consumer_id = ids.at(options.consumer);
  handlers.clear();
  for (const TransactionHandler& handler : options.handlers)
    handlers.push_back(Known{ids.at(handler.name)});
  return {};
}

Result<bool> PostgresInboxStore::open() {
  State& state = *state_;
  DOVETAIL_TRY(state.connect());
  DOVETAIL_TRY(state.pipeline.send(kStartSession, state.lane_params(), Answer::kept));
  DOVETAIL_TRY(state.pipeline.finish());
  const bool clean = state.pipeline.take_rows().at(0).boolean(0, 0);
  // A reconnect of a living session does not show a death.
  return std::exchange(state.session_open, true) || clean;
}

// The server learns of it with the first statement.
Status PostgresInboxStore::begin() {
  State& state = *state_;
  if (!state.session_open) return fail(Errc::unavailable, "the inbox is closed; call open() first");
  state.rollback();
  return state.pipeline ? Status{} : state.connect();
}

Status PostgresInboxStore::State::begin_if_needed() {
  if (is_begun) return {};
  is_begun = true;
  DOVETAIL_TRY(pipeline.send(kBegin));
  const auto limit = std::chrono::floor<std::chrono::milliseconds>(options.handlers_timeout);
  const std::string text = std::to_string(limit.count());
  return pipeline.send(kSettings, Params().text(text));
}

std::vector<std::int32_t> PostgresInboxStore::State::handler_ids() const {
  std::vector<std::int32_t> ids;
  for (const Known& handler : handlers) ids.push_back(handler.id);
  return ids;
}

void PostgresInboxStore::State::list_rows(Events events) {
  batch.begin(events);
  std::vector<HandlerRow>& rows = batch.rows;
  for (std::uint32_t i = 0; i < events.size(); ++i) {
    const std::int64_t digest = payload_digest(events[i]->payload);
    for (std::uint32_t h = 0; h < options.handlers.size(); ++h)
      if (wants_type(options.handlers[h].types, events[i]->type))
        rows.push_back(
            HandlerRow{events[i]->id, handlers[h].id, i, h, digest, is_forgotten(*events[i], h)});
  }
  for (HandlerRow& row : rows)
    if (row.is_forgotten) row.arrival = Arrival::forgotten;
  guard.clear();
  if (options.version_guard)
    for (const HandlerRow& row : rows) guard.add(row.handler_id, batch.event_of(row));
  sort_rows(rows);
}

Status PostgresInboxStore::State::send_insert(const std::vector<const HandlerRow*>& chosen) {
  std::vector<EventId> ids;
  std::vector<std::int32_t> of_handlers;
  std::vector<std::int64_t> digests;
  std::vector<WallTime> times;
  for (const HandlerRow* row : chosen) {
    ids.push_back(row->id);
    of_handlers.push_back(row->handler_id);
    digests.push_back(row->digest);
    const std::optional<WallTime> time = available_at(batch.event_of(*row));
    times.push_back(time == time_of(row->id) ? WallTime{} : time.value_or(WallTime{}));
  }
  Params params;
  params.uuid_array(ids).int4_array(of_handlers).int8_array(digests).timestamptz_array(times);
  return pipeline.send(kInsert, params, Answer::kept);
}

// One round trip, with BEGIN.
Status PostgresInboxStore::State::insert_rows() {
  std::vector<EventId> ids;
  std::vector<const HandlerRow*> chosen;
  for (const HandlerRow& row : batch.rows) {
    if (row.is_forgotten) continue;
    ids.push_back(row.id);
    chosen.push_back(&row);
  }
  const std::vector<std::int32_t> of_handlers = handler_ids();
  DOVETAIL_TRY(begin_if_needed());
  DOVETAIL_TRY(send_insert(chosen));
  // A transaction that deletes rows moves the line, too, so this is read after the insert.
  DOVETAIL_TRY(pipeline.send(kForgotten, Params().int4_array(of_handlers), Answer::kept));
  if (counts_attempts)
    DOVETAIL_TRY(pipeline.send(kForgetAttempts,
                               Params().uuid_array(ids).int4(consumer_id).int4_array(of_handlers)));
  if (!guard.empty()) DOVETAIL_TRY(guard.lock(pipeline));
  DOVETAIL_TRY(pipeline.finish());
  const std::vector<Rows> answers = pipeline.take_rows();
  mark_inserted(batch.rows, keys_of(answers.at(0)));
  if (!guard.empty()) guard.read(answers.at(2));
  is_line_moved = moved_line(answers.at(1));
  return {};
}

// True: a row listed as forgotten, or as not forgotten, is wrong. The line moves ahead when rows
// are deleted, and back when an operator repairs it.
bool PostgresInboxStore::State::moved_line(const Rows& lines) {
  for (std::size_t i = 0; i < lines.size(); ++i)
    for (Known& handler : handlers)
      if (handler.id == lines.int4(i, 0)) handler.forgotten_until = lines.timestamptz(i, 1);
  return std::any_of(batch.rows.begin(), batch.rows.end(), [&](const HandlerRow& row) {
    return row.is_forgotten != is_forgotten(batch.event_of(row), row.handler);
  });
}

// Rows not inserted existed before, perhaps for another event with that id. Events before the line
// may still be remembered, or known as not applied.
Status PostgresInboxStore::State::look_for_known() {
  if (!needs_comparing(batch.rows)) return {};
  std::vector<EventId> ids;
  for (const HandlerRow& row : batch.rows)
    if (row.arrival != Arrival::first && (ids.empty() || ids.back() != row.id))
      ids.push_back(row.id);
  DOVETAIL_TRY(pipeline.send(kKnown, Params().uuid_array(ids), Answer::kept));
  DOVETAIL_TRY(pipeline.finish());
  const std::vector<Rows> answers = pipeline.take_rows();
  std::vector<KnownRow> known;
  for (std::size_t i = 0; i < answers.at(0).size(); ++i) {
    KnownRow& row =
        known.emplace_back(KnownRow{{answers[0].uuid(i, 0), answers[0].int4(i, 1)}, std::nullopt});
    if (!answers[0].is_null(i, 2)) row.digest = answers[0].int8(i, 2);
  }
  compare_known(batch.rows, std::move(known));
  return insert_unapplied();
}

Status PostgresInboxStore::State::insert_unapplied() {
  std::vector<EventId> ids;
  for (const HandlerRow& row : batch.rows)
    if (row.arrival == Arrival::forgotten) ids.push_back(row.id);
  if (ids.empty()) return {};
  DOVETAIL_TRY(pipeline.send(kTakeUnapplied, Params().uuid_array(ids).int4_array(handler_ids()),
                             Answer::kept));
  DOVETAIL_TRY(pipeline.finish());
  const std::vector<InboxKey> unapplied = keys_of(pipeline.take_rows().at(0));
  std::vector<const HandlerRow*> chosen;
  for (const HandlerRow& row : batch.rows) {
    const InboxKey key{row.id, row.handler_id};
    const bool is_known = std::find(unapplied.begin(), unapplied.end(), key) != unapplied.end();
    if (row.arrival == Arrival::forgotten && is_known) chosen.push_back(&row);
  }
  if (chosen.empty()) return {};
  DOVETAIL_TRY(send_insert(chosen));
  DOVETAIL_TRY(pipeline.finish());
  mark_inserted(batch.rows, keys_of(pipeline.take_rows().at(0)));
  return {};
}

// An event that is late for its aggregate keeps its row, so it is a duplicate from now on.
Status PostgresInboxStore::State::leave_late_ones() {
  if (guard.empty()) return {};
  std::vector<HandlerRow*> in_order;
  for (HandlerRow& row : batch.rows) in_order.push_back(&row);
  std::stable_sort(in_order.begin(), in_order.end(),
                   [](const HandlerRow* a, const HandlerRow* b) { return a->event < b->event; });
  for (HandlerRow* row : in_order) {
    const Event& event = batch.event_of(*row);
    const bool is_late =
        row->arrival == Arrival::first
            ? guard.supersedes(row->handler_id, event)
            : row->arrival == Arrival::forgotten && guard.knows_as_late(row->handler_id, event);
    if (is_late) row->arrival = Arrival::superseded;
  }
  return guard.store(pipeline);
}

Status PostgresInboxStore::insert(Events events, std::span<Arrival> arrivals) {
  State& state = *state_;
  DOVETAIL_CHECK(events.size() == arrivals.size());
  const auto insert = [&]() -> Status {
    while (true) {
      state.list_rows(events);
      DOVETAIL_TRY(state.insert_rows());
      if (!state.is_line_moved) break;
      // Takes back rows that should not have been inserted.
      state.rollback();
      if (!state.pipeline) return fail(Errc::unavailable, "the connection is lost; open it again");
    }
    DOVETAIL_TRY(state.look_for_known());
    return state.leave_late_ones();
  };
  if (Status inserted = insert(); !inserted) {
    state.rollback();
    return inserted;
  }
  state.batch.tell(arrivals);
  return {};
}

Status PostgresInboxStore::apply(Events events) {
  State& state = *state_;
  state.broke = false;
  DOVETAIL_TRY(state.begin_if_needed());
  state.batch.choose(events);
  state.pipeline.set_timeout(state.options.handlers_timeout);
  OpenTransaction transaction(state.pipeline);
  Status applied;
  for (std::uint32_t h = 0; h < state.options.handlers.size() && applied; ++h) {
    const Events wanted = state.batch.events_for(h);
    if (wanted.empty()) continue;
    applied = transaction.judge(
        guarded([&] { return state.options.handlers[h].run(transaction, wanted); }));
  }
  if (applied) applied = transaction.finish();
  state.pipeline.set_timeout(std::chrono::seconds(30));
  state.broke = !applied && state.pipeline.is_lost();
  // Whatever the handler returns after a lost connection, it says nothing about the event.
  if (state.broke) applied.error().code = Errc::unavailable;
  return applied;
}

bool PostgresInboxStore::wants(const Event& event) const {
  return any_wants(state_->options.handlers, event.type);
}

bool PostgresInboxStore::broke() const { return state_->broke; }

Status PostgresInboxStore::commit(std::uint64_t applied, std::uint64_t duplicates) {
  State& state = *state_;
  const auto number = [](std::uint64_t value) { return static_cast<std::int64_t>(value); };
  const std::uint64_t superseded = std::min(state.batch.superseded(), duplicates);
  applied -= std::min(state.batch.unwanted(), applied);
  const auto send = [&]() -> Status {
    DOVETAIL_TRY(state.begin_if_needed());
    // Without an effect, a crash of the server can lose nothing.
    if (applied == 0) DOVETAIL_TRY(state.pipeline.send("SET LOCAL synchronous_commit = off"));
    Params totals = state.lane_params();
    totals.int8(number(applied)).int8(number(duplicates - superseded)).int8(number(superseded));
    DOVETAIL_TRY(state.pipeline.send(kAddTotals, totals));
    if (state.counts_attempts)
      DOVETAIL_TRY(
          state.pipeline.send(kAnyAttempts, Params().int4(state.consumer_id), Answer::kept));
    return state.pipeline.send("COMMIT");
  };
  Status committed = send();
  if (committed) committed = state.pipeline.finish(/*during_commit=*/true);
  if (!committed) {
    state.rollback();
    return committed;
  }
  state.is_begun = false;
  const std::vector<Rows> answers = state.pipeline.take_rows();
  if (!answers.empty()) state.counts_attempts = answers[0].boolean(0, 0);
  return {};
}

void PostgresInboxStore::State::rollback() {
  batch.clear();
  const bool was_begun = std::exchange(is_begun, false);
  if (!pipeline || (pipeline.is_lent() && !pipeline.take_back())) return;
  if (!was_begun) return;
  // The caller knows the failure; its answers must be read before the next statement.
  (void)pipeline.finish();
  (void)pipeline.take_rows();
  const bool rolled_back = pipeline && pipeline.send("ROLLBACK") && pipeline.finish();
  if (!rolled_back) pipeline.close();
}

void PostgresInboxStore::rollback() { state_->rollback(); }

Result<std::uint32_t> PostgresInboxStore::count_attempt(const EventId& id, std::int64_t change) {
  State& state = *state_;
  if (!state.session_open) return fail(Errc::unavailable, "the inbox is closed; call open() first");
  state.rollback();
  if (!state.pipeline) DOVETAIL_TRY(state.connect());
  const auto count = static_cast<std::int32_t>(std::clamp<std::int64_t>(change, -1'000'000, 1000));
  const Params row = Params().uuid(id).int4(state.consumer_id);
  DOVETAIL_TRY(state.pipeline.send(kCountAttempt, Params(row).int4(count), Answer::kept));
  // Only unapplied events are tried, and a parked event may be replayed at any age.
  std::vector<std::int32_t> unapplied;
  if (count > 0)
    for (const std::uint32_t handler : state.batch.not_applied_by(id))
      unapplied.push_back(state.handlers[handler].id);
  if (!unapplied.empty())
    DOVETAIL_TRY(state.pipeline.send(kNoteUnapplied, Params().uuid(id).int4_array(unapplied)));
  if (count < 0) DOVETAIL_TRY(state.pipeline.send(kForgetAttempt, row));
  DOVETAIL_TRY(state.pipeline.finish());
  const auto attempts = static_cast<std::uint32_t>(state.pipeline.take_rows().at(0).int4(0, 0));
  state.counts_attempts |= attempts > 0;
  return attempts;
}

Status PostgresInboxStore::close() {
  State& state = *state_;
  if (!state.session_open) return {};
  state.rollback();
  if (!state.pipeline) DOVETAIL_TRY(state.connect());
  DOVETAIL_TRY(state.pipeline.send(kEndSession, state.lane_params()));
  DOVETAIL_TRY(state.pipeline.finish());
  state.session_open = false;
  state.pipeline.close();
  return {};
}

}  // namespace dovetail::postgres
