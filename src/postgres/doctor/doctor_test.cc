#include "postgres/doctor/doctor.h"

#include <algorithm>

#include "core/testing/test_clock.h"
#include "host/host.h"
#include "postgres/operate/maintenance.h"
#include "postgres/schema/schema.h"
#include "postgres/testing/test_database.h"

namespace dovetail::postgres {
namespace {

using namespace std::chrono_literals;

class Doctor : public ::testing::Test {
 protected:
  Doctor() {
    const Status made = create_schema(application);
    EXPECT_TRUE(made) << text_of(made);
  }
  std::vector<Finding> look(const DoctorOptions& options = {}, const std::string& user = "") {
    const Result<std::vector<Finding>> found =
        examine(database.conninfo + (user.empty() ? "" : " user=" + user), options, system_clock());
    EXPECT_TRUE(found) << text_of(found);
    return found.value_or(std::vector<Finding>{});
  }
  static const Finding* find(const std::vector<Finding>& all, std::string_view code) {
    const auto found = std::find_if(all.begin(), all.end(),
                                    [&](const Finding& finding) { return finding.code == code; });
    return found == all.end() ? nullptr : &*found;
  }
  static std::string shown(const std::vector<Finding>& all) {
    std::string text;
    for (const Finding& finding : all)
      text += finding.code + ": " + finding.what + " -> " + finding.what_to_do + "\n";
    return text;
  }
  void expect(std::string_view code, Severity severity, std::string_view words,
              const DoctorOptions& options = {}) {
    // Other tests share the server, so there may be more of the kind.
    const std::vector<Finding> all = look(options);
    const auto finding = std::find_if(all.begin(), all.end(), [&](const Finding& each) {
      return each.code == code && contains(each.what + " " + each.what_to_do, words);
    });
    ASSERT_NE(finding, all.end()) << "no " << code << " with " << words << " in\n" << shown(all);
    EXPECT_EQ(finding->severity, severity);
    EXPECT_FALSE(finding->what_to_do.empty());
  }
  DoctorOptions mapped(const TableMapping& mapping) {
    DoctorOptions options;
    options.mapped = {{"mapped", mapping}};
    return options;
  }
  // As it is from PostgreSQL 15 on.
  void close_public() { must(application, "REVOKE CREATE ON SCHEMA public FROM PUBLIC"); }
  void make_processed_at(const std::string& order = "timestamptz DEFAULT now()") {
    must(application,
         "CREATE TABLE outbox (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), aggregate_type text, "
         "aggregate_id text, event_type text, payload jsonb, created_at timestamptz, n " +
             order + ", processed_at timestamptz, status text DEFAULT 'pending')");
  }

  TestDatabase database;
  Connection application = database.connect();
};

TEST_F(Doctor, FindsNothingWrongWithAFreshSchemaThatIsMaintained) {
  ASSERT_TRUE(maintain(database.conninfo, {}));
  close_public();
  const std::vector<Finding> all = look();
  EXPECT_TRUE(std::all_of(all.begin(), all.end(), [](const Finding& finding) {
    // Other tests share the server, and have slots in databases of their own.
    return finding.severity == Severity::note || finding.code == "slot-idle";
  })) << shown(all);
}

TEST_F(Doctor, FindsALimitOfPayloadsAboveThatOfTheConfig) {
  DoctorOptions options;
  options.payload_bytes_max = EventLimits{}.payload_bytes_max;
  EXPECT_EQ(find(look(options), "payload-limit"), nullptr);
  must(application, "UPDATE dovetail.outbox_limit SET payload_bytes_max = 2000000");
  expect("payload-limit", Severity::warning, "2000000 bytes", options);
  must(application, "UPDATE dovetail.outbox_limit SET payload_bytes_max = NULL");
  expect("payload-limit", Severity::warning, "any size", options);
}

TEST_F(Doctor, FindsAMissingSchema) {
  must(application, "DROP SCHEMA dovetail CASCADE");
  expect("no-tables", Severity::warning, "dovetail init");
}

TEST_F(Doctor, SaysThatASchemaIsNewerButStillForThisProgram) {
  must(application, "UPDATE dovetail.schema_version SET version = 99");
  expect("schema-newer", Severity::note, "version 99");
}

TEST_F(Doctor, FindsANewerSchema) {
  must(application, "UPDATE dovetail.schema_version SET version = 99, compatible_from = 99");
  expect("schema-version", Severity::error, "upgrade dovetail");
}

TEST_F(Doctor, FindsDrift) {
  const std::vector<std::pair<std::string, std::string>> changes = {
      {"ALTER TABLE dovetail.outbox ALTER seq DROP DEFAULT",
       "column dovetail.outbox.seq was changed"},
      {"ALTER TABLE dovetail.outbox ALTER topic SET DEFAULT 'x'", "outbox.topic was changed"},
      {"ALTER TABLE dovetail.relay_lane ALTER window_seq DROP NOT NULL",
       "relay_lane.window_seq was changed"},
      {"ALTER TABLE dovetail.delayed SET UNLOGGED", "table dovetail.delayed was changed"},
      {"ALTER TABLE dovetail.outbox DETACH PARTITION dovetail.outbox_default",
       "table dovetail.outbox_default was changed"},
      {"ALTER DOMAIN dovetail.topic DROP CONSTRAINT \"has at most 255 bytes\"",
       "domain dovetail.topic was changed"},
      {"ALTER TABLE dovetail.outbox DROP CONSTRAINT outbox_pkey", "outbox_pkey"},
      {"ALTER FUNCTION dovetail.check_published SECURITY INVOKER", "check_published"},
      {"CREATE OR REPLACE FUNCTION dovetail.uuid7() RETURNS uuid LANGUAGE sql AS 'SELECT "
       "gen_random_uuid()'",
       "function dovetail.uuid7() was changed"},
      {"DROP INDEX dovetail.parked_due", "index dovetail.parked_due is missing"},
      {"DROP FUNCTION dovetail.read_window", "read_window"},
      {"DROP VIEW dovetail.lag", "view dovetail.lag is missing"}};
  EXPECT_EQ(find(look(), "schema-drift"), nullptr) << shown(look());
  for (const auto& [change, words] : changes) {
    must(application, change);
    expect("schema-drift", Severity::error, words);
  }
  EXPECT_EQ(shown(look()).find("dovetail.lag."), std::string::npos) << "not each of its columns";
}

// Partitions come and go, and a limit is set by a trigger.
TEST_F(Doctor, TakesNoDailyWorkForDrift) {
  ASSERT_TRUE(maintain(database.conninfo, {}));
  must(application, "SELECT dovetail.set_backlog_limit(10)");
  must(application, "ALTER ROLE CURRENT_USER IN DATABASE " + database.name +
                        " SET search_path = dovetail, public");
  EXPECT_EQ(find(look(), "schema-drift"), nullptr) << shown(look());
}

TEST_F(Doctor, FindsRightsThatWereTakenAway) {
  ASSERT_TRUE(create_roles(application));
  EXPECT_EQ(find(look(), "missing-right"), nullptr) << shown(look());
  must(application, "REVOKE UPDATE ON dovetail.relay_lane FROM dovetail_relay");
  expect("missing-right", Severity::error, "owner");
  EXPECT_TRUE(contains(find(look(), "missing-right")->what,
                       ", window_start) ON "
                       "dovetail.relay_lane TO "
                       "dovetail_relay was revoked"));
  must(application, "REVOKE ALL ON dovetail.relay_lane FROM dovetail_relay");
  const std::vector<Finding> all = look();
  EXPECT_EQ(std::count_if(all.begin(), all.end(),
                          [](const Finding& one) { return one.code == "missing-right"; }),
            1)
      << "one of each table and role: " << shown(all);
  expect("missing-right", Severity::error, "INSERT (lane, lanes, passed_seq, relay");
  must(application, "REVOKE EXECUTE ON FUNCTION dovetail.discard_parked FROM dovetail_operator");
  expect("missing-right", Severity::error, "discard_parked");
  ASSERT_TRUE(create_roles(application));
  EXPECT_EQ(find(look(), "missing-right"), nullptr) << shown(look());
}

TEST_F(Doctor, FindsRightsThatWereGivenToARoleByHand) {
  ASSERT_TRUE(create_roles(application));
  EXPECT_EQ(find(look(), "extra-right"), nullptr) << shown(look());
  must(application, "GRANT SELECT (payload, headers) ON dovetail.outbox TO dovetail_app");
  expect("extra-right", Severity::warning,
         "SELECT (headers, payload) ON dovetail.outbox TO dovetail_app");
  ASSERT_TRUE(create_roles(application));
  EXPECT_EQ(find(look(), "extra-right"), nullptr) << shown(look());
}

TEST_F(Doctor, FindsGrantsOfWorkersThatGiveNoRight) {
  ASSERT_TRUE(create_roles(application));
  const std::string login = database.name + "_worker";
  must(application, "CREATE ROLE " + login + " LOGIN");
  must(application, "SELECT dovetail.grant_worker('" + login + "', 'stock')");
  expect("worker-grant", Severity::warning, "GRANT dovetail_worker TO " + login);
  must(application, "GRANT dovetail_worker TO " + login);
  EXPECT_EQ(find(look(), "worker-grant"), nullptr) << shown(look());
  must(application, "DROP ROLE " + login);
  expect("worker-grant", Severity::warning, "there is no such role");
}

TEST_F(Doctor, FindsACachedSequence) {
  must(application, "ALTER SEQUENCE dovetail.outbox_seq CACHE 50");
  expect("sequence-cache", Severity::error, "CACHE 1");
}

TEST_F(Doctor, FindsMissingPartitions) {
  expect("partitions-ahead", Severity::warning, "dovetail prune");
  MaintenanceOptions options;
  options.ahead = std::chrono::hours(1);
  options.partition_span = std::chrono::hours(1);
  ASSERT_TRUE(maintain(database.conninfo, options));
  expect("partitions-ahead", Severity::warning, "only");
}

TEST_F(Doctor, FindsAConsumerThatDied) {
  must(application,
       "INSERT INTO dovetail.consumer (name) VALUES ('stock'); INSERT INTO "
       "dovetail.consumer_session "
       "(consumer_id, session, clean) VALUES (1, 0, false); INSERT INTO dovetail.relay_lane "
       "(relay, lane, "
       "lanes, owner, expires) VALUES ('stock', 0, 1, 'me', now() + interval '1 hour')");
  EXPECT_EQ(find(look(), "consumer-died"), nullptr) << "it runs";
  must(application, "UPDATE dovetail.relay_lane SET expires = now()");
  expect("consumer-died", Severity::warning, "stock");
  must(application, "UPDATE dovetail.consumer_session SET clean = true");
  EXPECT_EQ(find(look(), "consumer-died"), nullptr);
}

TEST_F(Doctor, FindsAnInboxThatAWrongClockHasMadeForgetNewEvents) {
  must(application, "INSERT INTO dovetail.consumer (name) VALUES ('stock')");
  EXPECT_EQ(find(look(), "inbox-forgets-new-events"), nullptr);
  must(application, "UPDATE dovetail.consumer SET forgotten_until = now() + interval '26 hours'");
  expect("inbox-forgets-new-events", Severity::error, "inbox remember");
}

TEST_F(Doctor, FindsAnInboxThatCannotBeKeptSmall) {
  EXPECT_EQ(find(look(), "inbox-partitions"), nullptr) << "nobody has an inbox yet";
  must(application, "INSERT INTO dovetail.consumer (name) VALUES ('stock')");
  expect("inbox-partitions", Severity::warning, "dovetail prune");
  ASSERT_TRUE(maintain(database.conninfo, {}));
  EXPECT_EQ(find(look(), "inbox-partitions"), nullptr);
  must(application,
       "INSERT INTO dovetail.inbox (event_id, consumer_id) SELECT gen_random_uuid(), 1 FROM "
       "generate_series(1, 100); ANALYZE dovetail.inbox_default");
  DoctorOptions options;
  EXPECT_EQ(find(look(options), "inbox-default"), nullptr);
  options.default_rows_max = 50;
  expect("inbox-default", Severity::warning, "version 7", options);
}

TEST_F(Doctor, FindsMissingRights) {
  must(application,
       "DO $$ BEGIN CREATE ROLE doctor_nobody LOGIN; EXCEPTION WHEN duplicate_object THEN END $$; "
       "GRANT USAGE ON SCHEMA dovetail TO doctor_nobody; GRANT SELECT ON ALL TABLES IN SCHEMA "
       "dovetail TO doctor_nobody; GRANT SELECT ON ALL SEQUENCES IN SCHEMA dovetail TO "
       "doctor_nobody");
  const std::vector<Finding> all = look({}, "doctor_nobody");
  EXPECT_EQ(find(all, "missing-right"), nullptr) << "it is there to look: " << shown(all);
  ASSERT_NE(find(all, "rights"), nullptr) << shown(all);
  EXPECT_TRUE(contains(find(all, "rights")->what, "doctor_nobody may look; it may not"));
  EXPECT_NE(find(all, "sees-own-sessions-only"), nullptr) << shown(all);
  must(application, "GRANT INSERT, DELETE ON dovetail.relay_process TO doctor_nobody");
  const std::vector<Finding> meant = look({}, "doctor_nobody");
  ASSERT_NE(find(meant, "missing-right"), nullptr) << shown(meant);
  EXPECT_TRUE(contains(find(meant, "missing-right")->what, "should be able to run relays"));
  EXPECT_EQ(find(look(), "missing-right"), nullptr);
  EXPECT_EQ(find(look(), "rights"), nullptr) << "the owner may do everything";
}

TEST_F(Doctor, FindsLongWritingTransactions) {
  Connection slow = database.connect();
  must(slow, "BEGIN; SELECT dovetail.publish('order', '1', 'placed', '{}'::jsonb)");
  DoctorOptions options;
  options.transaction_age_max = Duration{0};
  expect("long-transaction", Severity::warning,
         "pid " + text(slow, "SELECT pg_backend_pid()::text"), options);
}

TEST_F(Doctor, FindsForgottenPreparedTransactions) {
  must(application, "BEGIN; SELECT dovetail.publish('order', '1', 'placed', '{}'::jsonb)");
  must(application, "PREPARE TRANSACTION 'forgotten_" + database.name + "'");
  DoctorOptions options;
  options.prepared_age_max = Duration{0};
  expect("prepared-transaction", Severity::error, "forgotten_", options);
  must(application, "ROLLBACK PREPARED 'forgotten_" + database.name + "'");
}

TEST_F(Doctor, FindsAStandby) {
  const servers::Started standby("standby");
  if (standby.server().conninfo.empty()) GTEST_SKIP() << standby.server().missing;
  const std::string there = servers::with_database(standby.server().conninfo, database.name);
  EXPECT_TRUE(eventually([&] {
    const Result<std::vector<Finding>> all = examine(there, {}, system_clock());
    return all && find(*all, "standby") != nullptr;
  }));
  EXPECT_EQ(find(look(), "standby"), nullptr);
}

TEST_F(Doctor, FindsASchemaInTheSearchPathWhereEverybodyMayCreate) {
  close_public();
  EXPECT_EQ(find(look(), "open-schema"), nullptr) << shown(look());
  must(application, "GRANT CREATE ON SCHEMA public TO PUBLIC");
  expect("open-schema", Severity::warning, "REVOKE CREATE ON SCHEMA \"public\"");
}

TEST_F(Doctor, FindsDisabledAutovacuum) {
  must(application, "ALTER TABLE dovetail.parked SET (autovacuum_enabled = false)");
  expect("autovacuum-off", Severity::warning, "dovetail.parked");
}

TEST_F(Doctor, FindsDeadRows) {
  make_processed_at();
  must(application,
       "ALTER TABLE outbox SET (autovacuum_enabled = false); INSERT INTO outbox (payload) SELECT "
       "'{}' FROM generate_series(1, 500); UPDATE outbox SET status = 'processed'");
  DoctorOptions options = mapped(*mapping_preset("processed_at"));
  options.dead_rows_max = 100;
  EXPECT_TRUE(eventually([&] {
    // Before PostgreSQL 15 a session tells of what it did when it has something to do again.
    must(application, "SELECT 1");
    return find(look(options), "dead-rows") != nullptr;
  }));
}

TEST_F(Doctor, FindsClockSkew) {
  TestClock clock;
  clock.set_wall(system_clock().wall() + 1h);
  const Result<std::vector<Finding>> all = examine(database.conninfo, {}, clock);
  ASSERT_TRUE(all);
  EXPECT_NE(find(*all, "clock-skew"), nullptr) << shown(*all);
  EXPECT_EQ(find(look(), "clock-skew"), nullptr);
}

TEST_F(Doctor, FindsBacklogAndARelayThatIsGone) {
  must(application,
       "INSERT INTO dovetail.relay_lane (relay, lane, lanes) VALUES ('relay', 0, 1); SELECT "
       "dovetail.publish('order', '1', 'placed', '{}'::jsonb) FROM generate_series(1, 20)");
  DoctorOptions options;
  options.pending_max = 10;
  expect("backlog", Severity::warning, "20 pending events", options);
  expect("relay-not-running", Severity::error, "\"relay\"");
  must(application, "DELETE FROM dovetail.outbox");
  expect("relay-not-running", Severity::warning, "0 of its events are pending");
}

TEST_F(Doctor, FindsParkedEvents) {
  must(application,
       "INSERT INTO dovetail.parked (relay, id, position, topic, aggregate_type, aggregate_id, "
       "type, "
       "content_type, headers, payload, aggregate_version, created_at, state, attempts, reason, "
       "retry_at) VALUES ('relay', gen_random_uuid(), 1, '', 'o', 'k', 't', 'c', '', '', 0, now(), "
       "'parked', 5, '', now())");
  expect("parked", Severity::warning, "dovetail parked");
  expect("parked-without-head", Severity::error, "refresh_heads");
}

TEST_F(Doctor, FindsAMappingThatDoesNotFit) {
  expect("mapping", Severity::error, "outbox_events", mapped(*mapping_preset("status")));
}

TEST_F(Doctor, FindsTheBacklogOfAMappedTable) {
  make_processed_at();
  must(application, "INSERT INTO outbox (payload) SELECT '{}' FROM generate_series(1, 20)");
  DoctorOptions options = mapped(*mapping_preset("processed_at"));
  options.pending_max = 10;
  expect("backlog", Severity::warning, "20 pending events", options);
  expect("relay-not-running", Severity::error, "\"mapped\"", options);
  must(application,
       "INSERT INTO dovetail.relay_lane (relay, lane, lanes, source, owner, expires) "
       "VALUES ('mapped', 0, 1, 'mapped', 'one', now() + interval '1 h')");
  EXPECT_EQ(find(look(options), "relay-not-running"), nullptr);
}

TEST_F(Doctor, FindsUnsafeOrdersOfMappedTables) {
  make_processed_at("bigint");
  TableMapping mapping = *mapping_preset("processed_at");
  expect("unsafe-order", Severity::warning, "GENERATED ALWAYS AS IDENTITY", mapped(mapping));
  mapping.order_by = "id";
  expect("unsafe-order", Severity::error, "uuid", mapped(mapping));
  mapping.order_by = "n";
  expect("order-without-sequence", Severity::note, "\"n\"", mapped(mapping));
  mapping.aggregate_id.clear();
  expect("unordered", Severity::note, "no order", mapped(mapping));
}

TEST_F(Doctor, LooksAtThePublicationOfAMappedTableThatIsReadOutOfTheLog) {
  must(application,
       "CREATE TABLE outbox (id uuid PRIMARY KEY, aggregatetype text, aggregateid text, type text, "
       "payload jsonb)");
  TableMapping mapping = *mapping_preset("debezium");
  mapping.delete_when_done = false;
  mapping.from_wal = true;
  expect("publication", Severity::error, "CREATE PUBLICATION", mapped(mapping));
  expect("order-of-gaps", Severity::note, "order_by", mapped(mapping));
  EXPECT_EQ(find(look(mapped(mapping)), "missing-index"), nullptr);
  EXPECT_EQ(find(look(mapped(mapping)), "unsafe-order"), nullptr);
  must(application, "CREATE PUBLICATION p FOR TABLE outbox");
  mapping.publication = "p";
  EXPECT_EQ(find(look(mapped(mapping)), "publication"), nullptr);
}

TEST_F(Doctor, FindsCachedSequencesOfMappedTables) {
  TableMapping mapping = *mapping_preset("processed_at");
  mapping.order_by = "n";
  for (const std::string order : {"bigint GENERATED ALWAYS AS IDENTITY (CACHE 20)", "bigserial",
                                  "bigint DEFAULT nextval('s')"}) {
    must(application,
         "DROP TABLE IF EXISTS outbox; DROP SEQUENCE IF EXISTS s; CREATE SEQUENCE s "
         "CACHE 20");
    make_processed_at(order);
    if (order == "bigserial") must(application, "ALTER SEQUENCE outbox_n_seq CACHE 20");
    expect("sequence-cache", Severity::error, "20", mapped(mapping));
  }
}

TEST_F(Doctor, FindsAMissingIndexAndItsAdviceHelps) {
  make_processed_at();
  const TableMapping mapping = *mapping_preset("processed_at");
  expect("missing-index", Severity::warning, "CREATE INDEX CONCURRENTLY", mapped(mapping));
  const std::vector<Finding> all = look(mapped(mapping));
  std::string advice = find(all, "missing-index")->what_to_do;
  advice = advice.substr(advice.find("CREATE INDEX"));
  must(application, advice);
  EXPECT_EQ(find(look(mapped(mapping)), "missing-index"), nullptr);
}

TEST_F(Doctor, FindsAnUnloggedTable) {
  make_processed_at();
  must(application, "ALTER TABLE outbox SET UNLOGGED");
  expect("unlogged", Severity::error, "SET LOGGED", mapped(*mapping_preset("processed_at")));
}

TEST_F(Doctor, SaysTheWorstFirst) {
  must(application, "ALTER SEQUENCE dovetail.outbox_seq CACHE 50");
  const std::vector<Finding> all = look();
  ASSERT_GE(all.size(), 2u);
  EXPECT_TRUE(std::is_sorted(all.begin(), all.end(), [](const Finding& a, const Finding& b) {
    return a.severity > b.severity;
  }));
  EXPECT_EQ(to_string(all.front().severity), "error");
}

}  // namespace
}  // namespace dovetail::postgres
