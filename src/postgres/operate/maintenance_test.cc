#include "postgres/operate/maintenance.h"

#include <algorithm>

#include "host/host.h"
#include "postgres/outbox/source.h"
#include "postgres/schema/schema.h"
#include "postgres/testing/test_database.h"

namespace dovetail::postgres {
namespace {

using namespace std::chrono_literals;

class Maintenance : public ::testing::Test {
 protected:
  Maintenance() {
    const Status made = create_schema(application);
    EXPECT_TRUE(made) << text_of(made);
  }
  MaintenanceReport run(const MaintenanceOptions& options = {}) {
    const Result<MaintenanceReport> report = maintain(database.conninfo, options);
    EXPECT_TRUE(report) << text_of(report);
    return report.value_or(MaintenanceReport{});
  }
  // An event whose id is of the time so many days ago, in a partition of its own.
  void publish_old(int days, const std::string& key = "k") {
    const std::string table = "outbox_old" + std::to_string(days);
    const std::string id_at =
        "(rpad(lpad(to_hex((extract(epoch FROM date_trunc('day', now() - interval '" +
        std::to_string(days) + " days')) * 1000)::bigint), 12, '0'), 32, '0'))::uuid";
    const std::string id_to =
        "(rpad(lpad(to_hex((extract(epoch FROM date_trunc('day', now() - interval '" +
        std::to_string(days - 1) + " days')) * 1000)::bigint), 12, '0'), 32, '0'))::uuid";
    must(application, "DO $$ BEGIN EXECUTE format('CREATE TABLE IF NOT EXISTS dovetail." + table +
                          " PARTITION OF dovetail.outbox FOR VALUES FROM (%L) TO (%L)', " + id_at +
                          ", " + id_to + "); END $$");
    must(
        application,
        "INSERT INTO dovetail.outbox (id, aggregate_type, aggregate_id, type, payload, created_at) "
        "SELECT overlay(" +
            id_at + "::text placing right(gen_random_uuid()::text, 17) from 20)::uuid, 'order', '" +
            key + "', 'placed', '{}', now() - interval '" + std::to_string(days) + " days'");
  }
  void relay_all(std::size_t count, const std::string& name = "relay") {
    Reader reader{database.conninfo, name};
    PostgresSource source(reader, system_clock());
    ASSERT_TRUE(source.open());
    Batch batch;
    ASSERT_TRUE(source.read(batch, {}, {}));
    ASSERT_EQ(batch.size(), count);
    ASSERT_TRUE(source.settle(batch, std::vector<Settled>(count, Settled::delivered)));
    ASSERT_TRUE(source.flush());
  }
  static std::ptrdiff_t outbox_partitions(const MaintenanceReport& report) {
    return std::count_if(report.created.begin(), report.created.end(),
                         [](const std::string& name) { return name.starts_with("outbox"); });
  }
  std::int64_t rows() { return number(application, "SELECT count(*) FROM dovetail.outbox"); }

  TestDatabase database;
  Connection application = database.connect();
};

TEST_F(Maintenance, MakesPartitionsAheadAndOnce) {
  MaintenanceOptions options;
  options.ahead = std::chrono::hours(72);
  MaintenanceReport report;
  // A lock that is not to be had at once is left for the next run.
  ASSERT_TRUE(eventually([&] {
    for (std::string& name : run(options).created) report.created.push_back(std::move(name));
    return outbox_partitions(report) >= 4;
  }));
  EXPECT_EQ(outbox_partitions(report), 4);  // today and three days
  EXPECT_TRUE(run(options).created.empty());
  // An event of now lands in one of them, with everything that the outbox promises.
  must(application, "SELECT dovetail.publish('order', '1', 'placed', '{}'::jsonb)");
  EXPECT_EQ(text(application, "SELECT tableoid::regclass::text FROM dovetail.outbox"),
            "dovetail." + report.created[0]);
  EXPECT_EQ(number(application, "SELECT count(*) FROM dovetail.outbox WHERE seq = 1"), 1);
  must(application,
       "SELECT dovetail.publish('order', '1', 'placed', '{}'::jsonb, deliver_at => "
       "now() + interval '1 hour')");
  EXPECT_EQ(rows(), 1);
}

TEST_F(Maintenance, SpanMayChangeBesideOlderPartitions) {
  MaintenanceOptions options;
  options.ahead = std::chrono::hours(24);
  run(options);
  options.partition_span = std::chrono::hours(6);
  options.ahead = std::chrono::hours(48);
  const MaintenanceReport report = run(options);
  EXPECT_GE(report.created.size(), 1u);
  EXPECT_TRUE(run(options).created.empty());
}

TEST_F(Maintenance, PartitionOfTimesThatAreInTheDefaultOneIsLeftOut) {
  must(application, "SELECT dovetail.publish('order', '1', 'placed', '{}'::jsonb)");
  MaintenanceOptions options;
  options.ahead = std::chrono::hours(48);
  const MaintenanceReport report = run(options);
  EXPECT_EQ(outbox_partitions(report), 2);
  ASSERT_FALSE(report.notes.empty());
  EXPECT_TRUE(contains(report.notes[0], "default partition")) << report.notes[0];
  EXPECT_EQ(rows(), 1);
}

// What the server says of it depends on its language.
TEST_F(Maintenance, WhatTheDefaultPartitionHoldsIsKnownByItsCodeAndNotByItsText) {
  must(application,
       "CREATE FUNCTION other_words() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN RAISE "
       "check_violation USING MESSAGE = 'geht nicht'; END $$; CREATE EVENT TRIGGER other_words ON "
       "ddl_command_end WHEN TAG IN ('ALTER TABLE') EXECUTE FUNCTION other_words()");
  const MaintenanceReport report = run();
  EXPECT_TRUE(report.created.empty());
  ASSERT_FALSE(report.notes.empty());
  EXPECT_TRUE(contains(report.notes[0], "is left out")) << report.notes[0];
}

TEST_F(Maintenance, DropsWhatEveryRelayHasPassedAndIsOldEnough) {
  publish_old(20);
  publish_old(3);
  relay_all(2);
  const MaintenanceReport report = run();
  EXPECT_EQ(report.dropped, std::vector<std::string>{"outbox_old20"});
  EXPECT_EQ(rows(), 1);
}

TEST_F(Maintenance, ReceiptsGoWithTheLastEventThatTheySpeakOf) {
  publish_old(20);
  publish_old(3);
  relay_all(2);
  must(application,
       "INSERT INTO dovetail.receipt (relay, owner, first_bucket, last_bucket, first_seq, "
       "last_seq, events, places) VALUES ('relay', 'x', 0, 255, 1, 1, 1, ''), ('relay', 'x', 0, "
       "255, 1, 2, 2, ''), ('relay', 'x', 0, 255, 2, 2, 1, '')");
  run();
  EXPECT_EQ(text(application,
                 "SELECT string_agg(first_seq || '-' || last_seq, ' ' ORDER BY first_seq) FROM "
                 "dovetail.receipt"),
            "1-2 2-2");
  must(application, "DELETE FROM dovetail.outbox");
  run();
  EXPECT_EQ(number(application, "SELECT count(*) FROM dovetail.receipt"), 0);
}

// Also where no relay reads the outbox.
TEST_F(Maintenance, ReceiptsOfATableOfTheApplicationGoByTheirTime) {
  must(application,
       "INSERT INTO dovetail.relay_lane (relay, lane, lanes, source) VALUES ('rows', 0, 1, "
       "'mapped'); INSERT INTO dovetail.receipt (relay, owner, first_bucket, last_bucket, "
       "first_seq, last_seq, events, places) SELECT 'rows', 'x', 0, 255, at, at, days, '' FROM "
       "(SELECT days, (EXTRACT(epoch FROM now() - days * interval '1 day') * 1000000)::int8 AS at "
       "FROM unnest(ARRAY[1, 29, 31, 1000]) AS days) AS each");
  MaintenanceOptions options;
  options.events_older_than = std::chrono::hours(24 * 365);
  ASSERT_TRUE(maintain(database.conninfo, options));
  EXPECT_EQ(text(application,
                 "SELECT string_agg(events::text, ' ' ORDER BY events) FROM "
                 "dovetail.receipt"),
            "1 29");
}

TEST_F(Maintenance, KeepsWhatOneOfTheRelaysHasNotPassed) {
  publish_old(20);
  relay_all(1);
  must(application, "INSERT INTO dovetail.relay_lane (relay, lane, lanes) VALUES ('slow', 0, 1)");
  MaintenanceReport report = run();
  EXPECT_TRUE(report.dropped.empty());
  EXPECT_TRUE(std::any_of(report.notes.begin(), report.notes.end(), [](const std::string& note) {
    return contains(note, "has not passed");
  }));
  relay_all(1, "slow");
  EXPECT_EQ(run().dropped.size(), 1u);
}

TEST_F(Maintenance, EventThatComesLateIntoAnOldPartitionIsKept) {
  publish_old(20);
  relay_all(1);
  publish_old(20);
  EXPECT_TRUE(run().dropped.empty());
  EXPECT_EQ(rows(), 2);
}

TEST_F(Maintenance, TakesNothingAwayBeforeARelayHasRun) {
  publish_old(20);
  const MaintenanceReport report = run();
  EXPECT_TRUE(report.dropped.empty());
  EXPECT_EQ(rows(), 1);
  EXPECT_TRUE(std::any_of(report.notes.begin(), report.notes.end(), [](const std::string& note) {
    return contains(note, "no relay has ever read");
  }));
}

TEST_F(Maintenance, RelayThatHasNotRunSinceARestoreHoldsEverything) {
  publish_old(20);
  relay_all(1);
  must(application, "UPDATE dovetail.relay_lane SET system_identifier = 42");
  const MaintenanceReport report = run();
  EXPECT_TRUE(report.dropped.empty());
  EXPECT_TRUE(std::any_of(report.notes.begin(), report.notes.end(),
                          [](const std::string& note) { return contains(note, "restored"); }));
}

TEST_F(Maintenance, LaneThatNeverRanHoldsEverything) {
  publish_old(20);
  relay_all(1);
  must(application, "INSERT INTO dovetail.relay_lane (relay, lane, lanes) VALUES ('half', 0, 2)");
  EXPECT_TRUE(run().dropped.empty());
}

TEST_F(Maintenance, RelaysOfMappedTablesHoldNothing) {
  publish_old(20);
  relay_all(1);
  must(application,
       "INSERT INTO dovetail.relay_lane (relay, lane, lanes, source) VALUES ('mapped', 0, 1, "
       "'mapped')");
  EXPECT_EQ(run().dropped.size(), 1u);
}

TEST_F(Maintenance, NeverMakesPublishersWait) {
  publish_old(20);
  relay_all(1);
  // Somebody publishes in a long transaction.
  Connection slow = database.connect();
  must(slow, "BEGIN; SELECT dovetail.publish('order', '1', 'placed', '{}'::jsonb)");
  const auto begin = std::chrono::steady_clock::now();
  MaintenanceReport report = run();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 20s);
  EXPECT_TRUE(report.dropped.empty());
  EXPECT_TRUE(std::any_of(report.notes.begin(), report.notes.end(),
                          [](const std::string& note) { return contains(note, "next run"); }));
  must(slow, "COMMIT");
  EXPECT_EQ(run().dropped.size(), 1u);
}

TEST_F(Maintenance, CleansTheDefaultPartitionInSteps) {
  must(application,
       "INSERT INTO dovetail.outbox (id, aggregate_type, aggregate_id, type, payload, created_at) "
       "SELECT gen_random_uuid(), 'order', i::text, 'placed', '{}', now() - CASE WHEN i <= 25 THEN "
       "interval '20 days' ELSE interval '1 day' END FROM generate_series(1, 30) AS i");
  MaintenanceOptions options;
  options.batch_max = 10;
  run(options);
  EXPECT_EQ(rows(), 30);  // nobody has read them
  relay_all(30);
  options.rows_max = 10;
  MaintenanceReport report = run(options);
  EXPECT_FALSE(report.finished);
  EXPECT_EQ(report.outbox, 10u);
  options.rows_max = 1'000'000;
  report = run(options);
  EXPECT_TRUE(report.finished);
  EXPECT_EQ(report.outbox, 15u);
  EXPECT_EQ(rows(), 5);
}

TEST_F(Maintenance, ForgetsFinishedParkedEventsAndOldAudit) {
  must(
      application,
      "INSERT INTO dovetail.parked (relay, id, position, topic, aggregate_type, aggregate_id, "
      "type, "
      "content_type, headers, payload, aggregate_version, created_at, state, attempts, reason, "
      "retry_at, finished_at) SELECT 'relay', gen_random_uuid(), i, '', 'o', 'k', 't', 'c', '', "
      "'', 0, now(), CASE i WHEN 3 THEN 'parked' ELSE 'delivered' END, 0, '', now(), CASE i WHEN 1 "
      "THEN now() - interval '200 days' WHEN 2 THEN now() END FROM generate_series(1, 3) AS i; "
      "INSERT INTO dovetail.audit (at, what) VALUES (now() - interval '2 years', 'x'), (now(), "
      "'y')");
  const MaintenanceReport report = run();
  EXPECT_EQ(report.parked, 1u);
  EXPECT_EQ(report.audit, 1u);
  EXPECT_EQ(number(application, "SELECT count(*) FROM dovetail.parked"), 2);
}

TEST_F(Maintenance, RefusesOptionsThatMakeNoSense) {
  MaintenanceOptions options;
  options.partition_span = 90min;
  EXPECT_TRUE(failed_with(maintain(database.conninfo, options), Errc::rejected));
  options = {};
  options.batch_max = 0;
  EXPECT_TRUE(failed_with(maintain(database.conninfo, options), Errc::rejected));
}

}  // namespace
}  // namespace dovetail::postgres
