// What handlers may rely on in their transaction.
#include "postgres/inbox/invocation.h"

#include <libpq-fe.h>

#include <stdexcept>

#include "postgres/testing/test_inbox.h"

namespace dovetail::postgres {
namespace {

// libpq's result of a statement on the connection itself.
ExecStatusType exec(Invocation& invocation, const char* sql) {
  const Result<pg_conn*> connection = invocation.connection();
  if (!connection) return PGRES_FATAL_ERROR;
  PGresult* const result = PQexec(*connection, sql);
  const ExecStatusType status = PQresultStatus(result);
  PQclear(result);
  return status;
}

class PostgresInvocation : public InboxTest {};

TEST_F(PostgresInvocation, ExceptionsOfAHandlerAreFailures) {
  auto store = store_with(
      [](Invocation&, const Event&) -> Status { throw std::runtime_error("no such customer"); });
  const Status applied = apply(*store, {event()});
  EXPECT_TRUE(failed_with(applied, Errc::failed)) << text_of(applied);
  EXPECT_TRUE(contains(text_of(applied), "no such customer")) << text_of(applied);
  store->rollback();
  auto odd = store_with([](Invocation&, const Event&) -> Status { throw 17; }, true, 1);
  EXPECT_TRUE(failed_with(apply(*odd, {event()}), Errc::failed));
}

TEST_F(PostgresInvocation, AQueuedStatementThatFailsIsAFailureWhateverTheHandlerSays) {
  auto store = store_with([](Invocation& invocation, const Event& one) {
    (void)invocation.queue("SELECT 1 / 0");
    (void)count_one(invocation, one);
    return Status{};
  });
  const Status applied = apply(*store, {event(), event()});
  EXPECT_TRUE(failed_with(applied, Errc::failed)) << text_of(applied);
  EXPECT_TRUE(contains(text_of(applied), "division by zero")) << text_of(applied);
  store->rollback();
  ASSERT_TRUE(store->begin()) << "the store is of use again";
  ASSERT_TRUE(store->commit(0, 0));
  EXPECT_EQ(effects() + inbox(), 0);
}

TEST_F(PostgresInvocation, ErrorsOfStatementsSayWhetherTheyCount) {
  must(connection,
       "CREATE FUNCTION refuse(state text) RETURNS void LANGUAGE plpgsql AS $$ BEGIN "
       "RAISE EXCEPTION 'refused' USING ERRCODE = state; END $$");
  const auto code_of = [&](std::string state) {
    auto store =
        std::make_unique<PostgresInboxStore>(options([state](Invocation& invocation, const Event&) {
          return invocation.queue("SELECT refuse($1)", {state});
        }));
    EXPECT_TRUE(store->open());
    const Status applied = apply(*store, {event()});
    return applied ? Errc::stopped : applied.error().code;
  };
  EXPECT_EQ(code_of("DTREJ"), Errc::rejected) << "the function wants it parked";
  EXPECT_EQ(code_of("DTNOW"), Errc::unavailable) << "the function wants to wait";
  EXPECT_EQ(code_of("P0001"), Errc::failed);
  EXPECT_EQ(code_of("23505"), Errc::failed);
  EXPECT_EQ(code_of("XX000"), Errc::failed) << "a broken function must not stop the consumer";
  for (const char* passing : {"40001", "40P01", "55P03", "53100", "57P03"})
    EXPECT_EQ(code_of(passing), Errc::unavailable) << passing;
}

TEST_F(PostgresInvocation, AStatementThatRunsIntoItsTimeLimitHasFailed) {
  InboxStoreOptions slow = options([](Invocation& invocation, const Event&) {
    (void)invocation.queue("SET LOCAL statement_timeout = '20ms'");
    return invocation.queue("SELECT pg_sleep(30)");
  });
  auto store = opened(slow);
  const Status applied = apply(*store, {event()});
  EXPECT_TRUE(failed_with(applied, Errc::failed)) << text_of(applied);
  store->rollback();
  EXPECT_TRUE(apply(*store, {})) << "the limit ends with the transaction";
}

TEST_F(PostgresInvocation, ADeferredConstraintFailsInTheHandlerAndNotAtCommit) {
  must(connection,
       "CREATE TABLE product (id int PRIMARY KEY); CREATE TABLE line (product int REFERENCES "
       "product DEFERRABLE INITIALLY DEFERRED)");
  auto store = store_with([](Invocation& invocation, const Event&) {
    return invocation.queue("INSERT INTO line VALUES (17)");
  });
  const Status applied = apply(*store, {event()});
  EXPECT_TRUE(failed_with(applied, Errc::failed)) << text_of(applied);
  EXPECT_TRUE(contains(text_of(applied), "23503")) << text_of(applied);
}

// If the commit succeeded, later events would have inbox rows without effects: lost
// events.
TEST_F(PostgresInvocation, AHandlerCannotEndTheTransaction) {
  const auto queued = [](std::string sql) {
    return [sql](Invocation& invocation, const Event& one) {
      (void)count_one(invocation, one);
      (void)invocation.queue(sql);
      (void)invocation.queue("BEGIN");
      return Status{};
    };
  };
  const auto executed = [](std::string sql) {
    return [sql](Invocation& invocation, const Event& one) {
      (void)count_one(invocation, one);
      (void)exec(invocation, sql.c_str());
      (void)exec(invocation, "BEGIN");
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
    if (contains(what, "commit_guard")) continue;  // on purpose: this cannot be prevented
    auto store = store_with(handler, true, lane++);
    const Status applied = apply(*store, {event(), event()});
    EXPECT_TRUE(failed_with(applied, Errc::rejected)) << what << ": " << text_of(applied);
    store->rollback();
    EXPECT_EQ(effects() + inbox(), 0) << what;
    ASSERT_TRUE(store->begin());
    ASSERT_TRUE(store->commit(0, 0)) << what;
    EXPECT_EQ(number(connection, "SELECT count(*) FROM dovetail.commit_guard"), 0) << what;
  }
}

TEST_F(PostgresInvocation, AHandlerThatEndsTheTransactionIsRejectedWhateverItSaysItself) {
  std::uint32_t lane = 0;
  for (const bool queues : {true, false}) {
    auto store = store_with(
        [queues](Invocation& invocation, const Event&) -> Status {
          if (queues) (void)invocation.queue("COMMIT");
          if (!queues) (void)exec(invocation, "COMMIT");
          return fail(Errc::failed, "the commit did not work");
        },
        true, lane++);
    const Status applied = apply(*store, {event()});
    EXPECT_TRUE(failed_with(applied, Errc::rejected)) << queues << ": " << text_of(applied);
    EXPECT_TRUE(contains(text_of(applied), "ended the transaction")) << text_of(applied);
  }
}

TEST_F(PostgresInvocation, AHandlerPublishesWhatTheDatabaseAllows) {
  const std::string large(3 << 20, 'x');
  auto store = store_with([&large](Invocation& invocation, const Event&) -> Status {
    const NewEvent next{
        .aggregate_type = "order", .aggregate_id = "17", .type = "packed", .payload = large};
    const Result<EventId> published = invocation.publish(next);
    return published ? Status{} : fail(published.error());
  });
  const Status refused = apply(*store, {event()});
  EXPECT_TRUE(contains(text_of(refused), "the limit is 1024000")) << text_of(refused);
  store->rollback();
  must(connection, "UPDATE dovetail.outbox_limit SET payload_bytes_max = 4 << 20");
  const Status applied = apply(*store, {event()});
  EXPECT_TRUE(applied) << text_of(applied);
  EXPECT_TRUE(store->commit(1, 0));
  must(connection, "UPDATE dovetail.outbox_limit SET payload_bytes_max = 1 << 20");
}

TEST_F(PostgresInvocation, SavepointsAreTheHandlersOwn) {
  auto store = store_with([](Invocation& invocation, const Event& one) -> Status {
    EXPECT_EQ(exec(invocation, "SAVEPOINT mine"), PGRES_COMMAND_OK);
    EXPECT_EQ(exec(invocation, "SELECT 1 / 0"), PGRES_FATAL_ERROR);
    EXPECT_EQ(exec(invocation, "ROLLBACK TO mine"), PGRES_COMMAND_OK);
    DOVETAIL_TRY(invocation.queue("SAVEPOINT other"));
    DOVETAIL_TRY(invocation.queue("DELETE FROM effect"));
    DOVETAIL_TRY(invocation.queue("ROLLBACK TO other"));
    return count_one(invocation, one);
  });
  const Status applied = apply(*store, {event(), event()});
  ASSERT_TRUE(applied) << text_of(applied);
  ASSERT_TRUE(store->commit(2, 0));
  EXPECT_EQ(effects(), 2);
}

TEST_F(PostgresInvocation, QueuedStatementsAndTheConnectionSeeOneTransaction) {
  std::vector<std::string> seen;
  auto store = store_with([&](Invocation& invocation, const Event& one) -> Status {
    DOVETAIL_TRY(count_one(invocation, one));
    const Result<pg_conn*> own = invocation.connection();
    if (!own) return fail(own.error());
    PGresult* const result = PQexec(*own, "SELECT count(*) FROM effect");
    seen.emplace_back(PQgetvalue(result, 0, 0));
    PQclear(result);
    return count_one(invocation, one);
  });
  ASSERT_TRUE(apply(*store, {event(), event()}));
  ASSERT_TRUE(store->commit(2, 0));
  EXPECT_EQ(seen, (std::vector<std::string>{"1", "3"}));
  EXPECT_EQ(effects(), 4);
}

TEST_F(PostgresInvocation, AHandlerThatLeavesAStatementUnderWayFailsAndTheStoreGoesOn) {
  auto store = store_with([](Invocation& invocation, const Event&) -> Status {
    const Result<pg_conn*> own = invocation.connection();
    EXPECT_EQ(PQsendQuery(*own, "SELECT 1"), 1);
    return {};
  });
  const Status applied = apply(*store, {event()});
  EXPECT_TRUE(failed_with(applied, Errc::failed)) << text_of(applied);
  EXPECT_TRUE(contains(text_of(applied), "unfinished statement")) << text_of(applied);
  store->rollback();
  EXPECT_EQ(store->count_attempt(event()->id, +1).value(), 1U);
  ASSERT_TRUE(store->begin());
  ASSERT_TRUE(store->commit(0, 0));
}

TEST_F(PostgresInvocation, WhatAHandlerPublishesExistsIfAndOnlyIfItsEffectDoes) {
  auto store = store_with([](Invocation& invocation, const Event& one) -> Status {
    NewEvent follow_up;
    follow_up.aggregate_type = "stock";
    follow_up.aggregate_id = one.aggregate_id;
    follow_up.type = "reserved";
    follow_up.payload = "{}";
    follow_up.id = one.id;
    const Result<EventId> published = invocation.publish(follow_up);
    if (!published) return fail(published.error());
    follow_up.id.reset();
    const Result<EventId> another = invocation.publish(follow_up);
    return another ? count_one(invocation, one) : fail(another.error());
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

TEST_F(PostgresInvocation, AnInvalidFollowUpIsTheHandlersFailure) {
  auto store = store_with([](Invocation& invocation, const Event&) -> Status {
    const Result<EventId> published = invocation.publish(NewEvent{});
    return published ? Status{} : fail(published.error());
  });
  EXPECT_FALSE(apply(*store, {event()}));
}

TEST_F(PostgresInvocation, ParametersArriveAsTheyAre) {
  must(connection, "CREATE TABLE value (t text, b bytea, n bigint, i uuid, nothing int)");
  const std::string bytes("a\0b\xff", 4);
  const Event* const one = event();
  auto store = store_with([&](Invocation& invocation, const Event& given) {
    return invocation.queue(
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

// More than all buffers on the way hold, in both directions.
TEST_F(PostgresInvocation, LargeBatchesNeitherBlockNorLoseAnything) {
  const std::string large(200'000, 'x');
  auto store = store_with([&](Invocation& invocation, const Event& one) -> Status {
    DOVETAIL_TRY(invocation.queue("SELECT repeat($1, 10)", {large}));
    return count_one(invocation, one);
  });
  std::vector<const Event*> batch;
  for (int i = 0; i < 60; ++i) batch.push_back(event());
  const Status applied = apply(*store, batch);
  ASSERT_TRUE(applied) << text_of(applied);
  ASSERT_TRUE(store->commit(60, 0));
  EXPECT_EQ(effects(), 60);
}

TEST_F(PostgresInvocation, ALostConnectionIsNoFailureOfTheEvent) {
  auto store = store_with([&](Invocation& invocation, const Event& one) -> Status {
    DOVETAIL_TRY(count_one(invocation, one));
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

TEST_F(PostgresInvocation, TheStoreTellsAConnectionThatBrokeFromAHandlerThatFailed) {
  constexpr std::string_view kEndIt = "SELECT pg_terminate_backend(pg_backend_pid())";
  std::function<Status(Invocation&)> handler;
  auto store =
      store_with([&](Invocation& invocation, const Event&) { return handler(invocation); });
  const auto broke_with = [&](Errc code) {
    const Status applied = apply(*store, {event()});
    EXPECT_TRUE(failed_with(applied, code)) << text_of(applied);
    const bool broke = store->broke();
    store->rollback();
    return broke;
  };
  handler = [&](Invocation& invocation) { return invocation.queue(kEndIt); };
  EXPECT_TRUE(broke_with(Errc::unavailable));
  handler = [&](Invocation& invocation) -> Status {
    (void)exec(invocation, std::string(kEndIt).c_str());
    return fail(Errc::failed, "the handler's own words");
  };
  EXPECT_TRUE(broke_with(Errc::unavailable)) << "what it says of it does not count";
  handler = [](Invocation&) { return fail(Errc::unavailable, "not now"); };
  EXPECT_FALSE(broke_with(Errc::unavailable));
  handler = [](Invocation& invocation) { return invocation.queue("SELECT 1 / 0"); };
  EXPECT_FALSE(broke_with(Errc::failed));
  handler = [](Invocation& invocation) { return invocation.queue("COPY effect FROM STDIN"); };
  EXPECT_FALSE(broke_with(Errc::failed)) << "it was closed because of what was sent";
  handler = [](Invocation& invocation) { return invocation.queue("SELECT 1"); };
  EXPECT_TRUE(apply(*store, {event()}));
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
