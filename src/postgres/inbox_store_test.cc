#include "postgres/inbox_store.h"

#include <libpq-fe.h>

#include <deque>
#include <stdexcept>

#include "host/host.h"
#include "postgres/schema.h"
#include "postgres/test_database.h"

namespace dovetail::postgres {
namespace {

using namespace std::chrono_literals;

Status count_one(Handling& handling, const Event& event) {
  return handling.queue("INSERT INTO effect (n, id) VALUES (1, $1)", {event.id});
}

// What libpq says to a statement on the connection itself.
ExecStatusType exec(Handling& handling, const char* sql) {
  const Result<pg_conn*> connection = handling.connection();
  if (!connection) return PGRES_FATAL_ERROR;
  PGresult* const result = PQexec(*connection, sql);
  const ExecStatusType status = PQresultStatus(result);
  PQclear(result);
  return status;
}

class PostgresInbox : public testing::Test {
 protected:
  // One database for all, emptied for each: making one takes most of a second.
  static void SetUpTestSuite() {
    shared() = std::make_unique<TestDatabase>();
    Connection maker = shared()->connect();
    const Status made = create_schema(maker);
    ASSERT_TRUE(made) << text_of(made);
  }
  static void TearDownTestSuite() { shared().reset(); }
  PostgresInbox() : database(*shared()), connection(database.connect()) {
    must(connection,
         "TRUNCATE dovetail.inbox, dovetail.attempt, dovetail.consumer_lane, dovetail.consumer, "
         "dovetail.outbox, dovetail.applied_version; "
         "UPDATE dovetail.inbox_state SET forgotten_before = '-infinity'; "
         "DROP SCHEMA public CASCADE; CREATE SCHEMA public; GRANT ALL ON SCHEMA public TO public; "
         "CREATE TABLE effect (n int, id uuid)");
  }
  static std::unique_ptr<TestDatabase>& shared() {
    static std::unique_ptr<TestDatabase> database;
    return database;
  }

  InboxStoreOptions options(Handler handler, std::uint32_t lane = 0) {
    InboxStoreOptions options;
    options.conninfo = database.conninfo;
    options.consumer = "stock";
    options.lane = lane;
    options.handlers.push_back(cpp_handler("stock", {}, std::move(handler)));
    return options;
  }
  std::unique_ptr<PostgresInboxStore> store_with(Handler handler, bool clean = true,
                                                 std::uint32_t lane = 0) {
    return opened(options(std::move(handler), lane), clean);
  }
  static std::unique_ptr<PostgresInboxStore> opened(InboxStoreOptions options, bool clean = true) {
    auto store = std::make_unique<PostgresInboxStore>(std::move(options));
    const Result<bool> is_clean = store->open();
    EXPECT_TRUE(is_clean) << text_of(is_clean);
    EXPECT_EQ(is_clean.value_or(!clean), clean);
    return store;
  }
  const Event* event(std::string_view type = "placed", std::string_view key = "17") {
    Event& made = events.emplace_back();
    made.id = new_event_id();
    made.aggregate_type = "order";
    made.aggregate_id = key;
    made.key_hash = 17;
    made.type = type;
    made.content_type = "application/json";
    made.payload = "{}";
    made.created_at = system_clock().wall();
    return &made;
  }
  static std::vector<Arrival> insert(InboxStore& store, Events batch) {
    std::vector<Arrival> arrivals(batch.size());
    const Status begun = store.begin();
    EXPECT_TRUE(begun) << text_of(begun);
    const Status inserted = store.insert(batch, arrivals);
    EXPECT_TRUE(inserted) << text_of(inserted);
    return arrivals;
  }
  // Begins, inserts, applies what is first.
  static Status apply(InboxStore& store, const std::vector<const Event*>& batch) {
    const std::vector<Arrival> arrivals = insert(store, batch);
    std::vector<const Event*> firsts;
    for (std::size_t i = 0; i < batch.size(); ++i)
      if (arrivals[i] == Arrival::first) firsts.push_back(batch[i]);
    return store.apply(firsts);
  }
  std::int64_t effects() { return number(connection, "SELECT count(*) FROM effect"); }
  std::int64_t inbox() { return number(connection, "SELECT count(*) FROM dovetail.inbox"); }

  TestDatabase& database;
  Connection connection;
  std::deque<Event> events;
};

TEST_F(PostgresInbox, RowAndEffectCommitTogetherOrNotAtAll) {
  auto store = store_with(count_one);
  const std::vector<const Event*> batch = {event(), event(), event()};
  ASSERT_TRUE(apply(*store, batch));
  store->rollback();
  EXPECT_EQ(effects() + inbox(), 0);

  ASSERT_TRUE(apply(*store, batch));
  EXPECT_EQ(effects() + inbox(), 0) << "nothing is visible before the commit";
  ASSERT_TRUE(store->commit(3, 0));
  EXPECT_EQ(effects(), 3);
  EXPECT_EQ(inbox(), 3);

  EXPECT_EQ(insert(*store, batch), std::vector<Arrival>(3, Arrival::duplicate));
  ASSERT_TRUE(store->commit(0, 3));
  EXPECT_EQ(text(connection, "SELECT applied || ',' || duplicates FROM dovetail.consumer_lane"),
            "3,3");
}

TEST_F(PostgresInbox, WhatTheSourceIsToldIsOnDiskWhateverTheServersDefaultIs) {
  must(connection, "ALTER DATABASE " + database.name + " SET synchronous_commit = off");
  auto store = store_with([](Handling& handling, const Event&) {
    return handling.queue(
        "INSERT INTO effect (n) VALUES ((current_setting('synchronous_commit') = 'on')::int)");
  });
  ASSERT_TRUE(apply(*store, {event()}));
  ASSERT_TRUE(store->commit(1, 0));
  EXPECT_EQ(number(connection, "SELECT sum(n) FROM effect"), 1);
  must(connection, "ALTER DATABASE " + database.name + " RESET synchronous_commit");
}

TEST_F(PostgresInbox, OneEventTwiceInABatchIsAppliedOnce) {
  auto store = store_with(count_one);
  const Event* const twice = event();
  const std::vector<const Event*> batch = {event(), twice, event(), twice};
  EXPECT_EQ(insert(*store, batch), (std::vector<Arrival>{Arrival::first, Arrival::first,
                                                         Arrival::first, Arrival::duplicate}));
  const std::vector<const Event*> firsts(batch.begin(), batch.begin() + 3);
  ASSERT_TRUE(store->apply(firsts));
  ASSERT_TRUE(store->commit(3, 1));
  EXPECT_EQ(effects(), 3);
}

TEST_F(PostgresInbox, EachHandlerAppliesWhatItWantsInItsOrderAndOnce) {
  std::vector<std::string> seen;
  const auto note = [&](std::string name) {
    return [&seen, name](Handling&, const Event& one) {
      seen.push_back(name + ":" + std::string(one.aggregate_id));
      return Status{};
    };
  };
  InboxStoreOptions two = options(note("all"));
  two.handlers[0].name = "stock.all";
  two.handlers.push_back(cpp_handler("stock.placed", {"placed", "return.*"}, note("placed")));
  auto store = opened(two);
  const std::vector<const Event*> batch = {event("placed", "3"), event("paid", "2"),
                                           event("return.asked", "1")};
  ASSERT_TRUE(apply(*store, batch));
  ASSERT_TRUE(store->commit(3, 0));
  EXPECT_EQ(seen, (std::vector<std::string>{"all:3", "all:2", "all:1", "placed:3", "placed:1"}));
  EXPECT_EQ(inbox(), 5);

  // One that is added later gets what comes again, and the others do not.
  seen.clear();
  ASSERT_TRUE(store->close());
  two.handlers.push_back(cpp_handler("stock.late", {"paid"}, note("late")));
  store = opened(two);
  EXPECT_EQ(insert(*store, batch),
            (std::vector<Arrival>{Arrival::duplicate, Arrival::first, Arrival::duplicate}));
  const Event* const paid[] = {batch[1]};
  ASSERT_TRUE(store->apply(paid));
  ASSERT_TRUE(store->commit(1, 2));
  EXPECT_EQ(seen, std::vector<std::string>{"late:2"});
}

TEST_F(PostgresInbox, AnEventThatNobodyWantsIsAppliedByNobody) {
  InboxStoreOptions picky = options(count_one);
  picky.handlers[0].types = {"paid"};
  auto store = opened(picky);
  const std::vector<const Event*> batch = {event("placed")};
  EXPECT_EQ(insert(*store, batch), std::vector<Arrival>{Arrival::first});
  ASSERT_TRUE(store->apply(batch));
  ASSERT_TRUE(store->commit(1, 0));
  EXPECT_EQ(effects() + inbox(), 0);
}

TEST_F(PostgresInbox, ConsumersDoNotShareRows) {
  auto stock = store_with(count_one);
  InboxStoreOptions other = options(count_one);
  other.consumer = other.handlers[0].name = "billing";
  auto billing = opened(other);
  const std::vector<const Event*> batch = {event()};
  ASSERT_TRUE(apply(*stock, batch));
  ASSERT_TRUE(stock->commit(1, 0));
  ASSERT_TRUE(apply(*billing, batch));
  ASSERT_TRUE(billing->commit(1, 0));
  EXPECT_EQ(effects(), 2);
}

TEST_F(PostgresInbox, ManyStoresThatInsertTheSameAtOnceApplyItOnce) {
  constexpr int kStores = 16;
  constexpr int kRounds = 20;
  std::vector<std::vector<const Event*>> rounds;
  for (int round = 0; round < kRounds; ++round) rounds.push_back({event(), event(), event()});
  std::atomic<int> applied{0};
  std::atomic<int> refused{0};
  {
    std::vector<std::jthread> threads;
    for (std::uint32_t i = 0; i < kStores; ++i)
      threads.emplace_back([&, i] {
        PostgresInboxStore store(options(count_one, i));
        ASSERT_TRUE(store.open());
        for (auto batch : rounds) {
          // In any order: rows are inserted in one, so that nobody waits in a circle.
          if (i % 2 == 1) std::reverse(batch.begin(), batch.end());
          const std::vector<Arrival> arrivals = insert(store, batch);
          std::vector<const Event*> firsts;
          for (std::size_t n = 0; n < batch.size(); ++n)
            if (arrivals[n] == Arrival::first) firsts.push_back(batch[n]);
          ASSERT_TRUE(firsts.empty() || store.apply(firsts));
          ASSERT_TRUE(store.commit(firsts.size(), batch.size() - firsts.size()));
          applied += static_cast<int>(firsts.size());
          refused += static_cast<int>(batch.size() - firsts.size());
        }
      });
  }
  EXPECT_EQ(applied, kRounds * 3);
  EXPECT_EQ(refused, kRounds * 3 * (kStores - 1));
  EXPECT_EQ(effects(), kRounds * 3);
}

TEST_F(PostgresInbox, ASessionThatWasNotClosedIsNoticedOnItsLane) {
  {
    auto store = store_with(count_one);
  }
  EXPECT_TRUE(store_with(count_one, true, 1)->close()) << "another lane did not die";
  auto store = store_with(count_one, false);
  EXPECT_TRUE(store->open().value()) << "a reconnect of a living session is no death";
  ASSERT_TRUE(store->close());
  EXPECT_TRUE(store_with(count_one, true)->close());
}

TEST_F(PostgresInbox, AttemptsAreCountedDurablyAndForgottenWhenApplied) {
  auto store = store_with(count_one);
  const std::vector<const Event*> batch = {event()};
  const EventId id = batch[0]->id;
  EXPECT_EQ(store->count_attempt(id, +1).value(), 1U);
  EXPECT_EQ(store->count_attempt(id, +1).value(), 2U);
  store = store_with(count_one, false);
  EXPECT_EQ(store->count_attempt(id, +1).value(), 3U);
  EXPECT_EQ(store->count_attempt(id, -1).value(), 2U);
  ASSERT_TRUE(apply(*store, batch));
  store->rollback();
  EXPECT_EQ(number(connection, "SELECT attempts FROM dovetail.attempt"), 2);
  ASSERT_TRUE(apply(*store, batch));
  ASSERT_TRUE(store->commit(1, 0));
  EXPECT_EQ(number(connection, "SELECT count(*) FROM dovetail.attempt"), 0);
  EXPECT_EQ(store->count_attempt(id, -5).value(), 0U) << "never below 0";
  EXPECT_EQ(number(connection, "SELECT count(*) FROM dovetail.attempt"), 0);
}

TEST_F(PostgresInbox, ExceptionsOfAHandlerAreFailures) {
  auto store = store_with(
      [](Handling&, const Event&) -> Status { throw std::runtime_error("no such customer"); });
  const Status applied = apply(*store, {event()});
  EXPECT_TRUE(failed_with(applied, Errc::in_doubt)) << text_of(applied);
  EXPECT_TRUE(contains(text_of(applied), "no such customer")) << text_of(applied);
  store->rollback();
  auto odd = store_with([](Handling&, const Event&) -> Status { throw 17; }, true, 1);
  EXPECT_TRUE(failed_with(apply(*odd, {event()}), Errc::in_doubt));
}

TEST_F(PostgresInbox, AQueuedStatementThatFailsIsAFailureWhateverTheHandlerSays) {
  auto store = store_with([](Handling& handling, const Event& one) {
    (void)handling.queue("SELECT 1 / 0");
    (void)count_one(handling, one);
    return Status{};
  });
  const Status applied = apply(*store, {event(), event()});
  EXPECT_TRUE(failed_with(applied, Errc::in_doubt)) << text_of(applied);
  EXPECT_TRUE(contains(text_of(applied), "division by zero")) << text_of(applied);
  store->rollback();
  ASSERT_TRUE(store->begin()) << "the store is of use again";
  ASSERT_TRUE(store->commit(0, 0));
  EXPECT_EQ(effects() + inbox(), 0);
}

TEST_F(PostgresInbox, ErrorsOfStatementsSayWhetherTheyCount) {
  must(connection,
       "CREATE FUNCTION refuse(state text) RETURNS void LANGUAGE plpgsql AS $$ BEGIN "
       "RAISE EXCEPTION 'refused' USING ERRCODE = state; END $$");
  const auto code_of = [&](std::string state) {
    auto store =
        std::make_unique<PostgresInboxStore>(options([state](Handling& handling, const Event&) {
          return handling.queue("SELECT refuse($1)", {state});
        }));
    EXPECT_TRUE(store->open());
    const Status applied = apply(*store, {event()});
    return applied ? Errc::stopped : applied.error().code;
  };
  EXPECT_EQ(code_of("DTREJ"), Errc::rejected) << "the function wants it parked";
  EXPECT_EQ(code_of("DTNOW"), Errc::unavailable) << "the function wants to wait";
  EXPECT_EQ(code_of("P0001"), Errc::in_doubt);
  EXPECT_EQ(code_of("23505"), Errc::in_doubt);
  EXPECT_EQ(code_of("XX000"), Errc::in_doubt) << "a broken function must not stop the consumer";
  for (const char* passing : {"40001", "40P01", "55P03", "53100", "57P03"})
    EXPECT_EQ(code_of(passing), Errc::unavailable) << passing;
}

TEST_F(PostgresInbox, AStatementThatRunsIntoItsTimeLimitHasFailed) {
  InboxStoreOptions slow = options([](Handling& handling, const Event&) {
    (void)handling.queue("SET LOCAL statement_timeout = '20ms'");
    return handling.queue("SELECT pg_sleep(30)");
  });
  auto store = opened(slow);
  const Status applied = apply(*store, {event()});
  EXPECT_TRUE(failed_with(applied, Errc::in_doubt)) << text_of(applied);
  store->rollback();
  EXPECT_TRUE(apply(*store, {})) << "the limit ends with the transaction";
}

TEST_F(PostgresInbox, ADeferredConstraintFailsInTheHandlerAndNotAtCommit) {
  must(connection,
       "CREATE TABLE product (id int PRIMARY KEY); CREATE TABLE line (product int REFERENCES "
       "product DEFERRABLE INITIALLY DEFERRED)");
  auto store = store_with([](Handling& handling, const Event&) {
    return handling.queue("INSERT INTO line VALUES (17)");
  });
  const Status applied = apply(*store, {event()});
  EXPECT_TRUE(failed_with(applied, Errc::in_doubt)) << text_of(applied);
  EXPECT_TRUE(contains(text_of(applied), "23503")) << text_of(applied);
}

// Were the commit let through, the rows of the events behind would stand there without their
// effects: lost events.
TEST_F(PostgresInbox, AHandlerCannotEndTheTransaction) {
  const auto queued = [](std::string sql) {
    return [sql](Handling& handling, const Event& one) {
      (void)count_one(handling, one);
      (void)handling.queue(sql);
      (void)handling.queue("BEGIN");
      return Status{};
    };
  };
  const auto executed = [](std::string sql) {
    return [sql](Handling& handling, const Event& one) {
      (void)count_one(handling, one);
      (void)exec(handling, sql.c_str());
      (void)exec(handling, "BEGIN");
      return Status{};
    };
  };
  std::vector<std::pair<std::string, Handler>> handlers;
  for (const char* sql : {"COMMIT", "ROLLBACK", "COMMIT; BEGIN", "ROLLBACK; BEGIN", "END",
                          "COMMIT AND CHAIN", "ROLLBACK AND CHAIN", "SET CONSTRAINTS ALL IMMEDIATE",
                          "DELETE FROM dovetail.commit_guard; COMMIT; BEGIN"})
    handlers.emplace_back(std::string("executed: ") + sql, executed(sql));
  for (const char* sql : {"COMMIT", " /* a /* b */ */ commit and chain", "-- c\nRollback", ";END",
                          "ABORT", "PREPARE TRANSACTION 'x'", "rollback work"})
    handlers.emplace_back(std::string("queued: ") + sql, queued(sql));
  std::uint32_t lane = 0;
  for (const auto& [what, handler] : handlers) {
    if (contains(what, "commit_guard")) continue;  // on purpose: nothing can be done about it
    auto store = store_with(handler, true, lane++);
    const Status applied = apply(*store, {event(), event()});
    EXPECT_TRUE(failed_with(applied, Errc::in_doubt)) << what << ": " << text_of(applied);
    store->rollback();
    EXPECT_EQ(effects() + inbox(), 0) << what;
    ASSERT_TRUE(store->begin());
    ASSERT_TRUE(store->commit(0, 0)) << what;
    EXPECT_EQ(number(connection, "SELECT count(*) FROM dovetail.commit_guard"), 0) << what;
  }
}

TEST_F(PostgresInbox, SavepointsAreTheHandlersOwn) {
  auto store = store_with([](Handling& handling, const Event& one) -> Status {
    EXPECT_EQ(exec(handling, "SAVEPOINT mine"), PGRES_COMMAND_OK);
    EXPECT_EQ(exec(handling, "SELECT 1 / 0"), PGRES_FATAL_ERROR);
    EXPECT_EQ(exec(handling, "ROLLBACK TO mine"), PGRES_COMMAND_OK);
    DOVETAIL_TRY(handling.queue("SAVEPOINT other"));
    DOVETAIL_TRY(handling.queue("DELETE FROM effect"));
    DOVETAIL_TRY(handling.queue("ROLLBACK TO other"));
    return count_one(handling, one);
  });
  const Status applied = apply(*store, {event(), event()});
  ASSERT_TRUE(applied) << text_of(applied);
  ASSERT_TRUE(store->commit(2, 0));
  EXPECT_EQ(effects(), 2);
}

TEST_F(PostgresInbox, QueuedStatementsAndTheConnectionSeeOneTransaction) {
  std::vector<std::string> seen;
  auto store = store_with([&](Handling& handling, const Event& one) -> Status {
    DOVETAIL_TRY(count_one(handling, one));
    const Result<pg_conn*> own = handling.connection();
    if (!own) return fail(own.error());
    PGresult* const result = PQexec(*own, "SELECT count(*) FROM effect");
    seen.emplace_back(PQgetvalue(result, 0, 0));
    PQclear(result);
    return count_one(handling, one);
  });
  ASSERT_TRUE(apply(*store, {event(), event()}));
  ASSERT_TRUE(store->commit(2, 0));
  EXPECT_EQ(seen, (std::vector<std::string>{"1", "3"}));
  EXPECT_EQ(effects(), 4);
}

TEST_F(PostgresInbox, AHandlerThatLeavesAStatementUnderWayFailsAndTheStoreGoesOn) {
  auto store = store_with([](Handling& handling, const Event&) -> Status {
    const Result<pg_conn*> own = handling.connection();
    EXPECT_EQ(PQsendQuery(*own, "SELECT 1"), 1);
    return {};
  });
  const Status applied = apply(*store, {event()});
  EXPECT_TRUE(failed_with(applied, Errc::in_doubt)) << text_of(applied);
  EXPECT_TRUE(contains(text_of(applied), "under way")) << text_of(applied);
  store->rollback();
  EXPECT_EQ(store->count_attempt(event()->id, +1).value(), 1U);
  ASSERT_TRUE(store->begin());
  ASSERT_TRUE(store->commit(0, 0));
}

TEST_F(PostgresInbox, WhatAHandlerPublishesExistsIfAndOnlyIfItsEffectDoes) {
  auto store = store_with([](Handling& handling, const Event& one) -> Status {
    NewEvent follow_up;
    follow_up.aggregate_type = "stock";
    follow_up.aggregate_id = one.aggregate_id;
    follow_up.type = "reserved";
    follow_up.payload = "{}";
    follow_up.id = one.id;
    const Result<EventId> published = handling.publish(follow_up);
    if (!published) return fail(published.error());
    follow_up.id.reset();
    const Result<EventId> another = handling.publish(follow_up);
    return another ? count_one(handling, one) : fail(another.error());
  });
  const std::vector<const Event*> batch = {event(), event()};
  ASSERT_TRUE(apply(*store, batch));
  store->rollback();
  EXPECT_EQ(number(connection, "SELECT count(*) FROM dovetail.outbox"), 0);
  ASSERT_TRUE(apply(*store, batch));
  ASSERT_TRUE(store->commit(2, 0));
  EXPECT_EQ(number(connection, "SELECT count(*) FROM dovetail.outbox WHERE type = 'reserved'"), 4);
  EXPECT_EQ(effects(), 2);
}

TEST_F(PostgresInbox, AnInvalidFollowUpIsTheHandlersFailure) {
  auto store = store_with([](Handling& handling, const Event&) -> Status {
    const Result<EventId> published = handling.publish(NewEvent{});
    return published ? Status{} : fail(published.error());
  });
  EXPECT_FALSE(apply(*store, {event()}));
}

TEST_F(PostgresInbox, ParametersArriveAsTheyAre) {
  must(connection, "CREATE TABLE value (t text, b bytea, n bigint, i uuid, nothing int)");
  const std::string bytes("a\0b\xff", 4);
  const Event* const one = event();
  auto store = store_with([&](Handling& handling, const Event& given) {
    return handling.queue(
        "INSERT INTO value VALUES ($1, $2, $3, $4, $5)",
        {"äöü'; --", Param::bytes(bytes), std::int64_t{1} << 40, given.id, Param::null()});
  });
  const Status applied = apply(*store, {one});
  ASSERT_TRUE(applied) << text_of(applied);
  ASSERT_TRUE(store->commit(1, 0));
  EXPECT_EQ(text(connection,
                 "SELECT concat_ws('|', t, encode(b, 'hex'), n, i, nothing IS NULL) FROM value"),
            "äöü'; --|610062ff|1099511627776|" + one->id.to_string() + "|t");
}

// More than every buffer on the way holds, in both directions.
TEST_F(PostgresInbox, LargeBatchesNeitherBlockNorLoseAnything) {
  const std::string large(200'000, 'x');
  auto store = store_with([&](Handling& handling, const Event& one) -> Status {
    DOVETAIL_TRY(handling.queue("SELECT repeat($1, 10)", {large}));
    return count_one(handling, one);
  });
  std::vector<const Event*> batch;
  for (int i = 0; i < 60; ++i) batch.push_back(event());
  const Status applied = apply(*store, batch);
  ASSERT_TRUE(applied) << text_of(applied);
  ASSERT_TRUE(store->commit(60, 0));
  EXPECT_EQ(effects(), 60);
}

TEST_F(PostgresInbox, ALostConnectionIsNoFailureOfTheEvent) {
  auto store = store_with([&](Handling& handling, const Event& one) -> Status {
    DOVETAIL_TRY(count_one(handling, one));
    must(connection,
         "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND "
         "datname = current_database()");
    return {};
  });
  const Status applied = apply(*store, {event()});
  EXPECT_TRUE(failed_with(applied, Errc::unavailable)) << text_of(applied);
  store->rollback();
  EXPECT_EQ(store->count_attempt(event()->id, -1).value(), 0U) << "it connects again by itself";
  EXPECT_TRUE(store->open().value()) << "and knows that it lives";
  EXPECT_EQ(effects() + inbox(), 0);
}

TEST_F(PostgresInbox, TheStoreTellsAConnectionThatBrokeFromAHandlerThatFailed) {
  constexpr std::string_view kEndIt = "SELECT pg_terminate_backend(pg_backend_pid())";
  std::function<Status(Handling&)> handler;
  auto store = store_with([&](Handling& handling, const Event&) { return handler(handling); });
  const auto broke_with = [&](Errc code) {
    const Status applied = apply(*store, {event()});
    EXPECT_TRUE(failed_with(applied, code)) << text_of(applied);
    const bool broke = store->broke();
    store->rollback();
    return broke;
  };
  handler = [&](Handling& handling) { return handling.queue(kEndIt); };
  EXPECT_TRUE(broke_with(Errc::unavailable));
  handler = [&](Handling& handling) -> Status {
    (void)exec(handling, std::string(kEndIt).c_str());
    return fail(Errc::in_doubt, "the handler's own words");
  };
  EXPECT_TRUE(broke_with(Errc::unavailable)) << "what it says of it does not count";
  handler = [](Handling&) { return fail(Errc::unavailable, "not now"); };
  EXPECT_FALSE(broke_with(Errc::unavailable));
  handler = [](Handling& handling) { return handling.queue("SELECT 1 / 0"); };
  EXPECT_FALSE(broke_with(Errc::in_doubt));
  handler = [](Handling& handling) { return handling.queue("COPY effect FROM STDIN"); };
  EXPECT_FALSE(broke_with(Errc::in_doubt)) << "it was closed because of what was sent";
  handler = [](Handling& handling) { return handling.queue("SELECT 1"); };
  EXPECT_TRUE(apply(*store, {event()}));
}

TEST_F(PostgresInbox, AConnectionLostBeforeTheAnswerToCommitIsInDoubt) {
  auto store = store_with(count_one);
  ASSERT_TRUE(apply(*store, {event()}));
  must(connection,
       "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND "
       "datname = current_database()");
  const Status committed = store->commit(1, 0);
  EXPECT_TRUE(failed_with(committed, Errc::in_doubt)) << text_of(committed);
}

TEST_F(PostgresInbox, WhatIsTooOldToBeRememberedIsForgottenUnlessItIsRemembered) {
  auto store = store_with(count_one);
  const Event* const known = event();
  ASSERT_TRUE(apply(*store, {known}));
  ASSERT_TRUE(store->commit(1, 0));
  Event* const old = &events.emplace_back(*event());
  old->id.bytes[0] = 1;  // a year long ago, as its id says
  Event* const foreign = &events.emplace_back(*event());
  foreign->id.bytes[6] = 0x4f;  // no UUIDv7: its own time counts
  const std::vector<const Event*> batch = {known, old, foreign};
  EXPECT_EQ(insert(*store, batch),
            (std::vector<Arrival>{Arrival::duplicate, Arrival::first, Arrival::first}));
  store->rollback();
  must(connection, "UPDATE dovetail.inbox_state SET forgotten_before = now() + interval '1 day'");
  must(connection, "UPDATE dovetail.consumer SET created_at = now() + interval '1 day'");
  ASSERT_TRUE(store->open());
  EXPECT_EQ(insert(*store, batch),
            (std::vector<Arrival>{Arrival::duplicate, Arrival::first, Arrival::first}))
      << "nothing of a later consumer was forgotten";
  store->rollback();
  must(connection, "UPDATE dovetail.consumer SET created_at = now()");
  ASSERT_TRUE(store->open());
  for (int again = 0; again < 2; ++again) {
    EXPECT_EQ(insert(*store, batch),
              (std::vector<Arrival>{Arrival::duplicate, Arrival::forgotten, Arrival::forgotten}));
    ASSERT_TRUE(store->commit(0, 1));
    EXPECT_EQ(inbox(), 1) << "a forgotten event gets no row";
  }
  foreign->created_at = WallTime{};
  EXPECT_EQ(insert(*store, batch),
            (std::vector<Arrival>{Arrival::duplicate, Arrival::forgotten, Arrival::first}))
      << "of an unknown age";
}

TEST_F(PostgresInbox, AVersionGuardLeavesWhatIsLateAlone) {
  InboxStoreOptions guarded = options(count_one);
  guarded.version_guard = true;
  auto store = opened(guarded);
  const auto version = [&](std::int64_t number, std::string_view key = "17") {
    Event& made = events.emplace_back(*event("placed", key));
    made.aggregate_version = number;
    return &made;
  };
  const auto both = [&](std::vector<const Event*> batch, std::vector<Arrival> expected) {
    EXPECT_EQ(insert(*store, batch), expected);
    std::vector<const Event*> firsts;
    for (std::size_t i = 0; i < batch.size(); ++i)
      if (expected[i] == Arrival::first) firsts.push_back(batch[i]);
    EXPECT_TRUE(store->apply(firsts));
    EXPECT_TRUE(store->commit(firsts.size(), batch.size() - firsts.size()));
  };
  constexpr Arrival kFirst = Arrival::first;
  constexpr Arrival kLate = Arrival::superseded;
  // Within a batch, in its order, which is not that of the ids.
  const Event* const third = version(3);
  both({version(2), third, version(1), version(1, "18"), version(0)},
       {kFirst, kFirst, kLate, kFirst, kFirst});
  const Event* const late = version(3);
  both({late, version(4)}, {kLate, kFirst});
  both({third, late, version(2, "18")}, {Arrival::duplicate, Arrival::duplicate, kFirst});
  EXPECT_EQ(text(connection,
                 "SELECT string_agg(aggregate_id || '=' || version, ' ' ORDER BY aggregate_id) "
                 "FROM dovetail.applied_version"),
            "17=4 18=2");
  EXPECT_EQ(text(connection,
                 "SELECT concat_ws(',', applied, duplicates, superseded) FROM "
                 "dovetail.consumer_lane"),
            "6,2,2");

  ASSERT_TRUE(apply(*store, {version(9)}));
  store->rollback();
  both({version(5)}, {kFirst});

  // What the inbox has forgotten, the guard remembers.
  must(connection, "UPDATE dovetail.inbox_state SET forgotten_before = now() + interval '1 day'");
  EXPECT_EQ(insert(*store, std::vector<const Event*>{version(5), version(6)}),
            (std::vector<Arrival>{kLate, Arrival::forgotten}));
}

TEST_F(PostgresInbox, TheGuardsOfTwoStoresSeeEachOther) {
  constexpr int kVersions = 40;
  std::vector<const Event*> all;
  for (int i = 1; i <= kVersions; ++i) {
    Event& made = events.emplace_back(*event());
    made.aggregate_version = i;
    all.push_back(&made);
  }
  must(connection, "CREATE TABLE state (version bigint); INSERT INTO state VALUES (0)");
  InboxStoreOptions guarded = options([](Handling& handling, const Event& one) -> Status {
    DOVETAIL_TRY(handling.queue("INSERT INTO effect SELECT 1 FROM state WHERE version >= $1",
                                {one.aggregate_version}));
    return handling.queue("UPDATE state SET version = $1", {one.aggregate_version});
  });
  guarded.version_guard = true;
  {
    std::vector<std::jthread> threads;
    for (std::uint32_t lane = 0; lane < 2; ++lane)
      threads.emplace_back([&, lane] {
        InboxStoreOptions own = guarded;
        own.lane = lane;
        PostgresInboxStore store(own);
        ASSERT_TRUE(store.open());
        for (std::size_t i = lane; i < all.size(); i += 2) {
          const std::vector<const Event*> one = {all[i]};
          const bool is_first = insert(store, one)[0] == Arrival::first;
          ASSERT_TRUE(!is_first || store.apply(one));
          ASSERT_TRUE(store.commit(is_first ? 1 : 0, is_first ? 0 : 1));
        }
      });
  }
  EXPECT_EQ(number(connection, "SELECT version FROM state"), kVersions);
  EXPECT_EQ(effects(), 0) << "nothing went back";
}

TEST_F(PostgresInbox, TwoHandlersOfOneNameAreRefused) {
  InboxStoreOptions two = options(count_one);
  two.handlers.push_back(two.handlers[0]);
  PostgresInboxStore store(two);
  EXPECT_TRUE(failed_with(store.open(), Errc::rejected));
}

TEST_F(PostgresInbox, TheRelaysRoleMayDoAllOfIt) {
  const Status made = create_roles(connection);
  ASSERT_TRUE(made) << text_of(made);
  const std::string user = "consumer_" + database.name;
  must(connection, "CREATE ROLE " + user + " LOGIN IN ROLE dovetail_relay");
  must(connection, "GRANT ALL ON effect TO " + user);
  InboxStoreOptions limited = options([](Handling& handling, const Event& one) -> Status {
    DOVETAIL_TRY(count_one(handling, one));
    const Result<pg_conn*> own = handling.connection();
    return own ? Status{} : fail(own.error());
  });
  limited.conninfo += " user=" + user;
  {
    auto store = opened(limited);
    const std::vector<const Event*> batch = {event()};
    EXPECT_TRUE(store->count_attempt(batch[0]->id, 1));
    const Status applied = apply(*store, batch);
    EXPECT_TRUE(applied) << text_of(applied);
    EXPECT_TRUE(store->commit(1, 0));
    EXPECT_TRUE(store->close());
  }
  must(connection, "DROP OWNED BY " + user + "; DROP ROLE " + user);
}

TEST(EndsTransaction, OnlyWhatEndsIt) {
  for (const char* sql :
       {"commit", "COMMIT WORK", "End;", "abort", "rollback", "ROLLBACK;", "rollback transaction",
        "prepare transaction 'a'", "rollback prepared 'a'"})
    EXPECT_TRUE(ends_transaction(sql)) << sql;
  for (const char* sql : {"SELECT 1", "rollback to a", "ROLLBACK WORK TO SAVEPOINT a", "committed",
                          "prepare a as select 1", "savepoint commit", "", "-- commit", "/* commit",
                          "endless", "WITH a AS (SELECT 1) SELECT 'commit'"})
    EXPECT_FALSE(ends_transaction(sql)) << sql;
}

}  // namespace
}  // namespace dovetail::postgres
