// Whose name workers use for their consumers, and operators for their decisions.
#include "dovetail/postgres.h"
#include "postgres/operate/admin.h"
#include "postgres/testing/test_roles.h"

namespace dovetail::postgres {
namespace {

class PostgresWorkers : public PostgresRoles {
 protected:
  std::string tries(Connection& connection, const std::string& consumer) {
    return sqlstate(connection, "SELECT count(*) FROM dovetail.receive('" + consumer + "')");
  }
};

TEST_F(PostgresWorkers, DoEverythingForAConsumerThatTheyWereGranted) {
  Connection worker = as("worker");
  must(worker, "BEGIN");
  must(worker,
       "SELECT dovetail.extend('stock', id, epoch, '1 h'), dovetail.release('stock', id, epoch) "
       "FROM dovetail.receive('stock')");
  must(worker, "SELECT dovetail.fail('stock', id, epoch, '', '0') FROM dovetail.receive('stock')");
  must(worker,
       "SELECT dovetail.complete_many('stock', ARRAY[id], ARRAY[epoch]) FROM "
       "dovetail.receive('stock')");
  must(worker, "SELECT dovetail.claim('stock', gen_random_uuid())");
  must(worker,
       "SELECT dovetail.complete('stock', e.id, c.epoch) FROM (SELECT gen_random_uuid() AS id) AS "
       "e, LATERAL dovetail.claim('stock', e.id, '1 s') AS c");
  must(worker, "SELECT state FROM dovetail.begin_request('shop', 'key', 'print')");
  must(worker, "ROLLBACK");
}

TEST_F(PostgresWorkers, AreToldWhichGrantIsMissing) {
  for (const std::string name : {"app", "worker"}) {
    Connection connection = as(name);
    const Status refused = connection.execute("SELECT dovetail.receive('mail')");
    EXPECT_TRUE(contains(text_of(refused), "GRANT dovetail_worker TO " + login(name) +
                                               "; SELECT dovetail.grant_worker('" + login(name) +
                                               "', 'mail')"))
        << text_of(refused);
  }
  Connection app = as("app");
  const Status request = app.execute("SELECT dovetail.begin_request('shop', 'key', 'print')");
  EXPECT_TRUE(contains(text_of(request), "GRANT dovetail_worker TO " + login("app")))
      << text_of(request);
}

TEST_F(PostgresWorkers, NeedBothTheRoleAndTheConsumer) {
  Connection app = as("app");
  must(owner_, "SELECT dovetail.grant_worker('" + login("app") + "', 'mail')");
  EXPECT_EQ(tries(app, "mail"), "42501") << "a publisher";
  must(owner_, "GRANT dovetail_worker TO " + login("app"));
  EXPECT_EQ(tries(app, "mail"), "ok");
  EXPECT_EQ(tries(app, "stock"), "42501") << "of another";
  must(owner_, "SELECT dovetail.revoke_worker('" + login("app") + "', 'mail')");
  EXPECT_EQ(tries(app, "mail"), "42501");
  must(owner_, "REVOKE dovetail_worker FROM " + login("app"));
  EXPECT_EQ(text(owner_,
                 "SELECT string_agg(what || ' ' || relay, ', ' ORDER BY number) FROM "
                 "dovetail.audit WHERE subject = '" +
                     login("app") + "'"),
            "grant worker mail, revoke worker mail");
}

TEST_F(PostgresWorkers, ARoleThatIsNotThereIsNotGranted) {
  EXPECT_EQ(sqlstate(owner_, "SELECT dovetail.grant_worker('no such role', 'stock')"), "42704");
}

// A team has the grant; its members log in. Some inherit the role, some use SET ROLE.
TEST_F(PostgresWorkers, ActInTheNameOfTheRoleThatIsSet) {
  const std::string team = login("team"), lazy = login("lazy"), member = login("member");
  must(owner_, "CREATE ROLE " + team + "; GRANT dovetail_worker TO " + team + "; CREATE ROLE " +
                   member + " LOGIN; CREATE ROLE " + lazy + " LOGIN NOINHERIT; GRANT " + team +
                   " TO " + member + ", " + lazy + "; GRANT dovetail_app TO " + member);
  must(owner_, "SELECT dovetail.grant_worker('" + team + "', 'mail')");
  {
    Connection inherits = shared_->connect(member);
    EXPECT_EQ(tries(inherits, "mail"), "ok");
    EXPECT_EQ(tries(inherits, "stock"), "42501");
    must(inherits, "SET ROLE dovetail_app");
    EXPECT_EQ(tries(inherits, "mail"), "42501") << "it gave the right away";
    Connection takes = shared_->connect(lazy);
    EXPECT_EQ(tries(takes, "mail"), "42501");
    must(takes, "SET ROLE " + team);
    EXPECT_EQ(tries(takes, "mail"), "ok");
    must(owner_, "SELECT dovetail.revoke_worker('" + team + "', 'mail')");
    EXPECT_EQ(tries(takes, "mail"), "42501");
  }
  must(owner_, "DROP ROLE " + lazy + ", " + member + ", " + team);
}

TEST_F(PostgresWorkers, GetNoMoreRightsFromFunctionsOfOthersInBetween) {
  must(owner_,
       "CREATE FUNCTION public.take() RETURNS SETOF uuid LANGUAGE sql SECURITY DEFINER AS "
       "'SELECT id FROM dovetail.receive(''mail'')'; GRANT EXECUTE ON FUNCTION public.take() TO "
       "PUBLIC");
  Connection worker = as("worker");
  EXPECT_EQ(sqlstate(worker, "SELECT public.take()"), "42501");
  EXPECT_EQ(sqlstate(owner_, "SELECT public.take()"), "ok") << "the owner acts for everybody";
  must(owner_, "DROP FUNCTION public.take()");
}

// Attacks by foreign search paths, temporary tables and functions in public.
TEST_F(PostgresWorkers, CannotPutNamesOfTheirOwnBeforeThoseOfTheFunctions) {
  must(owner_, "GRANT CREATE ON SCHEMA public TO " + login("worker"));
  Connection worker = as("worker");
  must(
      worker,
      "CREATE FUNCTION public.pg_has_role(name, oid, text) RETURNS boolean LANGUAGE sql AS "
      "'SELECT true'; CREATE FUNCTION public.has_function_privilege(name, oid, text) RETURNS "
      "boolean LANGUAGE sql AS 'SELECT true'; CREATE FUNCTION public.current_setting(text) RETURNS "
      "text LANGUAGE sql AS 'SELECT ''postgres''::text'; CREATE FUNCTION "
      "public.octet_length(bytea) "
      "RETURNS int LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''reached''; END'");
  must(worker,
       "CREATE TEMP TABLE worker (consumer text, role name); CREATE TEMP TABLE queue (x int); "
       "CREATE TEMP TABLE pg_roles (oid oid, rolname name); CREATE TEMP TABLE inbox (x int); "
       "INSERT INTO pg_temp.worker VALUES ('mail', session_user)");
  must(worker, "SET search_path = pg_temp, public, pg_catalog");
  EXPECT_EQ(tries(worker, "mail"), "42501");
  EXPECT_EQ(tries(worker, "stock"), "ok");
  EXPECT_EQ(sqlstate(worker, "SELECT dovetail.claim('stock', gen_random_uuid())"), "ok");
  must(owner_, "GRANT dovetail_app TO " + login("worker"));
  EXPECT_EQ(sqlstate(worker, "SELECT dovetail.publish('order', '1', 'placed', '{}'::bytea)"), "ok");
  must(owner_, "REVOKE dovetail_app FROM " + login("worker"));
  worker.close();
  must(owner_,
       "DROP FUNCTION public.pg_has_role(name, oid, text), "
       "public.has_function_privilege(name, oid, text), public.current_setting(text), "
       "public.octet_length(bytea); REVOKE CREATE ON SCHEMA public FROM " +
           login("worker"));
}

class PostgresDecisions : public PostgresRoles {
 protected:
  PostgresDecisions() {
    must(owner_, "TRUNCATE dovetail.parked, dovetail.audit, dovetail.queue");
    park(owner_);
    fill(owner_, "stock");
    must(owner_,
         "SELECT dovetail.fail('stock', id, epoch, 'broken', park => true) FROM "
         "dovetail.receive('stock')");
  }
  std::string audit() {
    return text(
        owner_,
        "SELECT coalesce(string_agg(who || ' ' || what || ' ' || relay || ' ' || subject || "
        "' ' || events || ' ' || reason, '; ' ORDER BY number), '') FROM dovetail.audit");
  }
  const std::string url_ = shared_->conninfo + " user=" + login("operator");
};

TEST_F(PostgresDecisions, OfAnOperatorAreWrittenDownInTheNameOfTheLogin) {
  EXPECT_TRUE(replay_event(url_, "orders", *EventId::parse(kParked), "healed"));
  EXPECT_TRUE(discard(url_, "orders", *EventId::parse(kParked), "a test"));
  Connection person = as("operator");
  must(person, "SELECT dovetail.replay_parked('stock', NULL, '1', 'order', '', '', '')");
  const std::string who = login("operator");
  EXPECT_EQ(audit(), who + " replay orders " + kParked + " 1 healed; " + who + " discard orders " +
                         kParked + " 1 a test; " + who +
                         " replay stock key \"1\", aggregate_type \"order\" 1 ");
}

TEST_F(PostgresDecisions, AreNotHiddenBehindAnotherRole) {
  Connection person = as("operator");
  must(person, "SET ROLE dovetail_operator");
  must(person, "SELECT dovetail.discard('stock', '" + std::string(kQueued) + "', 'a test')");
  must(person, "SELECT dovetail.discard_parked('', NULL, '', '', '', '', false, false, 'all')");
  EXPECT_EQ(audit(), login("operator") + " discard stock " + kQueued + " 1 a test; " +
                         login("operator") + " discard  all 1 all");
}

TEST_F(PostgresDecisions, ThatChangeNothingLeaveNoTrace) {
  Connection person = as("operator");
  must(person, "SELECT dovetail.replay_parked('no relay', NULL, '', '', '', '', 'x')");
  must(person, "SELECT dovetail.discard_parked('no relay', NULL, '', '', '', '', true, true, 'x')");
  EXPECT_EQ(sqlstate(person,
                     "SELECT dovetail.discard_parked('', NULL, '', '', '', '', true, "
                     "true, ' ')"),
            "22023");
  EXPECT_EQ(audit(), "");
}

TEST_F(PostgresDecisions, ChangeNothingOfTheEvent) {
  const std::string event =
      "SELECT relay || id || topic || aggregate_type || aggregate_id || type || content_type || "
      "headers || encode(payload, 'hex') || aggregate_version || created_at FROM dovetail.parked";
  const std::string before = text(owner_, event);
  ASSERT_TRUE(replay_event(url_, "", *EventId::parse(kParked), {}));
  ASSERT_TRUE(discard(url_, "orders", *EventId::parse(kParked), "a test"));
  EXPECT_EQ(text(owner_, event), before);
}

}  // namespace
}  // namespace dovetail::postgres
