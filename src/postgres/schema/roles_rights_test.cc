// What each role may use, as lists: a right that is added to a role must be added here, too.
#include <set>

#include "postgres/testing/test_roles.h"

namespace dovetail::postgres {
namespace {

// From the catalogue, so that later additions are covered, too.
class PostgresRoleRights : public PostgresRoles {
 protected:
  using Names = std::set<std::string>;

  // The names that the query returns, in order.
  Names names(const std::string& sql) {
    Names found;
    const Result<Rows> rows = owner_.query(sql);
    EXPECT_TRUE(rows) << text_of(rows);
    for (std::size_t i = 0; rows && i < rows->size(); ++i) found.emplace(rows->text(i, 0));
    return found;
  }
  Names may_call(const std::string& role) {
    return names("SELECT DISTINCT p.proname::text FROM pg_proc p JOIN pg_roles r ON r.rolname = '" +
                 role +
                 "' CROSS JOIN LATERAL aclexplode(p.proacl) AS g WHERE p.pronamespace = "
                 "'dovetail'::regnamespace AND g.grantee = r.oid");
  }
  Names may(const std::string& role, const std::string& privilege) {
    return names(
        "SELECT c.relname::text FROM pg_class c WHERE c.relnamespace = 'dovetail'::regnamespace "
        "AND c.relkind IN ('r', 'p', 'v') AND (has_table_privilege('" +
        role + "', c.oid, '" + privilege + "')" +
        (privilege == "DELETE" || privilege == "TRUNCATE" || privilege == "TRIGGER"
             ? ")"
             : " OR has_any_column_privilege('" + role + "', c.oid, '" + privilege + "'))"));
  }
  // "table.column" where the role has the right for some columns only.
  Names columns(const std::string& role, const std::string& privilege) {
    return names(
        "SELECT c.relname || '.' || a.attname FROM pg_class c JOIN pg_attribute a ON a.attrelid = "
        "c.oid JOIN pg_roles r ON r.rolname = '" +
        role +
        "' CROSS JOIN LATERAL aclexplode(a.attacl) AS g WHERE c.relnamespace = "
        "'dovetail'::regnamespace AND g.grantee = r.oid AND g.privilege_type = '" +
        privilege + "'");
  }
};

TEST_F(PostgresRoleRights, APublisherMayCallWhatPublishesAndWhatTellsIt) {
  EXPECT_EQ(may_call("dovetail_app"),
            (Names{"add_event", "begin_request", "bytes_of", "check_published", "claim", "delay",
                   "lease_request", "publish", "receive"}));
}

TEST_F(PostgresRoleRights, AWorkerMayCallWhatWorks) {
  EXPECT_EQ(may_call("dovetail_worker"),
            (Names{"abandon_request", "begin_request", "claim", "complete", "complete_many",
                   "extend", "fail", "finish_request", "lease_request", "prune_requests", "receive",
                   "release", "release_request", "request_fingerprint", "settle_request"}));
}

TEST_F(PostgresRoleRights, ARelayMayCallWhatDeliversAndNoDecision) {
  EXPECT_EQ(may_call("dovetail_relay"), (Names{"abandon_request",
                                               "adopt_foreign_rows",
                                               "backlog",
                                               "begin_request",
                                               "claim_many",
                                               "complete_claims",
                                               "enqueue",
                                               "finish_request",
                                               "lease_request",
                                               "mark_server",
                                               "matches",
                                               "passes_filter",
                                               "prune_requests",
                                               "read_window",
                                               "refresh_heads",
                                               "release_claims",
                                               "release_delayed",
                                               "release_request",
                                               "request_fingerprint",
                                               "settle_request",
                                               "time_of",
                                               "window_bounds"}));
}

TEST_F(PostgresRoleRights, ARelayReadsAndWritesTheseTables) {
  EXPECT_EQ(
      may("dovetail_relay", "SELECT"),
      (Names{
          "applied_version",  "attempt",       "claim",          "commit_guard", "consumer",
          "consumer_session", "delayed",       "events",         "forgetting",   "inbox",
          "inbox_state",      "lag",           "mapped_backlog", "outbox",       "outbox_default",
          "outbox_limit",     "parked",        "queue",          "queue_parked", "queues",
          "relay_lane",       "relay_process", "relay_state",    "schema_made",  "schema_version",
          "server_mark",      "unapplied",     "worker"}));
  const Names own = {"applied_version", "attempt",       "consumer_session",
                     "mapped_backlog",  "relay_process", "relay_state"};
  Names inserts = own;
  inserts.insert(
      {"commit_guard", "consumer", "inbox", "parked", "receipt", "relay_lane", "unapplied"});
  EXPECT_EQ(may("dovetail_relay", "INSERT"), inserts);
  Names updates = own;
  updates.insert({"parked", "relay_lane"});
  EXPECT_EQ(may("dovetail_relay", "UPDATE"), updates);
  EXPECT_EQ(may("dovetail_relay", "DELETE"),
            (Names{"applied_version", "attempt", "commit_guard", "relay_process", "unapplied"}));
  EXPECT_EQ(may("dovetail_relay", "TRUNCATE"), Names{});
  EXPECT_EQ(may("dovetail_relay", "TRIGGER"), Names{});
}

TEST_F(PostgresRoleRights, ARelayWritesOnlyTheseColumnsOfWhatOperatorsDecideAbout) {
  Names parked, lane, others;
  for (const std::string& name : columns("dovetail_relay", "UPDATE"))
    (name.starts_with("parked.")       ? parked
     : name.starts_with("relay_lane.") ? lane
                                       : others)
        .insert(name.substr(name.find('.') + 1));
  EXPECT_EQ(parked, (Names{"aggregate_id",
                           "aggregate_type",
                           "aggregate_version",
                           "at_head",
                           "attempts",
                           "content_type",
                           "created_at",
                           "finished_at",
                           "headers",
                           "note",
                           "parked_at",
                           "payload",
                           "position",
                           "reason",
                           "retry_at",
                           "row_id",
                           "row_state",
                           "state",
                           "topic",
                           "type"}));
  EXPECT_EQ(lane, (Names{"delivered_total",
                         "epoch",
                         "expires",
                         "filter",
                         "hold",
                         "lease_term",
                         "owner",
                         "parked_total",
                         "passed_seq",
                         "previous_at",
                         "previous_total",
                         "reads_since",
                         "reads_wal",
                         "reads_why",
                         "replayed_total",
                         "sample_at",
                         "sample_total",
                         "skipped_total",
                         "slot",
                         "slot_reported",
                         "slot_timeline",
                         "system_identifier",
                         "target",
                         "updated_at",
                         "window_end",
                         "window_seq",
                         "window_start"}));
  EXPECT_EQ(others, Names{});
}

TEST_F(PostgresRoleRights, ARelayAddsOnlyTheseColumnsOfWhatItMayNotChoose) {
  EXPECT_EQ(columns("dovetail_relay", "INSERT"), (Names{"consumer.name",
                                                        "inbox.available_at",
                                                        "inbox.consumer_id",
                                                        "inbox.digest",
                                                        "inbox.event_id",
                                                        "parked.aggregate_id",
                                                        "parked.aggregate_type",
                                                        "parked.aggregate_version",
                                                        "parked.at_head",
                                                        "parked.attempts",
                                                        "parked.content_type",
                                                        "parked.created_at",
                                                        "parked.headers",
                                                        "parked.id",
                                                        "parked.payload",
                                                        "parked.position",
                                                        "parked.reason",
                                                        "parked.relay",
                                                        "parked.retry_at",
                                                        "parked.state",
                                                        "parked.topic",
                                                        "parked.type",
                                                        "receipt.events",
                                                        "receipt.first_bucket",
                                                        "receipt.first_seq",
                                                        "receipt.last_bucket",
                                                        "receipt.last_seq",
                                                        "receipt.owner",
                                                        "receipt.places",
                                                        "receipt.relay",
                                                        "relay_lane.lane",
                                                        "relay_lane.lanes",
                                                        "relay_lane.passed_seq",
                                                        "relay_lane.relay",
                                                        "relay_lane.source",
                                                        "relay_lane.system_identifier",
                                                        "relay_lane.window_start",
                                                        "unapplied.consumer_id",
                                                        "unapplied.event_id"}));
}

TEST_F(PostgresRoleRights, AnOperatorMayCallWhatDecidesAndWhatCounts) {
  EXPECT_EQ(may_call("dovetail_operator"),
            (Names{"apply_event",    "backlog",        "cancel_delayed", "deliver_again",
                   "discard",        "discard_parked", "forget_event",   "forget_relay",
                   "forget_request", "hold_relay",     "matches",        "note_edit",
                   "note_refusal",   "note_reveal",    "note_slot_drop", "passes_filter",
                   "remember_since", "rename_relay",   "replay",         "replay_parked",
                   "retarget_relay", "seek_relay"}));
}

TEST_F(PostgresRoleRights, AnOperatorReadsEveryTableButTheAnswersOfRequests) {
  EXPECT_EQ(names("SELECT c.relname::text FROM pg_class c WHERE c.relnamespace = "
                  "'dovetail'::regnamespace AND c.relkind IN ('r', 'p', 'v') AND NOT "
                  "has_table_privilege('dovetail_operator', c.oid, 'SELECT')"),
            Names{"request"});
}

TEST_F(PostgresRoleRights, PublisherAndWorkerReadNoTable) {
  EXPECT_EQ(may("dovetail_app", "SELECT"), Names{});
  EXPECT_EQ(may("dovetail_worker", "SELECT"), Names{"schema_version"}) << "a gateway checks it";
  for (const std::string role : {"dovetail_app", "dovetail_worker"}) {
    EXPECT_EQ(may(role, "UPDATE"), Names{}) << role;
    EXPECT_EQ(may(role, "DELETE"), Names{}) << role;
  }
  EXPECT_EQ(may("dovetail_app", "INSERT"), Names{"outbox"});
  EXPECT_EQ(may("dovetail_worker", "INSERT"), Names{});
}

TEST_F(PostgresRoleRights, AnOperatorWritesNoTable) {
  for (const std::string privilege : {"INSERT", "UPDATE", "DELETE", "TRUNCATE", "TRIGGER"})
    EXPECT_EQ(may("dovetail_operator", privilege), Names{}) << privilege;
}

TEST_F(PostgresRoleRights, NoRoleWritesTheAuditOrTheGrantsOfWorkers) {
  for (const std::string role :
       {"dovetail_app", "dovetail_worker", "dovetail_relay", "dovetail_operator", "public"})
    for (const std::string privilege : {"INSERT", "UPDATE", "DELETE", "TRUNCATE", "TRIGGER"})
      for (const std::string table : {"audit", "worker", "outbox_limit", "schema_version"})
        EXPECT_EQ(may(role, privilege).count(table), 0u)
            << role << " " << privilege << " " << table;
}

TEST_F(PostgresRoleRights, AnOperatorCallsNothingThatChangesRowsAndWritesNoAudit) {
  EXPECT_EQ(names("SELECT p.proname::text FROM pg_proc p WHERE p.pronamespace = "
                  "'dovetail'::regnamespace AND p.provolatile = 'v' AND p.prosecdef AND "
                  "strpos(p.prosrc, 'INSERT INTO dovetail.audit') = 0 AND "
                  "has_function_privilege('dovetail_operator', p.oid, 'EXECUTE')"),
            Names{});
}

TEST_F(PostgresRoleRights, WhatRunsAsTheOwnerIsClosedToPublicAndToForeignSearchPaths) {
  EXPECT_EQ(names("SELECT p.oid::regprocedure::text FROM pg_proc p WHERE p.pronamespace = "
                  "'dovetail'::regnamespace AND p.prosecdef AND NOT coalesce('search_path="
                  "pg_catalog, pg_temp' = ANY (p.proconfig), false)"),
            Names{});
  // It is the largest payload size, and a column's type asks for it.
  EXPECT_EQ(
      names("SELECT p.proname::text FROM pg_proc p WHERE p.pronamespace = "
            "'dovetail'::regnamespace AND p.prosecdef AND (p.proacl IS NULL OR EXISTS (SELECT "
            "FROM aclexplode(p.proacl) g WHERE g.grantee = 0))"),
      Names{"payload_fits"});
}

TEST_F(PostgresRoleRights, EveryFunctionOfAWorkerRefusesAConsumerOfOthers) {
  const Result<Rows> functions = owner_.query(
      "SELECT format('SELECT dovetail.%I(''mail''%s)', p.proname, (SELECT string_agg(CASE WHEN "
      "t.type = 'interval'::regtype THEN ', interval ''1 s''' ELSE ', NULL::' || "
      "format_type(t.type, NULL) END, '' ORDER BY t.place) FROM unnest(p.proargtypes::oid[]) WITH "
      "ORDINALITY AS t (type, place) WHERE t.place > 1)) FROM pg_proc p WHERE p.pronamespace = "
      "'dovetail'::regnamespace AND p.proargnames[1] = 'consumer' AND "
      "has_function_privilege('dovetail_worker', p.oid, 'EXECUTE')");
  ASSERT_TRUE(functions) << text_of(functions);
  EXPECT_GE(functions->size(), 8u);
  Connection worker = as("worker");
  for (std::size_t i = 0; i < functions->size(); ++i) {
    const std::string sql(functions->text(i, 0));
    // An empty list does nothing, so the consumer is not checked.
    if (contains(sql, "complete_many")) continue;
    EXPECT_EQ(sqlstate(worker, sql), "42501") << sql;
  }
}

}  // namespace
}  // namespace dovetail::postgres
