#include "postgres/inbox/handlers.h"

#include <deque>

#include "host/host.h"
#include "postgres/schema/schema.h"
#include "postgres/testing/test_database.h"

namespace dovetail::postgres {
namespace {

class SqlFunctions : public testing::Test {
 protected:
  SqlFunctions() : connection(database.connect()) {
    EXPECT_TRUE(create_schema(connection));
    must(connection, "CREATE TABLE seen (n int GENERATED ALWAYS AS IDENTITY, what text)");
  }
  std::unique_ptr<PostgresInboxStore> store_with(std::string_view function, bool batch) {
    InboxStoreOptions options;
    options.conninfo = database.conninfo;
    options.consumer = "stock";
    Result<TransactionHandler> handler = sql_function("stock", {}, function, batch);
    EXPECT_TRUE(handler) << text_of(handler);
    if (handler) options.handlers.push_back(*handler);
    return std::make_unique<PostgresInboxStore>(std::move(options));
  }
  const Event* event(std::string_view key) {
    Event& made = events.emplace_back();
    made.id = new_event_id();
    made.topic = "orders";
    made.aggregate_type = "order";
    made.aggregate_id = key;
    made.type = "placed";
    made.content_type = "application/json";
    made.headers = R"({"trace":"7"})";
    made.payload = R"({"total": 12})";
    made.aggregate_version = 3;
    made.created_at = WallTime{std::chrono::seconds(1'700'000'000)};
    return &made;
  }
  static Status apply(PostgresInboxStore& store, const std::vector<const Event*>& batch) {
    std::vector<Arrival> arrivals(batch.size());
    DOVETAIL_TRY(store.open());
    DOVETAIL_TRY(store.begin());
    DOVETAIL_TRY(store.insert(batch, arrivals));
    DOVETAIL_TRY(store.apply(batch));
    return store.commit(batch.size(), 0);
  }
  std::string seen() {
    return text(connection, "SELECT string_agg(what, ' ' ORDER BY n) FROM seen");
  }

  TestDatabase database;
  Connection connection;
  std::deque<Event> events;
};

TEST_F(SqlFunctions, EachEventInItsOrderWithAllThatItHas) {
  must(connection,
       "CREATE FUNCTION take(e dovetail.event) RETURNS void LANGUAGE plpgsql AS $$ BEGIN "
       "INSERT INTO seen (what) VALUES (concat_ws('|', e.topic, e.aggregate_type, e.aggregate_id, "
       "e.type, e.content_type, e.headers ->> 'trace', dovetail.json(e) ->> 'total', "
       "e.aggregate_version, extract(epoch FROM e.created_at)::int, e.id IS NOT NULL)); END $$");
  auto store = store_with("take", false);
  const Status applied = apply(*store, {event("3"), event("1"), event("2")});
  ASSERT_TRUE(applied) << text_of(applied);
  const std::string rest = "|placed|application/json|7|12|3|1700000000|t";
  EXPECT_EQ(seen(), "orders|order|3" + rest + " orders|order|1" + rest + " orders|order|2" + rest);
}

TEST_F(SqlFunctions, AWholeBatchInItsOrder) {
  must(connection,
       "CREATE SCHEMA \"My Shop\"; CREATE FUNCTION \"My Shop\".\"Take\"\"All\"(e dovetail.event[]) "
       "RETURNS bigint LANGUAGE sql AS $$ WITH added AS (INSERT INTO public.seen (what) "
       "SELECT (x).aggregate_id FROM unnest(e) WITH ORDINALITY AS u (id, topic, aggregate_type, "
       "aggregate_id, type, content_type, headers, payload, aggregate_version, created_at, n) "
       "CROSS JOIN LATERAL (SELECT u AS x) AS y ORDER BY n RETURNING 1) "
       "SELECT count(*) FROM added $$");
  auto store = store_with("My Shop.Take\"All", true);
  const Status applied = apply(*store, {event("3"), event("1"), event("2")});
  ASSERT_TRUE(applied) << text_of(applied);
  EXPECT_EQ(seen(), "3 1 2");
}

TEST_F(SqlFunctions, WhatIsUnknownIsNullOrEmpty) {
  must(connection,
       "CREATE FUNCTION take(e dovetail.event) RETURNS void LANGUAGE sql AS $$ INSERT INTO "
       "seen (what) VALUES (e.headers::text || (e.created_at IS NULL)::text || e.topic) $$");
  Event bare = *event("1");
  bare.headers = bare.topic = {};
  bare.created_at = {};
  auto store = store_with("public.take", false);
  const Status applied = apply(*store, {&bare});
  ASSERT_TRUE(applied) << text_of(applied);
  EXPECT_EQ(seen(), "{}true");
}

TEST_F(SqlFunctions, AnExceptionOfOneFailsTheBatchAndSaysWhatItMeans) {
  must(connection,
       "CREATE FUNCTION take(e dovetail.event) RETURNS void LANGUAGE plpgsql AS $$ BEGIN "
       "INSERT INTO seen (what) VALUES ('x'); IF e.aggregate_id = '2' THEN RAISE EXCEPTION "
       "'no such product' USING ERRCODE = 'DTREJ'; END IF; END $$");
  auto store = store_with("take", false);
  const Status applied = apply(*store, {event("1"), event("2")});
  EXPECT_TRUE(failed_with(applied, Errc::rejected)) << text_of(applied);
  EXPECT_TRUE(contains(text_of(applied), "no such product")) << text_of(applied);
  store->rollback();
  EXPECT_EQ(seen(), "null");
}

// Otherwise every event would fail and be parked.
TEST_F(SqlFunctions, OneThatIsNotThereOrNotAllowedIsToldBeforeAnyEventIsTried) {
  const Result<bool> missing = store_with("take", false)->open();
  EXPECT_TRUE(failed_with(missing, Errc::rejected)) << text_of(missing);
  EXPECT_TRUE(contains(text_of(missing), "the consumer's database has no function take"))
      << text_of(missing);
  must(connection,
       "CREATE FUNCTION take(e dovetail.event) RETURNS void LANGUAGE sql AS 'SELECT'; "
       "REVOKE ALL ON FUNCTION take(dovetail.event) FROM public");
  EXPECT_TRUE(store_with("take", false)->open());
  EXPECT_TRUE(failed_with(store_with("take", true)->open(), Errc::rejected));
  ASSERT_TRUE(create_roles(connection));
  const std::string user = "limited_" + database.name;
  must(connection, "CREATE ROLE " + user + " LOGIN IN ROLE dovetail_relay");
  database.conninfo += " user=" + user;
  const Result<bool> denied = store_with("take", false)->open();
  EXPECT_TRUE(contains(text_of(denied), "GRANT EXECUTE")) << text_of(denied);
  must(connection, "DROP OWNED BY " + user + "; DROP ROLE " + user);
}

TEST_F(SqlFunctions, NamesThatCannotBeAreRefused) {
  for (const char* name : {"", ".", "a.", ".a"})
    EXPECT_TRUE(failed_with(sql_function("s", {}, name, false), Errc::rejected)) << name;
}

}  // namespace
}  // namespace dovetail::postgres
