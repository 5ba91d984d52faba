#include "postgres/inbox_store.h"

#include <algorithm>
#include <exception>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "core/check.h"
#include "core/forgotten.h"
#include "core/type_filter.h"
#include "postgres/schema.h"
#include "postgres/version_guard.h"

namespace dovetail::postgres {

namespace {

using Answer = Pipeline::Answer;

// READ COMMITTED, because what the janitor says about forgotten events must be read after waiting
// for its locks.
constexpr std::string_view kBegin = "BEGIN ISOLATION LEVEL READ COMMITTED, READ WRITE";
// A consumer that stands still, or whose machine is gone without a word, would keep the rows that
// it has inserted from others until the server finds out, which takes hours by default. Whoever has
// set a limit of their own keeps it. And the source is told after the commit, so a crash of the
// server must not lose that, whatever the server's default is.
constexpr std::string_view kSettings =
    "SELECT CASE WHEN current_setting('idle_in_transaction_session_timeout') = '0' THEN "
    "set_config('idle_in_transaction_session_timeout', $1, true) END, "
    "CASE WHEN current_setting('synchronous_commit') = 'off' THEN "
    "set_config('synchronous_commit', 'on', true) END";
constexpr std::string_view kInsert =
    "INSERT INTO dovetail.inbox (event_id, consumer_id) SELECT arrived.id, arrived.consumer "
    "FROM unnest($1::uuid[], $2::int[]) AS arrived (id, consumer) ON CONFLICT DO NOTHING "
    "RETURNING event_id, consumer_id";
constexpr std::string_view kForgotten = "SELECT forgotten_before FROM dovetail.inbox_state";
constexpr std::string_view kKnown =
    "SELECT event_id, consumer_id FROM dovetail.inbox WHERE event_id = ANY ($1::uuid[])";
constexpr std::string_view kForgetAttempts =
    "DELETE FROM dovetail.attempt WHERE event_id = ANY ($1::uuid[]) AND consumer_id = $2";
constexpr std::string_view kAnyAttempts =
    "SELECT EXISTS (SELECT FROM dovetail.attempt WHERE consumer_id = $1)";
constexpr std::string_view kAddTotals =
    "UPDATE dovetail.consumer_lane SET applied = applied + $3, duplicates = duplicates + $4, "
    "superseded = superseded + $5, updated_at = now() WHERE consumer_id = $1 AND lane = $2";
constexpr std::string_view kCountAttempt =
    "INSERT INTO dovetail.attempt AS known (event_id, consumer_id, attempts) "
    "VALUES ($1, $2, greatest(0, $3)) ON CONFLICT (event_id, consumer_id) DO UPDATE "
    "SET attempts = greatest(0, known.attempts + $3), updated_at = clock_timestamp() "
    "RETURNING attempts";
constexpr std::string_view kForgetAttempt =
    "DELETE FROM dovetail.attempt WHERE event_id = $1 AND consumer_id = $2 AND attempts = 0";
constexpr std::string_view kIds =
    "SELECT name, id, created_at FROM dovetail.consumer WHERE name = ANY ($1::text[])";
constexpr std::string_view kMakeIds =
    "INSERT INTO dovetail.consumer (name) SELECT unnest($1::text[]) ON CONFLICT DO NOTHING";
// The outer query does not see what the insert has changed.
constexpr std::string_view kStartSession =
    "WITH started AS (INSERT INTO dovetail.consumer_lane (consumer_id, lane, clean) "
    "VALUES ($1, $2, false) ON CONFLICT (consumer_id, lane) DO UPDATE SET clean = false, "
    "updated_at = clock_timestamp()) SELECT coalesce((SELECT clean FROM dovetail.consumer_lane "
    "WHERE consumer_id = $1 AND lane = $2), true)";
constexpr std::string_view kEndSession =
    "UPDATE dovetail.consumer_lane SET clean = true, updated_at = clock_timestamp() "
    "WHERE consumer_id = $1 AND lane = $2";

// Runs `handle`, whose exceptions are failures.
template <class Handle>
Status guarded(const Handle& handle) {
  try {
    return handle();
  } catch (const std::exception& thrown) {
    return fail(Errc::in_doubt,
                std::string("the handler threw: ") + thrown.what() + "; check the handler");
  } catch (...) {
    return fail(Errc::in_doubt,
                "the handler threw something that is no std::exception; check the handler");
  }
}

}  // namespace

Param Param::bytes(std::string_view bytes) {
  Param param(bytes);
  param.is_bytes = true;
  return param;
}

Param Param::null() {
  Param param("");
  param.is_null = true;
  return param;
}

TransactionHandler cpp_handler(std::string name, std::vector<std::string> types, Handler each) {
  return {std::move(name), std::move(types),
          [each](BatchHandling& handling, Events events) -> Status {
            for (const Event* event : events) DOVETAIL_TRY(each(handling, *event));
            return Status{};
          }};
}

TransactionHandler cpp_batch_handler(std::string name, std::vector<std::string> types,
                                     BatchHandler batch) {
  return {std::move(name), std::move(types),
          [batch](BatchHandling& handling, Events events) { return batch(handling, events); }};
}

struct PostgresInboxStore::State {
  // One inbox row that is to be: of an event for one of its handlers.
  struct Row {
    EventId id;
    std::int32_t handler_id;
    std::uint32_t event;  // which of the batch
    std::uint32_t handler;
    bool is_forgotten;
    Arrival arrival = Arrival::duplicate;
  };

  // As the database knows a handler.
  struct Known {
    std::int32_t id;
    WallTime since;
  };

  explicit State(InboxStoreOptions given) : options(std::move(given)) {}

  Status connect();
  Status read_ids(Connection& connection);
  Status begin_if_needed();
  void list_rows(Events batch);
  Status insert_rows(WallTime& forgotten_now);
  void mark_inserted(const Rows& inserted);
  Status look_for_known();
  Status leave_late_ones();
  bool is_forgotten(const Event& event, std::size_t handler) const {
    return dovetail::is_forgotten(event, forgotten_before, handlers[handler].since);
  }
  void tell(std::span<Arrival> arrivals);
  void rollback();
  Params lane_params() const {
    return Params().int4(consumer_id).int4(static_cast<std::int32_t>(options.lane));
  }

  InboxStoreOptions options;
  Pipeline pipeline{};
  std::int32_t consumer_id = 0;
  std::vector<Known> handlers{};  // one for each of the options
  WallTime forgotten_before = WallTime::min();
  bool counts_attempts = false;  // some event has attempts: forget them when it is applied
  bool session_open = false;
  bool is_begun = false;  // on the server
  bool broke = false;     // the connection, in the last apply()

  // Of the open transaction.
  std::vector<const Event*> events{};
  std::vector<Row> rows{};  // in the order in which they are inserted
  VersionGuard guard{};
  std::uint64_t superseded = 0;
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
      return fail(Errc::rejected, "two handlers are called \"" + handler.name +
                                      "\"; check that each has a name of its own");
    names.push_back(handler.name);
  }
  std::map<std::string, Known, std::less<>> ids;
  for (const bool is_made : {false, true}) {
    const Result<Rows> known = connection.query(kIds, Params().text_array(names));
    if (!known) return fail(known.error());
    for (std::size_t row = 0; row < known->size(); ++row)
      ids.emplace(known->text(row, 0), Known{known->int4(row, 1), known->timestamptz(row, 2)});
    const auto is_new = [&](std::string_view name) { return ids.find(name) == ids.end(); };
    if (is_made || std::none_of(names.begin(), names.end(), is_new)) break;
    const Result<Rows> made = connection.query(kMakeIds, Params().text_array(names));
    if (!made) return fail(made.error());
  }
  consumer_id = ids.at(options.consumer).id;
  handlers.clear();
  for (const TransactionHandler& handler : options.handlers)
    handlers.push_back(ids.at(handler.name));
  return {};
}

Result<bool> PostgresInboxStore::open() {
  State& state = *state_;
  DOVETAIL_TRY(state.connect());
  DOVETAIL_TRY(state.pipeline.send(kStartSession, state.lane_params(), Answer::kept));
  DOVETAIL_TRY(state.pipeline.finish());
  const bool clean = state.pipeline.take_rows().at(0).boolean(0, 0);
  // A reconnect of a living session says nothing about a death.
  return std::exchange(state.session_open, true) || clean;
}

// The server learns of it together with the first statement.
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

void PostgresInboxStore::State::list_rows(Events batch) {
  events.assign(batch.begin(), batch.end());
  rows.clear();
  for (std::uint32_t i = 0; i < batch.size(); ++i) {
    for (std::uint32_t h = 0; h < options.handlers.size(); ++h)
      if (wants_type(options.handlers[h].types, batch[i]->type))
        rows.push_back(Row{batch[i]->id, handlers[h].id, i, h, is_forgotten(*batch[i], h)});
  }
  guard.clear();
  if (options.version_guard)
    for (const Row& row : rows) guard.add(row.handler_id, *events[row.event]);
  std::sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
    return std::tie(a.id, a.handler_id, a.event) < std::tie(b.id, b.handler_id, b.event);
  });
}

// One round trip, with BEGIN.
Status PostgresInboxStore::State::insert_rows(WallTime& forgotten_now) {
  std::vector<EventId> ids;
  std::vector<std::int32_t> of_handlers;
  for (const Row& row : rows) {
    if (row.is_forgotten) continue;
    ids.push_back(row.id);
    of_handlers.push_back(row.handler_id);
  }
  DOVETAIL_TRY(begin_if_needed());
  DOVETAIL_TRY(
      pipeline.send(kInsert, Params().uuid_array(ids).int4_array(of_handlers), Answer::kept));
  // Whoever drops rows says so in the same transaction, so this is read behind the insert.
  DOVETAIL_TRY(pipeline.send(kForgotten, {}, Answer::kept));
  if (counts_attempts)
    DOVETAIL_TRY(pipeline.send(kForgetAttempts, Params().uuid_array(ids).int4(consumer_id)));
  if (!guard.empty()) DOVETAIL_TRY(guard.lock(pipeline));
  DOVETAIL_TRY(pipeline.finish());
  const std::vector<Rows> answers = pipeline.take_rows();
  mark_inserted(answers.at(0));
  if (!guard.empty()) guard.read(answers.at(2));
  forgotten_now = answers.at(1).empty() ? WallTime::min() : answers[1].timestamptz(0, 0);
  return {};
}

// What was inserted comes back in the order in which it was sent.
void PostgresInboxStore::State::mark_inserted(const Rows& inserted) {
  std::size_t next = 0;
  for (Row& row : rows) {
    row.arrival = row.is_forgotten ? Arrival::forgotten : Arrival::duplicate;
    if (row.is_forgotten || next == inserted.size()) continue;
    if (inserted.uuid(next, 0) != row.id || inserted.int4(next, 1) != row.handler_id) continue;
    row.arrival = Arrival::first;
    ++next;
  }
  DOVETAIL_CHECK(next == inserted.size());
}

// What is older than what is remembered for sure may still be remembered.
Status PostgresInboxStore::State::look_for_known() {
  std::vector<EventId> ids;
  for (const Row& row : rows)
    if (row.arrival == Arrival::forgotten) ids.push_back(row.id);
  if (ids.empty()) return {};
  DOVETAIL_TRY(pipeline.send(kKnown, Params().uuid_array(ids), Answer::kept));
  DOVETAIL_TRY(pipeline.finish());
  const std::vector<Rows> answers = pipeline.take_rows();
  std::set<std::pair<EventId, std::int32_t>> known;
  for (std::size_t row = 0; row < answers.at(0).size(); ++row)
    known.emplace(answers[0].uuid(row, 0), answers[0].int4(row, 1));
  for (Row& row : rows)
    if (row.arrival == Arrival::forgotten && known.contains({row.id, row.handler_id}))
      row.arrival = Arrival::duplicate;
  return {};
}

// What is late for its aggregate keeps its row, so that it is a duplicate from then on.
Status PostgresInboxStore::State::leave_late_ones() {
  if (guard.empty()) return {};
  std::vector<Row*> in_order;
  for (Row& row : rows) in_order.push_back(&row);
  std::stable_sort(in_order.begin(), in_order.end(),
                   [](const Row* a, const Row* b) { return a->event < b->event; });
  for (Row* row : in_order) {
    const Event& event = *events[row->event];
    const bool is_late =
        row->arrival == Arrival::first
            ? guard.supersedes(row->handler_id, event)
            : row->arrival == Arrival::forgotten && guard.knows_as_late(row->handler_id, event);
    if (is_late) row->arrival = Arrival::superseded;
  }
  return guard.store(pipeline);
}

// An event is forgotten when it is for one handler, first when it is for one, and so on.
void PostgresInboxStore::State::tell(std::span<Arrival> arrivals) {
  const auto rank = [](Arrival arrival) {
    switch (arrival) {
      case Arrival::forgotten:
        return 3;
      case Arrival::first:
        return 2;
      case Arrival::superseded:
        return 1;
      case Arrival::duplicate:
        break;
    }
    return 0;
  };
  std::vector<bool> is_wanted(events.size(), false);
  std::fill(arrivals.begin(), arrivals.end(), Arrival::duplicate);
  for (const Row& row : rows) {
    is_wanted[row.event] = true;
    if (rank(row.arrival) > rank(arrivals[row.event])) arrivals[row.event] = row.arrival;
  }
  for (std::size_t i = 0; i < arrivals.size(); ++i)
    if (!is_wanted[i]) arrivals[i] = Arrival::first;
  superseded =
      static_cast<std::uint64_t>(std::count(arrivals.begin(), arrivals.end(), Arrival::superseded));
}

Status PostgresInboxStore::insert(Events events, std::span<Arrival> arrivals) {
  State& state = *state_;
  DOVETAIL_CHECK(events.size() == arrivals.size());
  const auto insert = [&]() -> Status {
    while (true) {
      state.list_rows(events);
      WallTime forgotten_now{};
      DOVETAIL_TRY(state.insert_rows(forgotten_now));
      const bool is_newer = forgotten_now > state.forgotten_before;
      state.forgotten_before = std::max(state.forgotten_before, forgotten_now);
      // Rows that should not have been inserted are taken back.
      const bool is_wrong = std::any_of(state.rows.begin(), state.rows.end(), [&](const auto& row) {
        return !row.is_forgotten && state.is_forgotten(*state.events[row.event], row.handler);
      });
      if (!is_newer || !is_wrong) break;
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
  state.tell(arrivals);
  return {};
}

Status PostgresInboxStore::apply(Events events) {
  State& state = *state_;
  state.broke = false;
  DOVETAIL_TRY(state.begin_if_needed());
  // Those that are to be applied are among those that were inserted, in the same order.
  std::vector<bool> is_applied(state.events.size(), false);
  std::size_t at = 0;
  for (const Event* event : events) {
    while (at < state.events.size() && state.events[at] != event) ++at;
    if (at < state.events.size()) is_applied[at++] = true;
  }
  state.pipeline.set_timeout(state.options.handlers_timeout);
  OpenTransaction transaction(state.pipeline);
  Status applied;
  std::vector<std::uint32_t> wanted;
  std::vector<const Event*> batch;
  for (std::uint32_t h = 0; h < state.options.handlers.size() && applied; ++h) {
    wanted.clear();
    for (const State::Row& row : state.rows)
      if (row.handler == h && row.arrival == Arrival::first && is_applied[row.event])
        wanted.push_back(row.event);
    if (wanted.empty()) continue;
    std::sort(wanted.begin(), wanted.end());
    batch.clear();
    for (const std::uint32_t event : wanted) batch.push_back(state.events[event]);
    applied = guarded([&] { return state.options.handlers[h].run(transaction, batch); });
    if (applied) applied = transaction.take_back();
  }
  if (applied) applied = transaction.finish();
  state.pipeline.set_timeout(std::chrono::seconds(30));
  state.broke = !applied && state.pipeline.is_lost();
  // Whatever the handler makes of a connection that is gone, it says nothing about the event.
  if (state.broke) applied.error().code = Errc::unavailable;
  return applied;
}

bool PostgresInboxStore::wants(const Event& event) const {
  const auto& handlers = state_->options.handlers;
  return std::any_of(handlers.begin(), handlers.end(), [&](const TransactionHandler& one) {
    return wants_type(one.types, event.type);
  });
}

bool PostgresInboxStore::broke() const { return state_->broke; }

Status PostgresInboxStore::commit(std::uint64_t applied, std::uint64_t duplicates) {
  State& state = *state_;
  const auto number = [](std::uint64_t value) { return static_cast<std::int64_t>(value); };
  const std::uint64_t superseded = std::min(state.superseded, duplicates);
  const auto send = [&]() -> Status {
    DOVETAIL_TRY(state.begin_if_needed());
    // Without an effect there is nothing that a crash of the server could lose.
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
  events.clear();
  rows.clear();
  superseded = 0;
  const bool was_begun = std::exchange(is_begun, false);
  if (!pipeline || (pipeline.is_lent() && !pipeline.take_back())) return;
  if (!was_begun) return;
  // What failed before is known to the caller; it must be read before anything else is done.
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
