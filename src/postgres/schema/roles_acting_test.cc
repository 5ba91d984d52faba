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

constexpr const char* kDelayed = "01890000-0000-7000-8000-000000000003";
constexpr const char* kPublished = "01890000-0000-7000-8000-000000000004";
constexpr const char* kApplied = "01890000-0000-7000-8000-000000000005";
constexpr const char* kCopy = "01890000-0000-7000-8000-000000000006";

// One call of each function that decides, and the row of the audit without who: what, relay,
// subject, events, reason.
struct Decision {
  const char* function;
  std::string call;
  std::string row;
};

std::string quoted(const std::string& id) { return "'" + id + "'"; }

std::vector<Decision> each_decision() {
  return {
      {"hold_relay", "hold_relay('moved', 'paused', 'why')", "pause|moved||0|why"},
      {"deliver_again", "deliver_again('moved', " + quoted(kPublished) + ", 'why')",
       "deliver again|moved|" + std::string(kPublished) + "|1|why"},
      {"seek_relay", "seek_relay('moved', 0, 'why', '', false)",
       "seek|moved|after 0: 1 again, 0 skipped|1|why"},
      {"rename_relay", "rename_relay('old', 'new', 'why')", "rename|new|old -> new|0|why"},
      {"forget_relay", "forget_relay('gone', 'why')", "forget relay|gone||0|why"},
      {"retarget_relay", "retarget_relay('bound', 'there', 'why')",
       "retarget|bound|here -> there|0|why"},
      {"cancel_delayed", "cancel_delayed(" + quoted(kDelayed) + ", 'why')",
       "cancel||" + std::string(kDelayed) + "|1|why"},
      {"apply_event", "apply_event('mail', " + quoted(kPublished) + ", 'why')",
       "apply|mail|" + std::string(kPublished) + "|1|why"},
      {"remember_since", "remember_since('2020-01-01 00:00:00+00', 'why')",
       "remember||since 2020-01-01 00:00:00+00 instead of 2021-01-01 00:00:00+00|0|why"},
      {"forget_event", "forget_event('mail', " + quoted(kApplied) + ", 'why')",
       "forget|mail|" + std::string(kApplied) + "|1|why"},
      {"forget_request", "forget_request('shop', 'key', 'why')", "forget request||shop key|1|why"},
      {"note_reveal", "note_reveal(" + quoted(kParked) + ", 'why')",
       "reveal||" + std::string(kParked) + "|1|why"},
      {"note_refusal", "note_refusal('POST /x', 3, 'why')", "refused||POST /x|3|why"},
      {"replay", "replay('stock', " + quoted(kQueued) + ")",
       "replay|stock|" + std::string(kQueued) + "|1|"},
      {"replay_parked", "replay_parked('orders', " + quoted(kParked) + ", '', '', '', '', 'why')",
       "replay|orders|" + std::string(kParked) + "|1|why"},
      {"discard_parked",
       "discard_parked('orders', " + quoted(kParked) + ", '', '', '', '', false, false, 'why')",
       "discard|orders|" + std::string(kParked) + "|1|why"},
      {"discard", "discard('mail', " + quoted(kQueued) + ", 'why')",
       "discard|mail|" + std::string(kQueued) + "|1|why"},
  };
}

class PostgresEachDecision : public PostgresDecisions {
 protected:
  PostgresEachDecision() {
    must(owner_,
         "TRUNCATE dovetail.relay_lane, dovetail.delayed, dovetail.outbox, dovetail.inbox, "
         "dovetail.unapplied, dovetail.request; INSERT INTO dovetail.relay_lane (relay, lane, "
         "lanes, target) VALUES ('moved', 0, 1, ''), ('old', 0, 1, ''), ('gone', 0, 1, ''), "
         "('bound', 0, 1, 'here')");
    must(owner_, "SELECT dovetail.publish('order', '1', 'placed', '{}', id => '" +
                     std::string(kDelayed) + "', deliver_at => now() + interval '1 h')");
    must(owner_, "SELECT dovetail.publish('order', '1', 'placed', '{}', id => '" +
                     std::string(kPublished) + "')");
    must(owner_,
         "UPDATE dovetail.relay_lane SET window_start = pg_current_snapshot() WHERE relay = "
         "'moved'");
    must(owner_, "INSERT INTO dovetail.inbox (event_id, consumer_id) SELECT '" +
                     std::string(kApplied) +
                     "', id FROM dovetail.consumer WHERE name = 'mail'; UPDATE "
                     "dovetail.consumer SET forgotten_until = '2021-01-01 00:00:00+00'; UPDATE "
                     "dovetail.inbox_state SET forgotten_before = '2021-01-01 00:00:00+00', "
                     "exact_before = '2021-01-01 00:00:00+00'");
    must(owner_,
         "SELECT dovetail.begin_request('shop', 'key', 'print'); UPDATE dovetail.request SET "
         "status = 201");
    fill(owner_, "mail");
    must(owner_,
         "SELECT dovetail.fail('mail', id, epoch, 'broken', park => true) FROM "
         "dovetail.receive('mail')");
  }
  ~PostgresEachDecision() override {
    must(owner_,
         "UPDATE dovetail.consumer SET forgotten_until = '-infinity'; UPDATE dovetail.inbox_state "
         "SET forgotten_before = '-infinity', exact_before = '-infinity'");
  }
  NewEvent copy_of_parked() const {
    NewEvent copy;
    copy.aggregate_type = "order";
    copy.aggregate_id = "a";
    copy.type = "placed";
    copy.payload = "{}";
    copy.id = *EventId::parse(kCopy);
    copy.headers = {&replaces_, 1};
    return copy;
  }
  const Header replaces_{"dovetail-replaces", kParked};
  std::string last_row() {
    return text(owner_,
                "SELECT concat_ws('|', who, what, relay, subject, events, reason) FROM "
                "dovetail.audit ORDER BY number DESC LIMIT 1");
  }
};

TEST_F(PostgresEachDecision, IsWrittenDownInTheNameOfTheLogin) {
  Connection person = as("operator");
  must(person, "SET ROLE dovetail_operator; SET timezone = 'UTC'");
  for (const Decision& decision : each_decision()) {
    must(owner_, "TRUNCATE dovetail.audit");
    must(person, "SELECT dovetail." + decision.call);
    EXPECT_EQ(number(owner_, "SELECT count(*) FROM dovetail.audit"), 1) << decision.call;
    EXPECT_EQ(last_row(), login("operator") + "|" + decision.row);
  }
}

TEST_F(PostgresEachDecision, IsInTheListAbove) {
  std::string known;
  for (const Decision& decision : each_decision()) known += std::string(decision.function) + " ";
  // An edit needs the right to publish, and the drop of a slot REPLICATION: tests of their own.
  known += "note_edit note_slot_drop";
  EXPECT_EQ(text(owner_,
                 "SELECT coalesce(string_agg(p.proname, ' '), '') FROM pg_proc AS p WHERE "
                 "p.pronamespace = 'dovetail'::regnamespace AND p.provolatile = 'v' AND "
                 "has_function_privilege('dovetail_operator', p.oid, 'EXECUTE') AND p.prosecdef "
                 "AND p.proname <> ALL (string_to_array('" +
                     known + "', ' '))"),
            "");
}

TEST_F(PostgresEachDecision, NamesOnlyEventsThatAreThere) {
  Connection person = as("operator");
  must(owner_, "GRANT dovetail_app TO " + login("operator"));
  const std::string unknown = quoted("01890000-0000-7000-8000-0000000000ff");
  EXPECT_EQ(sqlstate(person, "SELECT dovetail.note_reveal(" + unknown + ", 'x')"), "42704");
  EXPECT_EQ(sqlstate(person, "SELECT dovetail.note_reveal(NULL, 'x')"), "42704");
  EXPECT_EQ(sqlstate(person, "SELECT dovetail.note_reveal(" + quoted(kDelayed) + ", ' ')"),
            "22023");
  for (const char* id : {kDelayed, kPublished, kParked, kQueued})
    EXPECT_EQ(sqlstate(person, "SELECT dovetail.note_reveal(" + quoted(id) + ", 'x')"), "ok") << id;
  const std::string edit = "SELECT dovetail.note_edit(" + quoted(kParked) + ", ";
  EXPECT_EQ(sqlstate(person, edit + unknown + ", 'x')"), "42704");
  EXPECT_EQ(sqlstate(person, edit + quoted(kPublished) + ", 'x')"), "42704") << "no copy of it";
  EXPECT_EQ(sqlstate(person, edit + "NULL, 'x')"), "42704");
  EXPECT_EQ(audit(), "");
  must(owner_, "REVOKE dovetail_app FROM " + login("operator"));
}

TEST_F(PostgresEachDecision, AnEditIsWrittenDownByTheTransactionThatPublishesTheCopy) {
  const NewEvent copy = copy_of_parked();
  const EventId parked = *EventId::parse(kParked);
  const auto refused = publish_edited(url_, parked, copy, {}, "why");
  EXPECT_TRUE(failed_with(refused, Errc::rejected));
  EXPECT_TRUE(contains(text_of(refused), "dovetail_app")) << text_of(refused);
  EXPECT_EQ(audit(), "");
  must(owner_, "GRANT dovetail_app TO " + login("operator"));
  EXPECT_TRUE(failed_with(publish_edited(url_, parked, copy, {}, " "), Errc::rejected));
  EXPECT_EQ(number(owner_, "SELECT count(*) FROM dovetail.outbox"), 1);
  const std::string both = login("operator") + " edit  " + kParked + " 1 why; as " + kCopy + "; " +
                           login("operator") + " discard orders " + kParked + " 1 why; as " + kCopy;
  for (const std::uint64_t discarded : {1U, 0U}) {
    const auto done = publish_edited(url_, parked, copy, {}, "why");
    ASSERT_TRUE(done) << text_of(done);
    EXPECT_EQ(*done, discarded);
    EXPECT_EQ(audit(), both) << "a repeated call changes nothing";
  }
  EXPECT_EQ(number(owner_, "SELECT count(*) FROM dovetail.outbox"), 2);
  must(owner_, "REVOKE dovetail_app FROM " + login("operator"));
}

// What waits behind another event is not replaced, and then nothing of it is done.
TEST_F(PostgresEachDecision, AnEditThatCannotDiscardPublishesNothing) {
  must(owner_, "GRANT dovetail_app TO " + login("operator"));
  must(owner_, "UPDATE dovetail.parked SET at_head = false");
  const auto refused = publish_edited(url_, *EventId::parse(kParked), copy_of_parked(), {}, "why");
  EXPECT_TRUE(failed_with(refused, Errc::rejected));
  EXPECT_TRUE(contains(text_of(refused), "waits behind")) << text_of(refused);
  EXPECT_EQ(audit(), "");
  EXPECT_EQ(number(owner_, "SELECT count(*) FROM dovetail.outbox"), 1);
  must(owner_, "REVOKE dovetail_app FROM " + login("operator"));
}

}  // namespace
}  // namespace dovetail::postgres
