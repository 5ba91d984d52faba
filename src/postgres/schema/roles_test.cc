// Every sentence about a role, tested by a login that tries to do more. `SET ROLE` would not do:
// some functions check the login.
#include <span>

#include "dovetail/postgres.h"
#include "postgres/operate/admin.h"
#include "postgres/testing/test_roles.h"

namespace dovetail::postgres {
namespace {

// A statement of a login that must be refused with 42501.
struct Attempt {
  const char* role;
  const char* sql;
};

// "dovetail_app: publishes only; reads nothing, and chooses neither order nor visibility."
constexpr Attempt kAppAttempts[] = {
    {"app", "SELECT payload FROM dovetail.outbox"},
    {"app", "CREATE TEMP TABLE copy AS SELECT * FROM dovetail.outbox"},
    {"app", "SELECT last_value FROM dovetail.outbox_seq"},
    {"app", "SELECT setval('dovetail.outbox_seq', 1)"},
    {"app", "UPDATE dovetail.outbox SET type = 'x'"},
    {"app", "DELETE FROM dovetail.outbox"},
    {"app", "TRUNCATE dovetail.outbox"},
    {"app", "LOCK TABLE dovetail.outbox IN ACCESS EXCLUSIVE MODE"},
    {"app",
     "INSERT INTO dovetail.outbox (aggregate_type, type, payload) VALUES ('a', 'b', 'c') RETURNING "
     "payload"},
    {"app",
     "INSERT INTO dovetail.outbox (aggregate_type, type, payload, seq) VALUES ('a', 'b', 'c', 3)"},
    {"app",
     "INSERT INTO dovetail.outbox (aggregate_type, type, payload, xid) VALUES ('a', 'b', 'c', "
     "'3')"},
    {"app",
     "INSERT INTO dovetail.outbox (aggregate_type, type, payload, created_at) VALUES ('a', 'b', "
     "'c', now())"},
    {"app",
     "INSERT INTO dovetail.outbox_default (aggregate_type, type, payload) VALUES ('a', 'b', 'c')"},
    {"app", "INSERT INTO dovetail.delayed (id) VALUES (gen_random_uuid())"},
    {"app", "SELECT * FROM dovetail.read_window('1', '{}', 0, 255, 1, 1)"},
    {"app", "SELECT dovetail.backlog()"},
    {"app", "SELECT dovetail.apply_event('stock', gen_random_uuid(), 'x')"},
    {"app", "SELECT dovetail.remember_since(now(), 'x')"},
    {"app", "SELECT dovetail.release_delayed(1)"},
    {"app", "SELECT dovetail.adopt_foreign_rows(1)"},
    {"app", "SELECT dovetail.set_backlog_limit(1)"},
    {"app", "SELECT dovetail.prune_requests(1)"},
    {"app", "SELECT dovetail.refresh_heads('orders', '{order}', '{a}')"},
    {"app", "SELECT dovetail.receive('stock')"},
    {"app", "SELECT dovetail.receive('no such consumer')"},
    {"app", "SELECT dovetail.claim('stock', '01890000-0000-7000-8000-000000000001')"},
    {"app", "SELECT dovetail.claim('stock', '01890000-0000-7000-8000-000000000001', '1 s')"},
    {"app", "SELECT dovetail.claim_many('stock', '{}', '{}', '1 s')"},
    {"app", "SELECT dovetail.complete('stock', '01890000-0000-7000-8000-000000000001', 1)"},
    {"app", "SELECT dovetail.complete_many('stock', '{}', '{}')"},
    {"app", "SELECT dovetail.fail('stock', '01890000-0000-7000-8000-000000000001', 1)"},
    {"app", "SELECT dovetail.release('stock', '01890000-0000-7000-8000-000000000001', 1)"},
    {"app", "SELECT dovetail.extend('stock', '01890000-0000-7000-8000-000000000001', 1, '1 s')"},
    {"app", "SELECT dovetail.begin_request('shop', 'k', 'print')"},
    {"app", "SELECT dovetail.lease_request('shop', 'k', 'print')"},
    {"app", "SELECT dovetail.settle_request('shop', 'k', gen_random_uuid(), 200, '', '')"},
    {"app", "SELECT dovetail.replay('stock', '01890000-0000-7000-8000-000000000001')"},
    {"app", "SELECT dovetail.discard('stock', '01890000-0000-7000-8000-000000000001', 'x')"},
    {"app", "SELECT dovetail.grant_worker(session_user, 'stock')"},
    {"app", "INSERT INTO dovetail.worker (role, consumer) VALUES (session_user, 'stock')"},
    {"app", "SELECT dovetail.cancel_delayed(gen_random_uuid(), 'x')"},
    {"app", "SELECT dovetail.hold_relay('orders', 'paused', 'x')"},
    {"app", "SELECT dovetail.seek_relay('orders', 0, 'x', '', true)"},
    {"app", "SELECT dovetail.rename_relay('orders', 'others', 'x')"},
    {"app", "SELECT dovetail.forget_relay('orders', 'x')"},
    {"app", "SELECT dovetail.mark_server()"},
    {"app", "SELECT dovetail.retarget_relay('orders', 'elsewhere', 'x')"},
    {"app", "SELECT dovetail.note_refusal('x', 1, 'x')"},
    {"app", "SELECT dovetail.note_reveal('01890000-0000-7000-8000-000000000002', 'x')"},
    {"app",
     "SELECT dovetail.note_edit('01890000-0000-7000-8000-000000000002', gen_random_uuid(), 'x')"},
    {"app", "SELECT * FROM dovetail.receipt"},
    {"app", "SELECT dovetail.consumer_id('x')"},
    {"app", "CREATE TABLE dovetail.mine (x int)"},
    {"app", "CREATE FUNCTION dovetail.mine() RETURNS int LANGUAGE sql AS 'SELECT 1'"},
    {"app",
     "CREATE TRIGGER mine BEFORE INSERT ON dovetail.outbox EXECUTE FUNCTION "
     "suppress_redundant_updates_trigger()"},
    {"app", "DROP TABLE dovetail.outbox_default"},
    {"app", "ALTER FUNCTION dovetail.check_worker(text) RENAME TO gone"},
    {"app", "SET ROLE dovetail_relay"},
    {"app", "SET SESSION AUTHORIZATION postgres"},
};

// "dovetail_worker: takes, completes and fails events of the consumers that it was granted, and
// HTTP requests; reads no table and publishes nothing."
constexpr Attempt kWorkerAttempts[] = {
    {"worker", "SELECT payload FROM dovetail.queue"},
    {"worker", "SELECT * FROM dovetail.receipt"},
    {"worker", "SELECT body FROM dovetail.request"},
    {"worker", "SELECT dovetail.receive('mail')"},
    {"worker", "SELECT dovetail.receive('no such consumer')"},
    {"worker", "SELECT dovetail.receive('stock.ledger')"},
    {"worker", "SELECT dovetail.receive('Stock')"},
    {"worker", "SELECT dovetail.receive(NULL)"},
    {"worker", "SELECT dovetail.claim('mail', '01890000-0000-7000-8000-000000000001')"},
    {"worker", "SELECT dovetail.claim('mail', '01890000-0000-7000-8000-000000000001', '1 s')"},
    {"worker", "SELECT dovetail.complete('mail', '01890000-0000-7000-8000-000000000001', 1)"},
    {"worker",
     "SELECT dovetail.complete_many('mail', '{01890000-0000-7000-8000-000000000001}', '{1}')"},
    {"worker", "SELECT dovetail.fail('mail', '01890000-0000-7000-8000-000000000001', 1)"},
    {"worker", "SELECT dovetail.release('mail', '01890000-0000-7000-8000-000000000001', 1)"},
    {"worker", "SELECT dovetail.extend('mail', '01890000-0000-7000-8000-000000000001', 1, '1 s')"},
    {"worker", "SELECT dovetail.claim_many('stock', '{}', '{}', '1 s')"},
    {"worker", "SELECT dovetail.complete_claims('stock', '{}', '{}')"},
    {"worker", "SELECT dovetail.release_claims('stock', '{}', '{}', 'failed')"},
    {"worker", "SELECT dovetail.claim_event(1, gen_random_uuid(), NULL, '1 s')"},
    {"worker", "SELECT dovetail.queue_park(1, '01890000-0000-7000-8000-000000000001', 'x')"},
    {"worker", "SELECT dovetail.queue_next(1, 1, 1)"},
    {"worker", "SELECT dovetail.consumer_id('stock')"},
    {"worker", "SELECT dovetail.find_consumer('stock')"},
    {"worker", "SELECT dovetail.replay('stock', '01890000-0000-7000-8000-000000000001')"},
    {"worker", "SELECT dovetail.discard('stock', '01890000-0000-7000-8000-000000000001', 'x')"},
    {"worker", "SELECT dovetail.publish('order', '1', 'placed', '{}')"},
    {"worker",
     "INSERT INTO dovetail.outbox (aggregate_type, type, payload) VALUES ('a', 'b', 'c')"},
    {"worker", "INSERT INTO dovetail.inbox (event_id, consumer_id) VALUES (gen_random_uuid(), 1)"},
    {"worker", "SELECT dovetail.grant_worker(session_user, 'mail')"},
    {"worker", "SELECT dovetail.revoke_worker(session_user, 'stock')"},
    {"worker", "UPDATE dovetail.worker SET consumer = 'mail'"},
    {"worker", "SELECT dovetail.forget_request('shop', 'k', 'x')"},
    {"worker", "SELECT dovetail.forget_event('stock', gen_random_uuid(), 'x')"},
    {"worker", "SELECT dovetail.apply_event('stock', gen_random_uuid(), 'x')"},
    {"worker", "SELECT dovetail.cancel_delayed(gen_random_uuid(), 'x')"},
    {"worker",
     "SELECT dovetail.take_request('s', 'k', '', gen_random_uuid(), '1s', '1h', false, false)"},
    {"worker", "SELECT dovetail.hold_relay('orders', 'paused', 'x')"},
    {"worker", "SELECT dovetail.retarget_relay('orders', 'elsewhere', 'x')"},
    {"worker", "SELECT dovetail.note_refusal('x', 1, 'x')"},
    {"worker", "SELECT dovetail.note_reveal('01890000-0000-7000-8000-000000000002', 'x')"},
    {"worker", "SET ROLE dovetail_operator"},
};

// "dovetail_relay: reads events, keeps progress, parks; publishes nothing, changes and deletes no
// event of the outbox, discards nothing and writes no audit."
constexpr Attempt kRelayAttempts[] = {
    {"relay", "SELECT dovetail.publish('order', '1', 'placed', '{}')"},
    {"relay", "INSERT INTO dovetail.outbox (aggregate_type, type, payload) VALUES ('a', 'b', 'c')"},
    {"relay", "SELECT nextval('dovetail.outbox_seq')"},
    {"relay", "UPDATE dovetail.outbox SET type = 'x'"},
    {"relay", "DELETE FROM dovetail.outbox"},
    {"relay", "TRUNCATE dovetail.outbox"},
    {"relay", "UPDATE dovetail.delayed SET payload = 'x'"},
    {"relay", "DELETE FROM dovetail.delayed"},
    {"relay", "DELETE FROM dovetail.relay_lane"},
    {"relay", "UPDATE dovetail.relay_lane SET hold = '' WHERE relay = 'held'"},
    {"relay", "UPDATE dovetail.relay_lane SET hold = 'drained' WHERE relay = 'held'"},
    {"relay", "UPDATE dovetail.relay_lane SET hold = 'draining' WHERE relay = 'held'"},
    {"relay", "UPDATE dovetail.relay_lane SET hold = 'paused' WHERE relay = 'bound'"},
    {"relay", "UPDATE dovetail.relay_lane SET hold = 'drained' WHERE relay = 'bound'"},
    {"relay", "UPDATE dovetail.relay_lane SET hold_by = 'anna'"},
    {"relay", "UPDATE dovetail.relay_lane SET hold_reason = 'x'"},
    {"relay", "UPDATE dovetail.relay_lane SET hold_since = now()"},
    {"relay", "UPDATE dovetail.relay_lane SET target = 'elsewhere' WHERE relay = 'bound'"},
    {"relay", "UPDATE dovetail.relay_lane SET target = '' WHERE relay = 'bound'"},
    {"relay", "UPDATE dovetail.relay_lane SET relay = 'other'"},
    {"relay", "UPDATE dovetail.relay_lane SET lane = 1"},
    {"relay", "UPDATE dovetail.relay_lane SET lanes = 2"},
    {"relay", "UPDATE dovetail.relay_lane SET source = 'broker'"},
    {"relay",
     "INSERT INTO dovetail.relay_lane (relay, lane, lanes, hold) VALUES ('new', 0, 1, 'paused')"},
    {"relay",
     "INSERT INTO dovetail.relay_lane (relay, lane, lanes, hold_by) VALUES ('new', 0, 1, 'anna')"},
    {"relay",
     "INSERT INTO dovetail.relay_lane (relay, lane, lanes, target) VALUES ('new', 0, 1, 'x')"},
    {"relay",
     "INSERT INTO dovetail.relay_lane (relay, lane, lanes) VALUES ('bound', 0, 1) ON CONFLICT "
     "(relay, lane) DO UPDATE SET target = 'elsewhere'"},
    {"relay", "ALTER TABLE dovetail.relay_lane DISABLE TRIGGER refuse_order"},
    {"relay", "SET session_replication_role = replica"},
    {"relay",
     "INSERT INTO dovetail.relay_skip (relay, lane, from_start, from_seq, to_end, to_seq) VALUES "
     "('orders', 0, '1:1:', 0, '1:1:', 0)"},
    {"relay", "SELECT dovetail.retarget_relay('bound', 'elsewhere', 'x')"},
    {"relay", "SELECT dovetail.note_refusal('x', 1, 'x')"},
    {"relay", "SELECT dovetail.note_reveal('01890000-0000-7000-8000-000000000002', 'x')"},
    {"relay",
     "SELECT dovetail.note_edit('01890000-0000-7000-8000-000000000002', gen_random_uuid(), 'x')"},
    {"relay", "INSERT INTO dovetail.consumer (name, forgotten_until) VALUES ('new', 'infinity')"},
    {"relay",
     "INSERT INTO dovetail.inbox (event_id, consumer_id, applied_at) VALUES (gen_random_uuid(), 1, "
     "'epoch')"},
    {"relay", "SELECT * FROM dovetail.receipt"},
    {"relay", "UPDATE dovetail.receipt SET owner = 'x'"},
    {"relay", "DELETE FROM dovetail.receipt"},
    {"relay",
     "INSERT INTO dovetail.receipt (relay, at, owner, first_bucket, last_bucket, first_seq, "
     "last_seq, events, places) VALUES ('r', now(), '', 0, 255, 1, 2, 2, '')"},
    {"relay",
     "INSERT INTO dovetail.unapplied (event_id, consumer_id, by_operator) VALUES "
     "(gen_random_uuid(), 1, true)"},
    {"relay", "SELECT dovetail.apply_event('stock', gen_random_uuid(), 'x')"},
    {"relay", "SELECT dovetail.remember_since(now(), 'x')"},
    {"relay", "UPDATE dovetail.consumer SET forgotten_until = now()"},
    {"relay", "DELETE FROM dovetail.parked"},
    {"relay", "TRUNCATE dovetail.parked"},
    {"relay", "UPDATE dovetail.parked SET id = gen_random_uuid()"},
    {"relay", "UPDATE dovetail.parked SET relay = 'other'"},
    {"relay", "UPDATE dovetail.parked SET state = 'discarded', finished_at = now()"},
    {"relay",
     "INSERT INTO dovetail.parked (relay, id, position, topic, aggregate_type, aggregate_id, type, "
     "content_type, headers, payload, aggregate_version, created_at, state, attempts, reason, "
     "retry_at) SELECT relay, gen_random_uuid(), position, topic, aggregate_type, aggregate_id, "
     "type, content_type, headers, payload, aggregate_version, created_at, 'discarded', attempts, "
     "reason, retry_at FROM dovetail.parked"},
    {"relay", "INSERT INTO dovetail.audit (what) VALUES ('discard')"},
    {"relay", "UPDATE dovetail.audit SET who = 'anna'"},
    {"relay", "DELETE FROM dovetail.audit"},
    {"relay", "SELECT dovetail.replay_parked('', NULL, '', '', '', '', '')"},
    {"relay", "SELECT dovetail.discard_parked('', NULL, '', '', '', '', true, false, 'x')"},
    {"relay", "SELECT dovetail.queue_discard('{1}', true, 'x')"},
    {"relay", "SELECT dovetail.queue_replay('{1}')"},
    {"relay", "SELECT dovetail.deliver_again('orders', gen_random_uuid(), 'x')"},
    {"relay", "SELECT dovetail.forget_event('stock', gen_random_uuid(), 'x')"},
    {"relay", "SELECT dovetail.apply_event('stock', gen_random_uuid(), 'x')"},
    {"relay", "SELECT dovetail.remember_since(now(), 'x')"},
    {"relay", "SELECT dovetail.cancel_delayed(gen_random_uuid(), 'x')"},
    {"relay", "SELECT dovetail.hold_relay('orders', '', 'x')"},
    {"relay", "SELECT dovetail.seek_relay('orders', 0, 'x', '', false)"},
    {"relay", "SELECT dovetail.rename_relay('orders', 'others', 'x')"},
    {"relay", "SELECT dovetail.forget_relay('orders', 'x')"},
    {"relay", "UPDATE dovetail.parked SET replays = 0"},
    {"relay", "SELECT dovetail.note_slot_drop('x', '')"},
    {"relay", "SELECT dovetail.receive('stock')"},
    {"relay", "DELETE FROM dovetail.queue"},
    {"relay", "UPDATE dovetail.queue SET payload = 'x'"},
    {"relay", "UPDATE dovetail.claim SET epoch = 1"},
    {"relay", "DELETE FROM dovetail.inbox"},
    {"relay", "UPDATE dovetail.inbox_state SET forgotten_before = now()"},
    {"relay", "SELECT body FROM dovetail.request"},
    {"relay", "UPDATE dovetail.outbox_limit SET payload_bytes_max = NULL"},
    {"relay", "SELECT dovetail.set_backlog_limit(1)"},
    {"relay", "SELECT dovetail.grant_worker(session_user, 'stock')"},
    {"relay", "UPDATE dovetail.schema_version SET version = 1"},
    {"relay", "CREATE TABLE dovetail.mine (x int)"},
};

// "dovetail_operator: looks, and decides through functions that write the audit; publishes nothing,
// changes no row, and neither forges nor avoids the audit."
constexpr Attempt kOperatorAttempts[] = {
    {"operator", "SELECT dovetail.publish('order', '1', 'placed', '{}')"},
    {"operator",
     "INSERT INTO dovetail.outbox (aggregate_type, type, payload) VALUES ('a', 'b', 'c')"},
    {"operator", "UPDATE dovetail.parked SET payload = 'x'"},
    {"operator", "UPDATE dovetail.parked SET aggregate_id = 'x'"},
    {"operator", "UPDATE dovetail.parked SET id = gen_random_uuid()"},
    {"operator", "UPDATE dovetail.parked SET state = 'waiting', retry_at = now()"},
    {"operator", "UPDATE dovetail.parked SET state = 'discarded', finished_at = now()"},
    {"operator", "INSERT INTO dovetail.parked (relay, id) VALUES ('orders', gen_random_uuid())"},
    {"operator", "DELETE FROM dovetail.parked"},
    {"operator", "TRUNCATE dovetail.parked"},
    {"operator", "SELECT * FROM dovetail.parked FOR UPDATE"},
    {"operator", "INSERT INTO dovetail.audit (what) VALUES ('discard')"},
    {"operator", "INSERT INTO dovetail.audit (who, what) VALUES ('anna', 'discard')"},
    {"operator", "UPDATE dovetail.audit SET who = 'anna'"},
    {"operator", "DELETE FROM dovetail.audit"},
    {"operator", "TRUNCATE dovetail.audit"},
    {"operator", "SELECT setval('dovetail.audit_number_seq', 1)"},
    {"operator", "SELECT nextval('dovetail.audit_number_seq')"},
    {"operator", "ALTER TABLE dovetail.audit DISABLE TRIGGER ALL"},
    {"operator", "SELECT dovetail.queue_replay('{1}')"},
    {"operator", "SELECT dovetail.queue_discard('{1}', true, 'x')"},
    {"operator", "SELECT dovetail.refresh_heads('orders', '{order}', '{a}')"},
    {"operator", "SELECT dovetail.note_slot_drop('x', '')"},
    {"operator", "DELETE FROM dovetail.queue"},
    {"operator", "UPDATE dovetail.queue SET payload = 'x'"},
    {"operator", "SELECT dovetail.receive('stock')"},
    {"operator", "SELECT dovetail.claim('stock', gen_random_uuid())"},
    {"operator", "DELETE FROM dovetail.receipt"},
    {"operator", "UPDATE dovetail.receipt SET owner = 'x'"},
    {"operator",
     "INSERT INTO dovetail.receipt (relay, owner, first_bucket, last_bucket, first_seq, last_seq, "
     "events, places) VALUES ('r', '', 0, 255, 1, 2, 2, '')"},
    {"operator", "DELETE FROM dovetail.inbox"},
    {"operator",
     "INSERT INTO dovetail.unapplied (event_id, consumer_id, by_operator) VALUES "
     "(gen_random_uuid(), 1, true)"},
    {"operator", "UPDATE dovetail.consumer SET forgotten_until = now()"},
    {"operator", "SELECT dovetail.settle_forgetting()"},
    {"operator", "DELETE FROM dovetail.delayed"},
    {"operator", "UPDATE dovetail.relay_lane SET window_start = '1:1:'"},
    {"operator", "UPDATE dovetail.relay_lane SET hold = 'paused'"},
    {"operator", "UPDATE dovetail.relay_lane SET target = 'elsewhere'"},
    {"operator", "DELETE FROM dovetail.relay_skip"},
    {"operator", "DELETE FROM dovetail.relay_lane"},
    {"operator", "SELECT body FROM dovetail.request"},
    {"operator", "SELECT dovetail.settle_request('s', 'k', gen_random_uuid(), 200, '', '')"},
    {"operator", "SELECT dovetail.prune_requests(1)"},
    {"operator", "SELECT dovetail.release_delayed(1)"},
    {"operator", "SELECT dovetail.set_backlog_limit(1)"},
    {"operator", "SELECT dovetail.grant_worker(session_user, 'stock')"},
    {"operator", "INSERT INTO dovetail.worker (role, consumer) VALUES (session_user, 'stock')"},
    {"operator", "CREATE TABLE dovetail.mine (x int)"},
    {"operator", "SET ROLE dovetail_relay"},
};

// A login without a role.
constexpr Attempt kNobodyAttempts[] = {
    {"nobody", "SELECT dovetail.publish('order', '1', 'placed', '{}')"},
    {"nobody", "SELECT dovetail.receive('stock')"},
    {"nobody", "SELECT dovetail.uuid7()"},
    {"nobody", "SELECT * FROM dovetail.lag"},
    {"nobody", "SELECT dovetail.grant_worker(session_user, 'stock')"},
};

TEST_F(PostgresRoles, APublisherPublishesInEveryWay) {
  must(owner_, "TRUNCATE dovetail.outbox, dovetail.delayed");
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

TEST_F(PostgresRoles, ARelayReadsAndKeepsItsProgress) {
  Connection relay = as("relay");
  must(relay, "SELECT payload FROM dovetail.outbox");
  must(relay, "SELECT dovetail.release_delayed(10), dovetail.adopt_foreign_rows(10)");
  EXPECT_EQ(sqlstate(relay, "UPDATE dovetail.parked SET state = 'waiting', payload = 'x'"), "ok");
  must(relay,
       "INSERT INTO dovetail.receipt (relay, owner, first_bucket, last_bucket, first_seq, "
       "last_seq, events, places) VALUES ('r', '', 0, 255, 1, 2, 2, '')");
}

// Every other order and target is a decision: see kRelayAttempts.
TEST_F(PostgresRoles, ARelaySaysThatItIsDrainedAndBindsItsFirstTarget) {
  must(owner_,
       "INSERT INTO dovetail.relay_lane (relay, lane, lanes, hold) VALUES ('ends', 0, 1, "
       "'draining')");
  Connection relay = as("relay");
  must(relay, "UPDATE dovetail.relay_lane SET hold = 'drained' WHERE relay = 'ends'");
  must(relay, "UPDATE dovetail.relay_lane SET target = 'first' WHERE relay = 'ends'");
  EXPECT_EQ(
      text(owner_, "SELECT hold || ' ' || target FROM dovetail.relay_lane WHERE relay = 'ends'"),
      "drained first");
  must(owner_, "DELETE FROM dovetail.relay_lane WHERE relay = 'ends'");
}

TEST_F(PostgresRoles, AnOperatorLooks) {
  Connection person = as("operator");
  must(person, "SELECT * FROM dovetail.events; SELECT * FROM dovetail.lag");
  must(person, "SELECT * FROM dovetail.queues; SELECT * FROM dovetail.queue_parked");
  must(person, "SELECT * FROM dovetail.audit; SELECT * FROM dovetail.requests");
  must(person, "SELECT * FROM dovetail.receipt");
}

TEST_F(PostgresRoles, AnOperatorPausesAndTheAuditHasTheLogin) {
  must(owner_, "INSERT INTO dovetail.relay_lane (relay, lane, lanes) VALUES ('steered', 0, 1)");
  Connection person = as("operator");
  EXPECT_EQ(text(person, "SELECT dovetail.hold_relay('steered', 'paused', 'the broker moves')"),
            "");
  EXPECT_EQ(text(person, "SELECT dovetail.hold_relay('steered', 'paused', 'again')"), "paused");
  EXPECT_EQ(text(owner_,
                 "SELECT concat_ws(' ', hold, hold_by = (SELECT max(who) FROM dovetail.audit WHERE "
                 "relay = 'steered'), hold_reason) FROM dovetail.relay_lane WHERE relay = "
                 "'steered'"),
            "paused t the broker moves");
  EXPECT_EQ(text(owner_,
                 "SELECT string_agg(what || ': ' || reason, ', ') FROM dovetail.audit WHERE relay "
                 "= 'steered'"),
            "pause: the broker moves")
      << "what changes nothing is not recorded";
  EXPECT_EQ(sqlstate(person, "SELECT dovetail.hold_relay('steered', '', ' ')"), "22023");
  EXPECT_EQ(sqlstate(person, "SELECT dovetail.hold_relay('steered', 'drained', 'x')"), "22023");
  EXPECT_EQ(sqlstate(person, "SELECT dovetail.hold_relay('nobody', 'paused', 'x')"), "42704");
}

TEST_F(PostgresRoles, MayBeMadeAgain) {
  const Status again = create_roles(owner_);
  EXPECT_TRUE(again) << text_of(again);
}

TEST_F(PostgresRoles, WithoutARoleTheErrorSaysWhichIsMissing) {
  Connection app = as("nobody");
  const Status refused = app.execute("SELECT dovetail.publish('order', '1', 'placed', '{}')");
  EXPECT_TRUE(failed_with(refused, Errc::rejected));
  EXPECT_TRUE(contains(text_of(refused), "dovetail_app")) << text_of(refused);
}

class PostgresRoleAttempts : public PostgresRoles {
 protected:
  static void each_is_refused(std::span<const Attempt> attempts) {
    Connection connection = as(attempts.front().role);
    for (const Attempt& attempt : attempts)
      EXPECT_EQ(sqlstate(connection, attempt.sql), "42501") << attempt.role << ": " << attempt.sql;
  }
};

TEST_F(PostgresRoleAttempts, APublisherDoesNothingButPublish) { each_is_refused(kAppAttempts); }
TEST_F(PostgresRoleAttempts, AWorkerActsForItsConsumersOnly) { each_is_refused(kWorkerAttempts); }
TEST_F(PostgresRoleAttempts, ARelayChangesNoEventAndWritesNoAudit) {
  each_is_refused(kRelayAttempts);
}
TEST_F(PostgresRoleAttempts, AnOperatorChangesNoRowAndNoAudit) {
  each_is_refused(kOperatorAttempts);
}
TEST_F(PostgresRoleAttempts, ALoginWithoutARoleReachesNothing) { each_is_refused(kNobodyAttempts); }

class PostgresRolesUpgrade : public testing::Test {
 protected:
  TestDatabase database_{"postgres", Tables::none};
  Connection owner_ = database_.connect();
};

// As in earlier versions: a publisher was a worker for all consumers, and an operator wrote
// rows.
TEST_F(PostgresRolesUpgrade, TakesBackTheRightsThatEarlierVersionsGave) {
  std::vector<Migration> before;
  for (const Migration& step : migrations())
    if (step.to_version < 8) before.push_back(step);
  ASSERT_TRUE(create_schema(owner_.get(), before));
  {
    TestDatabase other;
    Connection elsewhere = other.connect();
    ASSERT_TRUE(create_roles(elsewhere)) << "roles are the cluster's";
  }
  must(
      owner_,
      "GRANT USAGE ON SCHEMA dovetail TO dovetail_app, dovetail_operator; GRANT EXECUTE ON "
      "FUNCTION dovetail.receive(text, int, interval, int), dovetail.complete(text, uuid, bigint), "
      "dovetail.begin_request(text, text, bytea, interval, boolean) TO dovetail_app; GRANT UPDATE "
      "ON dovetail.parked TO dovetail_operator; GRANT INSERT ON dovetail.audit TO "
      "dovetail_operator; INSERT INTO dovetail.schema_made (kind, name, definition, server) SELECT "
      "kind, name, definition, 0 FROM dovetail.schema_objects() WHERE kind = 'right'");
  const Status migrated = create_schema(owner_);
  ASSERT_TRUE(migrated) << text_of(migrated);
  EXPECT_EQ(text(owner_,
                 "SELECT concat(has_function_privilege('dovetail_app', 'dovetail.complete(text, "
                 "uuid, bigint)', 'EXECUTE'), has_table_privilege('dovetail_operator', "
                 "'dovetail.parked', 'UPDATE'), has_table_privilege('dovetail_operator', "
                 "'dovetail.audit', 'INSERT'), has_function_privilege('dovetail_worker', "
                 "'dovetail.complete(text, uuid, bigint)', 'EXECUTE'))"),
            "ffft");
}

// Only some users may create roles; the owner of the schema need not be one.
TEST_F(PostgresRolesUpgrade, AnOwnerWhoMayMakeNoRolesIsToldWhichIsMissing) {
  const std::string plain = database_.name + "_plain";
  ASSERT_TRUE(create_schema(owner_));
  ASSERT_TRUE(create_roles(owner_));
  must(owner_, "DROP SCHEMA dovetail CASCADE; DROP PUBLICATION dovetail_outbox; CREATE ROLE " +
                   plain + " LOGIN; GRANT CREATE ON DATABASE " + database_.name + " TO " + plain +
                   "; ALTER ROLE dovetail_worker RENAME TO " + plain + "_worker");
  {
    Connection owner = database_.connect(plain);
    const Status schema = create_schema(owner);
    EXPECT_TRUE(schema) << text_of(schema);
    const Status refused = create_roles(owner);
    EXPECT_TRUE(failed_with(refused, Errc::rejected)) << text_of(refused);
    EXPECT_TRUE(contains(text_of(refused), "CREATE ROLE dovetail_worker NOLOGIN"))
        << text_of(refused);
    must(owner_, "ALTER ROLE " + plain + "_worker RENAME TO dovetail_worker");
    const Status made = create_roles(owner);
    EXPECT_TRUE(made) << text_of(made);
  }
  must(owner_, "DROP OWNED BY " + plain + "; DROP ROLE " + plain);
}

TEST_F(PostgresRolesUpgrade, AMigrationGrantsTheRightsOnWhatIsNew) {
  ASSERT_TRUE(create_schema(owner_));
  ASSERT_TRUE(create_roles(owner_));
  std::vector<Migration> steps(migrations().begin(), migrations().end());
  steps.push_back(
      {kSchemaVersion + 1,
       "DROP FUNCTION dovetail.backlog(); CREATE FUNCTION dovetail.backlog() RETURNS "
       "bigint LANGUAGE sql AS 'SELECT 7::bigint'; REVOKE ALL ON FUNCTION "
       "dovetail.backlog() FROM PUBLIC; UPDATE dovetail.schema_version SET version = version + 1"});
  ASSERT_TRUE(create_schema(owner_.get(), steps));
  EXPECT_EQ(text(owner_,
                 "SELECT has_function_privilege('dovetail_relay', 'dovetail.backlog()', "
                 "'EXECUTE')::text"),
            "true");
}

}  // namespace
}  // namespace dovetail::postgres
