#include "postgres/schema.h"

#include <libpq-fe.h>

#include <future>

#include "postgres/test_database.h"
#include "postgres/test_version.h"

namespace dovetail::postgres {
namespace {

TEST(PostgresSchema, IsMadeOnceAndFoundAgain) {
  EmptyDatabase database;
  Connection connection = database.connect();
  EXPECT_TRUE(failed_with(check_schema(connection), Errc::rejected));
  EXPECT_TRUE(contains(text_of(check_schema(connection)), "dovetail init"));
  ASSERT_TRUE(create_schema(connection)) << text_of(create_schema(connection));
  EXPECT_TRUE(create_schema(connection));
  EXPECT_TRUE(check_schema(connection));
}

TEST(PostgresSchema, SeveralProcessesMayMakeItAtOnce) {
  EmptyDatabase database;
  std::vector<std::future<Status>> made;
  for (int i = 0; i < 4; ++i)
    made.push_back(std::async(std::launch::async, [&] {
      Connection connection = database.connect();
      return create_schema(connection);
    }));
  for (auto& one : made) {
    const Status status = one.get();
    EXPECT_TRUE(status) << text_of(status);
  }
}

TEST(PostgresSchema, IsMadeInsideTheCallersTransaction) {
  EmptyDatabase database;
  Connection connection = database.connect();
  must(connection, "BEGIN");
  ASSERT_TRUE(create_schema(connection));
  must(connection, "ROLLBACK");
  EXPECT_FALSE(check_schema(connection));
}

TEST(PostgresSchema, ANewerOneIsRefused) {
  EmptyDatabase database;
  Connection connection = database.connect();
  ASSERT_TRUE(create_schema(connection));
  must(connection, "UPDATE dovetail.schema_version SET version = 99, compatible_from = 98");
  EXPECT_TRUE(failed_with(create_schema(connection), Errc::corrupt));
  EXPECT_TRUE(failed_with(check_schema(connection), Errc::corrupt));
  EXPECT_TRUE(contains(text_of(check_schema(connection)), "upgrade dovetail"));
}

TEST(PostgresSchema, AMigrationDoesNotHoldUpPublishersForLong) {
  EmptyDatabase database;
  Connection connection = database.connect();
  ASSERT_TRUE(create_schema(connection));
  std::vector<Migration> steps(migrations().begin(), migrations().end());
  const std::string next =
      "ALTER TABLE dovetail.outbox ADD COLUMN trace text; UPDATE dovetail.schema_version SET "
      "version = version + 1";
  steps.push_back({kSchemaVersion + 1, next});
  Connection slow = database.connect();
  must(slow, "BEGIN; SELECT dovetail.publish('order', '1', 'placed', '{}')");
  const Status waited = create_schema(connection.get(), steps);
  EXPECT_TRUE(failed_with(waited, Errc::unavailable)) << text_of(waited);
  EXPECT_TRUE(contains(text_of(waited), "long transactions")) << text_of(waited);
  EXPECT_EQ(check_schema(connection).value_or(0), kSchemaVersion) << "all or nothing";
  must(slow, "COMMIT");
  EXPECT_TRUE(create_schema(connection.get(), steps));
  EXPECT_EQ(check_schema(connection).value_or(0), kSchemaVersion + 1);
}

TEST(PostgresSchema, CanBeAppliedByHand) {
  EmptyDatabase database;
  Connection connection = database.connect();
  must(connection, schema_sql());
  must(connection, roles_sql());
  EXPECT_TRUE(check_schema(connection));
}

TEST(PostgresSchema, ASchemaOfSomebodyElseIsNotTouched) {
  EmptyDatabase database;
  Connection connection = database.connect();
  must(connection, "CREATE SCHEMA dovetail; CREATE TABLE dovetail.theirs (x int)");
  EXPECT_TRUE(failed_with(create_schema(connection), Errc::rejected));
  EXPECT_EQ(number(connection, "SELECT count(*) FROM dovetail.theirs"), 0);
}

// Logins with one role each; roles belong to the cluster, logins are named after the database.
class PostgresRoles : public testing::Test {
 protected:
  PostgresRoles() : owner_(database_.connect()) {
    EXPECT_TRUE(create_schema(owner_));
    EXPECT_TRUE(create_roles(owner_)) << text_of(create_roles(owner_));
    EXPECT_TRUE(create_roles(owner_)) << "again";
    for (const char* role : {"app", "relay", "operator"})
      must(owner_,
           "CREATE ROLE " + login(role) + " LOGIN; GRANT dovetail_" + role + " TO " + login(role));
  }
  ~PostgresRoles() override {
    for (const char* role : {"app", "relay", "operator"}) must(owner_, "DROP ROLE " + login(role));
  }
  std::string login(const std::string& role) const { return database_.name + "_" + role; }
  Connection as(const std::string& role) const { return database_.connect(login(role)); }
  static bool is_refused(Connection& connection, const std::string& sql) {
    const Status status = connection.execute(sql);
    return failed_with(status, Errc::rejected) && contains(status.error().text, "42501");
  }

  TestDatabase database_;
  Connection owner_;
};

TEST_F(PostgresRoles, TheApplicationEmitsInEveryWayOrIsToldOfAServerThatCannot) {
  Connection app = as("app");
  for (const std::string payload : {"'{}'", "'{}'::jsonb", "'\\x00'::bytea"}) {
    const Status done =
        app.execute("SELECT dovetail.emit('order', '1', 'placed', " + payload + ")");
    EXPECT_EQ(static_cast<bool>(done), !is_before(app, 14)) << text_of(done);
    EXPECT_TRUE(done || contains(done.error().text, "check that it is PostgreSQL 14"))
        << text_of(done);
  }
}

TEST_F(PostgresRoles, TheApplicationPublishesInEveryWay) {
  Connection app = as("app");
  must(app, "SELECT dovetail.publish('order', '1', 'placed', '{}')");
  must(app, "SELECT dovetail.publish('order', '1', 'placed', '{}'::jsonb)");
  must(app, "SELECT dovetail.publish('order', '1', 'placed', '\\x00'::bytea)");
  must(app,
       "SELECT dovetail.publish('order', '1', 'placed', '{}', deliver_at => now() + interval '1 "
       "h')");
  must(app,
       "INSERT INTO dovetail.outbox (aggregate_type, aggregate_id, type, payload, headers) "
       "VALUES ('order', '1', 'placed', '{}', '{\"a\": \"b\"}')");
  must(app, "BEGIN");
  NewEvent event;
  event.aggregate_type = "order";
  event.type = "placed";
  event.payload = "{}";
  event.id = EventId{{7}};
  EXPECT_TRUE(publish(app.get(), event)) << text_of(publish(app.get(), event));
  EXPECT_TRUE(publish(app.get(), event)) << "the same again";
  EXPECT_TRUE(publish(app.get(), std::vector<NewEvent>{event, event}));
  must(app, "COMMIT");
  EXPECT_EQ(number(owner_, "SELECT count(*) FROM dovetail.outbox"), 5);
  EXPECT_EQ(number(owner_, "SELECT count(*) FROM dovetail.delayed"), 1);
}

TEST_F(PostgresRoles, TheApplicationReadsNothingAndTouchesNothingElse) {
  Connection app = as("app");
  must(app, "SELECT dovetail.publish('order', '1', 'placed', '{}')");
  for (const char* table : {"outbox", "outbox_default", "delayed", "reader", "parked", "audit",
                            "relay_process", "outbox_limit", "schema_version", "events", "lag",
                            "inbox", "consumer", "claim", "queue", "queues", "queue_parked"})
    EXPECT_TRUE(is_refused(app, "SELECT * FROM dovetail." + std::string(table))) << table;
  for (
      const char* sql :
      {"SELECT payload FROM dovetail.outbox", "UPDATE dovetail.outbox SET type = 'x'",
       "DELETE FROM dovetail.outbox", "TRUNCATE dovetail.outbox",
       "INSERT INTO dovetail.outbox (aggregate_type, type, payload) VALUES ('a', 'b', 'c') "
       "RETURNING payload",
       "INSERT INTO dovetail.outbox (aggregate_type, type, payload, xid) VALUES ('a', 'b', 'c', "
       "'3')",
       "INSERT INTO dovetail.outbox (aggregate_type, type, payload, seq) VALUES ('a', 'b', 'c', 3)",
       "INSERT INTO dovetail.outbox_default (aggregate_type, type, payload) VALUES ('a', 'b', 'c')",
       "UPDATE dovetail.reader SET owner = ''", "DELETE FROM dovetail.parked",
       "SELECT dovetail.release_delayed(1)", "SELECT dovetail.adopt_foreign_rows(1)",
       "SELECT dovetail.set_backlog_limit(1)", "SELECT setval('dovetail.outbox_seq', 1)",
       "CREATE TABLE dovetail.mine (x int)", "DROP TABLE dovetail.outbox_default"})
    EXPECT_FALSE(app.execute(sql)) << sql;
}

TEST_F(PostgresRoles, TheApplicationAppliesEventsThroughFunctionsAlone) {
  const std::string id = "'01890000-0000-7000-8000-000000000001'";
  Connection relay = as("relay");
  must(relay, "SELECT dovetail.enqueue('stock', ARRAY[" + id +
                  "]::uuid[], '{t}', '{order}', '{1}', '{placed}', '{text/plain}', '{\"\"}', "
                  "'{\"\\\\x00\"}', '{0}', ARRAY[now()])");
  Connection app = as("app");
  must(app,
       "SELECT dovetail.extend('stock', id, epoch, '1 h'), dovetail.release('stock', id, epoch) "
       "FROM dovetail.receive('stock')");
  must(app, "SELECT dovetail.fail('stock', id, epoch, '', '0') FROM dovetail.receive('stock')");
  must(app, "SELECT dovetail.complete('stock', id, epoch) FROM dovetail.receive('stock')");
  must(app, "SELECT dovetail.claim('mail', " + id + ")");
  must(app, "SELECT dovetail.complete('post', " + id + ", epoch) FROM dovetail.claim('post', " +
                id + ", '1 s')");
  EXPECT_EQ(text(owner_,
                 "SELECT string_agg(c.name, ' ' ORDER BY c.name) FROM dovetail.inbox JOIN "
                 "dovetail.consumer c ON c.id = consumer_id"),
            "mail post");
  const std::string others[] = {"SELECT dovetail.replay('stock', " + id + ")",
                                "SELECT dovetail.discard('stock', " + id + ", 'x')",
                                "SELECT dovetail.queue_replay('{1}')",
                                "SELECT dovetail.consumer_id('x')",
                                "SELECT dovetail.queue_park(1, " + id + ", 'x')",
                                "SELECT dovetail.claim_event(1, " + id + ", NULL, '1 s')"};
  for (const std::string& sql : others) EXPECT_TRUE(is_refused(app, sql)) << sql;
}

TEST_F(PostgresRoles, TheRelayReadsAndKeepsItsProgressButPublishesNothing) {
  Connection relay = as("relay");
  must(relay, "SELECT payload FROM dovetail.outbox");
  must(relay, "SELECT dovetail.release_delayed(10), dovetail.adopt_foreign_rows(10)");
  EXPECT_TRUE(is_refused(relay, "SELECT dovetail.publish('order', '1', 'placed', '{}')"));
  EXPECT_TRUE(is_refused(relay, "SELECT dovetail.emit('order', '1', 'placed', '{}')"));
  EXPECT_TRUE(is_refused(relay, "DELETE FROM dovetail.outbox"));
  EXPECT_TRUE(is_refused(relay, "UPDATE dovetail.outbox SET type = 'x'"));
  EXPECT_TRUE(is_refused(relay, "DELETE FROM dovetail.audit"));
  EXPECT_TRUE(is_refused(relay, "DELETE FROM dovetail.queue"));
  EXPECT_TRUE(is_refused(relay, "UPDATE dovetail.claim SET epoch = 1"));
}

TEST_F(PostgresRoles, TheOperatorLooksAndDecidesButMovesNobodysProgress) {
  Connection person = as("operator");
  must(person, "SELECT * FROM dovetail.events; SELECT * FROM dovetail.lag");
  must(person, "UPDATE dovetail.parked SET state = 'waiting' WHERE false");
  must(person, "INSERT INTO dovetail.audit (what) VALUES ('test')");
  must(person, "SELECT * FROM dovetail.queues; SELECT * FROM dovetail.queue_parked");
  must(person, "SELECT dovetail.queue_replay('{1}'), dovetail.queue_discard('{1}', true, 'x')");
  EXPECT_TRUE(is_refused(person, "DELETE FROM dovetail.queue"));
  EXPECT_TRUE(is_refused(person, "SELECT dovetail.receive('stock')"));
  EXPECT_TRUE(is_refused(person, "UPDATE dovetail.audit SET what = ''"));
  EXPECT_TRUE(is_refused(person, "DELETE FROM dovetail.audit"));
  EXPECT_TRUE(is_refused(person, "UPDATE dovetail.reader SET prev = '1:1:'"));
  EXPECT_TRUE(is_refused(person, "SELECT dovetail.publish('order', '1', 'placed', '{}')"));
}

TEST_F(PostgresRoles, AMigrationGrantsTheRightsOnWhatIsNew) {
  std::vector<Migration> steps(migrations().begin(), migrations().end());
  steps.push_back(
      {kSchemaVersion + 1,
       "DROP FUNCTION dovetail.backlog(); CREATE FUNCTION dovetail.backlog() RETURNS "
       "bigint LANGUAGE sql AS 'SELECT 7::bigint'; REVOKE ALL ON FUNCTION "
       "dovetail.backlog() FROM PUBLIC; UPDATE dovetail.schema_version SET version = version + 1"});
  ASSERT_TRUE(create_schema(owner_.get(), steps));
  Connection relay = as("relay");
  EXPECT_EQ(number(relay, "SELECT dovetail.backlog()"), 7);
}

TEST_F(PostgresRoles, AForeignSearchPathDoesNotReachPrivilegedCode) {
  must(owner_, "GRANT CREATE ON SCHEMA public TO " + login("app"));
  Connection app = as("app");
  must(app,
       "CREATE FUNCTION public.octet_length(bytea) RETURNS int LANGUAGE plpgsql AS "
       "'BEGIN RAISE EXCEPTION ''reached''; END'");
  must(app, "SET search_path = public, pg_catalog");
  EXPECT_TRUE(app.execute("SELECT dovetail.publish('order', '1', 'placed', '{}'::bytea)"))
      << text_of(app.execute("SELECT dovetail.publish('order', '1', 'placed', '{}'::bytea)"));
  must(owner_, "DROP OWNED BY " + login("app"));
}

TEST_F(PostgresRoles, WithoutARoleTheErrorSaysWhichIsMissing) {
  must(owner_, "REVOKE dovetail_app FROM " + login("app"));
  Connection app = as("app");
  const Status refused = app.execute("SELECT dovetail.publish('order', '1', 'placed', '{}')");
  EXPECT_TRUE(failed_with(refused, Errc::rejected));
  EXPECT_TRUE(contains(text_of(refused), "dovetail_app")) << text_of(refused);
}

}  // namespace
}  // namespace dovetail::postgres
