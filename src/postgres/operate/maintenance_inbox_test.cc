#include <algorithm>
#include <optional>
#include <thread>

#include "core/inbox/forgotten.h"
#include "dovetail/postgres.h"
#include "dovetail/postgres_consumer.h"
#include "host/host.h"
#include "kit/ids.h"
#include "postgres/operate/admin.h"
#include "postgres/operate/maintenance.h"
#include "postgres/schema/schema.h"
#include "postgres/testing/test_database.h"

namespace dovetail::postgres {
namespace {

using namespace std::chrono_literals;

EventId id_of(int days, int version = 7) { return id_at(days_ago(system_clock(), days), version); }

class InboxMaintenance : public ::testing::Test {
 protected:
  InboxMaintenance() {
    const Status made = create_schema(application);
    EXPECT_TRUE(made) << text_of(made);
    must(application, "INSERT INTO dovetail.consumer (name) VALUES ('stock')");
  }
  MaintenanceReport run(const MaintenanceOptions& options = {}) {
    const Result<MaintenanceReport> report = maintain(database.conninfo, options);
    EXPECT_TRUE(report) << text_of(report);
    return report.value_or(MaintenanceReport{});
  }
  // The partition of the day so many days ago.
  void make_partition(int days) {
    const auto bound = [](int of) {
      return "(rpad(lpad(to_hex((extract(epoch FROM date_trunc('day', now() - interval '" +
             std::to_string(of) + " days')) * 1000)::bigint), 12, '0'), 32, '0'))::uuid";
    };
    must(application, "DO $$ BEGIN EXECUTE format('CREATE TABLE dovetail.inbox_old" +
                          std::to_string(days) +
                          " PARTITION OF dovetail.inbox FOR VALUES FROM (%L) TO (%L)', " +
                          bound(days) + ", " + bound(days - 1) + "); END $$");
  }
  void apply(const EventId& id, int days_ago) {
    must(application, "INSERT INTO dovetail.inbox (event_id, consumer_id, applied_at) VALUES ('" +
                          id.to_string() + "', 1, now() - interval '" + std::to_string(days_ago) +
                          " days')");
  }
  bool remembers(const EventId& id) {
    return number(application, "SELECT count(*) FROM dovetail.inbox WHERE event_id = '" +
                                   id.to_string() + "'") == 1;
  }
  // In days; none: nothing.
  std::optional<std::int64_t> forgotten() {
    if (number(application,
               "SELECT count(*) FROM dovetail.inbox_state WHERE isfinite(forgotten_before)") == 0)
      return std::nullopt;
    return number(application,
                  "SELECT round(extract(epoch FROM now() - forgotten_before) / 86400) FROM "
                  "dovetail.inbox_state");
  }
  static WallTime forgotten_until(Connection& connection) {
    const Result<Rows> line =
        connection.query("SELECT until FROM dovetail.forgetting WHERE consumer_id = 1");
    EXPECT_TRUE(line) << text_of(line);
    return line->timestamptz(0, 0);
  }
  static bool noted(const MaintenanceReport& report, std::string_view part) {
    return std::any_of(report.notes.begin(), report.notes.end(),
                       [&](const std::string& note) { return contains(note, part); });
  }
  // Of another session than the one that asks.
  bool somebody_waits_for(const std::string& statement) {
    return number(application,
                  "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND "
                  "wait_event_type = 'Lock' AND query LIKE '%" +
                      statement + "%' AND pid <> pg_backend_pid()") > 0;
  }

  TestDatabase database;
  Connection application = database.connect();
};

TEST_F(InboxMaintenance, PartitionsAreMadeAheadAndTakeWhatIsApplied) {
  run();
  EXPECT_TRUE(run().created.empty());
  apply(id_of(0), 0);
  EXPECT_TRUE(contains(text(application, "SELECT tableoid::regclass::text FROM dovetail.inbox"),
                       "dovetail.inbox_p"));
}

TEST_F(InboxMaintenance, WhatIsOldIsDroppedAndKnownAsForgotten) {
  make_partition(60);
  make_partition(20);
  const EventId old = id_of(60);
  const EventId young = id_of(20);
  apply(old, 60);
  apply(young, 20);
  EXPECT_EQ(run().dropped, std::vector<std::string>{"inbox_old60"});
  EXPECT_FALSE(remembers(old));
  EXPECT_TRUE(remembers(young));
  EXPECT_EQ(forgotten(), 30);
  Event event;
  event.id = old;
  EXPECT_TRUE(is_forgotten(event, forgotten_until(application)));
  event.id = id_of(59);
  EXPECT_FALSE(is_forgotten(event, forgotten_until(application))) << "nothing so young was there";
}

TEST_F(InboxMaintenance, NothingIsForgottenWhenNothingWasRemembered) {
  make_partition(60);
  apply(id_of(1), 1);
  EXPECT_EQ(run().dropped, std::vector<std::string>{"inbox_old60"});
  EXPECT_FALSE(forgotten());
}

TEST_F(InboxMaintenance, WhatWasForgottenStaysForgottenWhenTheRetentionGrows) {
  make_partition(60);
  make_partition(200);
  apply(id_of(60), 60);
  run();
  apply(id_of(200), 200);
  MaintenanceOptions options;
  options.inbox_older_than = std::chrono::hours(24 * 100);
  run(options);
  EXPECT_EQ(forgotten(), 30);
}

// A new consumer reads what is old, and may get it again tomorrow.
TEST_F(InboxMaintenance, AnOldEventThatWasAppliedNotLongAgoIsRemembered) {
  make_partition(60);
  const EventId old = id_of(60);
  apply(id_of(60), 60);
  apply(old, 1);
  MaintenanceReport report = run();
  EXPECT_TRUE(report.dropped.empty());
  EXPECT_TRUE(noted(report, "not long ago"));
  EXPECT_TRUE(remembers(old));
  EXPECT_FALSE(forgotten());
}

TEST_F(InboxMaintenance, TheDefaultPartitionIsCleanedInSteps) {
  for (int i = 0; i < 25; ++i) apply(id_of(0, 4), 40);
  const EventId recent = id_of(40, 4);
  const EventId of_a_wrong_clock = id_of(-100);
  apply(recent, 29);
  apply(of_a_wrong_clock, 40);
  MaintenanceOptions options;
  options.ahead = 0h;
  options.batch_max = 10;
  options.rows_max = 10;
  MaintenanceReport report = run(options);
  EXPECT_FALSE(report.finished);
  EXPECT_EQ(report.inbox, 10u);
  EXPECT_EQ(forgotten(), 30);
  options.rows_max = 1'000'000;
  report = run(options);
  EXPECT_TRUE(report.finished);
  EXPECT_EQ(report.inbox, 15u);
  EXPECT_TRUE(remembers(recent));
  EXPECT_TRUE(remembers(of_a_wrong_clock)) << "its event would not be known as forgotten";
}

TEST_F(InboxMaintenance, AConsumerOfOldEventsIsNotMadeToWait) {
  make_partition(60);
  apply(id_of(60), 60);
  Connection consumer = database.connect();
  const EventId late = id_of(60);
  must(consumer, "BEGIN; INSERT INTO dovetail.inbox (event_id, consumer_id) VALUES ('" +
                     late.to_string() + "', 1)");
  const MaintenanceReport report = run();
  EXPECT_TRUE(report.dropped.empty());
  EXPECT_TRUE(noted(report, "next run"));
  EXPECT_FALSE(forgotten());
  must(consumer, "COMMIT");
  EXPECT_TRUE(remembers(late));
}

// Holds maintain() between the row that says what is forgotten and the rows themselves.
class InTheMiddle : public InboxMaintenance {
 protected:
  InTheMiddle() {
    make_partition(60);
    apply(old, 60);
    must(reader, "BEGIN; SELECT count(*) FROM dovetail.inbox_old60");
    options.lock_timeout = 60s;
    janitor = std::thread([this] { done = maintain(database.conninfo, options).has_value(); });
    EXPECT_TRUE(eventually([this] { return somebody_waits_for("ACCESS EXCLUSIVE"); }));
  }
  ~InTheMiddle() override {
    if (janitor.joinable()) janitor.join();
  }

  const EventId old = id_of(60);
  MaintenanceOptions options;
  Connection reader = database.connect();
  bool done = false;
  std::thread janitor;
};

TEST_F(InTheMiddle, WhoWaitsForTheDeletionSeesThatTheEventIsForgotten) {
  Connection consumer = database.connect();
  must(consumer, "BEGIN");
  std::int64_t inserted = -1;
  std::thread insert([&] {
    const Result<Rows> rows = consumer.query(
        "INSERT INTO dovetail.inbox (event_id, consumer_id) VALUES ($1, 1) ON CONFLICT DO NOTHING",
        Params().uuid(old));
    if (rows) inserted = rows->affected();
  });
  EXPECT_TRUE(eventually([this] { return somebody_waits_for("INSERT INTO dovetail.inbox"); }));
  must(reader, "COMMIT");
  insert.join();
  EXPECT_EQ(inserted, 1) << "its row was gone";
  Event event;
  event.id = old;
  EXPECT_TRUE(is_forgotten(event, forgotten_until(consumer)));
  must(consumer, "ROLLBACK");
  janitor.join();
  EXPECT_TRUE(done);
}

TEST_F(InTheMiddle, DyingThereLosesNothingAndForgetsNothing) {
  must(application,
       "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() "
       "AND wait_event_type = 'Lock' AND query LIKE '%ACCESS EXCLUSIVE%'");
  janitor.join();
  EXPECT_FALSE(done);
  must(reader, "COMMIT");
  EXPECT_FALSE(forgotten());
  EXPECT_TRUE(remembers(old));
  EXPECT_EQ(run().dropped.size(), 1u) << "the next does it";
  EXPECT_EQ(forgotten(), 30);
}

TEST_F(InboxMaintenance, OldAttemptsGo) {
  must(application,
       "INSERT INTO dovetail.attempt (event_id, consumer_id, attempts, updated_at) SELECT "
       "gen_random_uuid(), 1, 1, now() - i * interval '20 days' FROM generate_series(0, 3) AS i");
  EXPECT_EQ(run().attempts, 2u);
  EXPECT_EQ(number(application, "SELECT count(*) FROM dovetail.attempt"), 2);
}

TEST_F(InboxMaintenance, ClaimsThatNobodyWantsGoAndThoseThatAreHeldStay) {
  for (const char* lease : {"1 microsecond", "1 hour"})
    must(application, "SELECT dovetail.claim('mail', gen_random_uuid(), '" + std::string(lease) +
                          "'::interval)");
  must(application,
       "SELECT dovetail.release('mail', c.event_id, c.epoch) FROM (SELECT gen_random_uuid() AS id) "
       "AS e, LATERAL (SELECT e.id AS event_id, k.epoch FROM dovetail.claim('mail', e.id, '1 "
       "hour'::interval) AS k) AS c");
  EXPECT_EQ(number(application, "SELECT count(*) FROM dovetail.claim"), 3);
  EXPECT_EQ(run().claims, 0u) << "not long ago";
  must(application,
       "UPDATE dovetail.claim SET expires = expires - interval '40 days' WHERE expires < now()");
  EXPECT_EQ(run().claims, 2u);
  EXPECT_EQ(number(application, "SELECT count(*) FROM dovetail.claim WHERE expires > now()"), 1);
}

TEST_F(InboxMaintenance, StatusTellsWhatConsumersDid) {
  must(application,
       "INSERT INTO dovetail.consumer_session (consumer_id, session, clean, applied, duplicates, "
       "superseded) VALUES (1, 0, true, 5, 2, 1), (1, 1, false, 6, 0, 0); INSERT INTO "
       "dovetail.attempt (event_id, consumer_id, attempts) VALUES (gen_random_uuid(), 1, 3)");
  must(application, "SELECT dovetail.claim('stock', gen_random_uuid(), '1 hour'::interval)");
  const Result<StoreStatus> found = status(database.conninfo);
  ASSERT_TRUE(found) << text_of(found);
  ASSERT_EQ(found->consumers.size(), 1u);
  const ConsumerStatus& stock = found->consumers[0];
  EXPECT_EQ(stock.name, "stock");
  EXPECT_EQ(stock.applied, 11u);
  EXPECT_EQ(stock.duplicates, 2u);
  EXPECT_EQ(stock.superseded, 1u);
  EXPECT_EQ(stock.trying, 1u);
  EXPECT_EQ(stock.claims, 1u);
  EXPECT_FALSE(stock.clean);
}

TEST_F(InboxMaintenance, RequestsGoWhenTheyExpire) {
  must(application,
       "SELECT dovetail.begin_request('shop', k, 'x', '1 hour') FROM unnest(ARRAY['old', 'new']) "
       "AS k; UPDATE dovetail.request SET status = 200, expires_at = now() WHERE key = 'old'");
  EXPECT_EQ(run().requests, 1u);
  EXPECT_EQ(text(application, "SELECT key FROM dovetail.request"), "new");
}

// A machine whose wall clock is not that of the database.
class OtherClock final : public Clock {
 public:
  TimePoint now() override { return system_clock().now() + passed; }
  WallTime wall() override { return system_clock().wall() + ahead; }
  void sleep(Duration, std::stop_token) override {}
  Duration ahead{};
  Duration passed{};
};

TEST_F(InboxMaintenance, NothingIsDeletedWhileDatabaseAndMachineDisagreeAboutTheTime) {
  make_partition(20);
  apply(id_of(20), 20);
  MaintenanceOptions options;
  options.inbox_older_than = 24h * 21;
  OtherClock clock;
  for (const Duration ahead : {Duration(50h), Duration(-50h), Duration(2h), Duration(-2h)}) {
    clock.ahead = ahead;
    const Result<MaintenanceReport> report = maintain(database.conninfo, options, clock);
    ASSERT_TRUE(failed_with(report, Errc::unavailable)) << text_of(report);
    EXPECT_TRUE(contains(text_of(report), "the database's clock shows 20")) << text_of(report);
  }
  clock.ahead = 30min;
  EXPECT_TRUE(maintain(database.conninfo, options, clock));
  EXPECT_FALSE(forgotten());
}

// The database's clock makes a step while the machine's steady clock does not.
TEST_F(InboxMaintenance, AStepOfTheDatabasesClockForgetsNothing) {
  make_partition(20);
  apply(id_of(20), 20);
  run();
  must(application, "UPDATE dovetail.clock_mark SET wall = wall - interval '50 hours'");
  MaintenanceOptions options;
  options.inbox_older_than = 24h * 15;
  const Result<MaintenanceReport> report = maintain(database.conninfo, options);
  ASSERT_TRUE(failed_with(report, Errc::unavailable)) << text_of(report);
  EXPECT_TRUE(contains(text_of(report), "the clock was set")) << text_of(report);
  EXPECT_FALSE(forgotten());
  EXPECT_TRUE(remembers(id_of(20)) ||
              number(application, "SELECT count(*) FROM dovetail.inbox") == 1);
  OtherClock later;
  later.passed = 61min;
  must(application,
       "UPDATE dovetail.clock_mark SET doubted_wall = doubted_wall - interval '1 hour'");
  EXPECT_TRUE(maintain(database.conninfo, options, later)) << "it has run evenly for an hour";
  EXPECT_TRUE(forgotten());
}

// Both clocks agree, as where the database runs on the machine that prunes, and are two days off
// since it was started.
TEST_F(InboxMaintenance, AClockThatIsWrongAfterAStartForgetsNothing) {
  make_partition(20);
  apply(id_of(20), 20);
  MaintenanceOptions options;
  options.inbox_older_than = 24h * 15;
  for (const std::string off : {"-48 hours", "48 hours"}) {
    must(application,
         "TRUNCATE dovetail.clock_mark; INSERT INTO dovetail.clock_mark VALUES "
         "('the one before', clock_timestamp() + interval '" +
             off + "', 1)");
    const Result<MaintenanceReport> report = maintain(database.conninfo, options);
    ASSERT_TRUE(failed_with(report, Errc::unavailable)) << text_of(report);
    EXPECT_TRUE(contains(text_of(report), "first check after the start")) << text_of(report);
    EXPECT_FALSE(maintain(database.conninfo, options)) << "and the second";
    EXPECT_FALSE(forgotten());
  }
  OtherClock later;
  later.passed = 61min;
  must(application,
       "UPDATE dovetail.clock_mark SET doubted_wall = doubted_wall - interval '1 hour'");
  EXPECT_TRUE(maintain(database.conninfo, options, later)) << "it has run evenly for an hour";
  EXPECT_TRUE(forgotten());
}

TEST_F(InboxMaintenance, AClockThatAnotherMachineDoubtsForgetsNothing) {
  make_partition(20);
  apply(id_of(20), 20);
  must(
      application,
      "INSERT INTO dovetail.clock_mark VALUES ('another', clock_timestamp() - interval '20 hours', "
      "1, clock_timestamp() - interval '10 minutes', 2)");
  MaintenanceOptions options;
  options.inbox_older_than = 24h * 15;
  const Result<MaintenanceReport> report = maintain(database.conninfo, options);
  EXPECT_TRUE(failed_with(report, Errc::unavailable)) << text_of(report);
  EXPECT_FALSE(forgotten());
  must(application,
       "UPDATE dovetail.clock_mark SET doubted_wall = doubted_wall - interval '1 hour' WHERE boot "
       "= 'another'");
  EXPECT_TRUE(maintain(database.conninfo, options)) << "it was found so an hour later, too";
  EXPECT_TRUE(forgotten());
  EXPECT_EQ(number(application, "SELECT count(*) FROM dovetail.clock_mark"), 1)
      << "the doubt is settled";
}

TEST_F(InboxMaintenance, WhatCameWhileAConsumerStoodStillIsNotForgotten) {
  make_partition(60);
  make_partition(40);
  apply(id_of(60), 60);
  run();
  Event pending;
  pending.id = id_of(40);
  EXPECT_FALSE(is_forgotten(pending, forgotten_until(application)))
      << "nothing of this time was ever applied here";
  EXPECT_EQ(number(application,
                   "SELECT dovetail.is_forgotten(1, '" + pending.id.to_string() + "', NULL)::int"),
            0);
}

TEST_F(InboxMaintenance, AParkedEventThatWasNotAppliedMayBeReplayedAtAnyAge) {
  make_partition(60);
  const EventId parked = id_of(60);
  const EventId applied = id_of(60);
  apply(applied, 60);
  for (const EventId& id : {parked, applied})
    must(application,
         "INSERT INTO dovetail.parked (relay, id, position, topic, aggregate_type, aggregate_id, "
         "type, content_type, headers, payload, aggregate_version, created_at, state, attempts, "
         "reason, retry_at) VALUES ('stock', '" +
             id.to_string() +
             "', 1, '', 'order', '1', 'placed', '', '', '{}', 0, now() - interval '60 days', "
             "'waiting', 0, '', now())");
  run();
  const auto is_forgotten_now = [&](const EventId& id) {
    return number(application,
                  "SELECT dovetail.is_forgotten(1, '" + id.to_string() + "', NULL)::int");
  };
  EXPECT_EQ(is_forgotten_now(parked), 0);
  EXPECT_EQ(is_forgotten_now(applied), 1) << "it was applied, and its row is gone";
  run();
  EXPECT_EQ(is_forgotten_now(parked), 0);
}

TEST_F(InboxMaintenance, AnEventOfWhichItIsNotedThatItWasNotAppliedIsForgottenWhenItWas) {
  make_partition(60);
  const EventId id = id_of(60);
  must(application, "INSERT INTO dovetail.unapplied (event_id, consumer_id) VALUES ('" +
                        id.to_string() + "', 1)");
  apply(id, 60);
  run();
  EXPECT_EQ(
      number(application, "SELECT dovetail.is_forgotten(1, '" + id.to_string() + "', NULL)::int"),
      1);
}

// An older program moves the one line for all consumers, and nothing else.
TEST_F(InboxMaintenance, WhatAnOlderProgramHasDeletedCountsAsForgotten) {
  must(application,
       "UPDATE dovetail.consumer SET created_at = now() - interval '90 days'; UPDATE "
       "dovetail.inbox_state SET forgotten_before = now() - interval '30 days'; INSERT INTO "
       "dovetail.unapplied (event_id, consumer_id) VALUES ('" +
           id_of(40).to_string() + "', 1)");
  Event old;
  old.id = id_of(40);
  Event young;
  young.id = id_of(20);
  for (int round = 0; round < 2; ++round) {
    EXPECT_TRUE(is_forgotten(old, forgotten_until(application))) << round;
    EXPECT_FALSE(is_forgotten(young, forgotten_until(application))) << round;
    run();
  }
  EXPECT_EQ(number(application, "SELECT count(*) FROM dovetail.unapplied"), 0)
      << "nobody knows whether it was applied since";
}

TEST_F(InboxMaintenance, AnOperatorRepairsWhatAWrongClockHasForgotten) {
  must(application,
       "UPDATE dovetail.consumer SET created_at = now() - interval '90 days', forgotten_until = "
       "now() + interval '26 hours'; UPDATE dovetail.inbox_state SET forgotten_before = now() + "
       "interval '26 hours', exact_before = now() + interval '26 hours'");
  Event fresh;
  fresh.id = id_of(0);
  ASSERT_TRUE(is_forgotten(fresh, forgotten_until(application)));
  const WallTime since = system_clock().wall() - 1h;
  EXPECT_TRUE(failed_with(remember_since(database.conninfo, since, " "), Errc::rejected));
  const Result<WallTime> before = remember_since(database.conninfo, since, "the clock was wrong");
  ASSERT_TRUE(before) << text_of(before);
  EXPECT_GT(*before, system_clock().wall() + 25h);
  EXPECT_FALSE(is_forgotten(fresh, forgotten_until(application)));
  fresh.id = id_of(1);
  EXPECT_TRUE(is_forgotten(fresh, forgotten_until(application))) << "what is older stays so";
  EXPECT_TRUE(failed_with(remember_since(database.conninfo, since + 1h, "again"), Errc::rejected))
      << "it never forgets more";
  const auto audit = list_audit(database.conninfo);
  ASSERT_TRUE(audit);
  EXPECT_EQ(audit->at(0).what, "remember");
  EXPECT_EQ(audit->at(0).reason, "the clock was wrong");
}

TEST_F(InboxMaintenance, AnOperatorWhoHasCheckedHasAnOldEventApplied) {
  must(application, "UPDATE dovetail.consumer SET forgotten_until = now() - interval '30 days'");
  const EventId old = id_of(60);
  const std::string asked = "SELECT dovetail.is_forgotten(1, '" + old.to_string() + "', NULL)::int";
  ASSERT_EQ(number(application, asked), 1);
  EXPECT_TRUE(failed_with(apply_event(database.conninfo, "stock", old, ""), Errc::rejected));
  EXPECT_FALSE(apply_event(database.conninfo, "stok", old, "checked")) << "a wrong name";
  ASSERT_EQ(apply_event(database.conninfo, "stock", old, "no booking is there").value_or(0), 1U);
  EXPECT_EQ(number(application, asked), 0);
  EXPECT_EQ(list_audit(database.conninfo)->at(0).what, "apply");
  apply(old, 0);
  EXPECT_EQ(apply_event(database.conninfo, "stock", old, "again").value_or(9), 0U)
      << "it has applied it";
}

// The whole road: published, applied, forgotten, delivered again.
class Redelivery : public InboxMaintenance, public ::testing::WithParamInterface<bool> {
 protected:
  void run_until(const std::function<bool()>& holds) {
    std::vector<NamedHandler> handlers(1);
    handlers[0].each = [](Invocation& invocation, const Event&) {
      return invocation.queue("INSERT INTO effect VALUES (1)");
    };
    const auto consumer =
        Consumer::open({.database = database.conninfo, .name = "stock"}, std::move(handlers));
    ASSERT_TRUE(consumer) << text_of(consumer);
    std::jthread thread([&](std::stop_token stop) { EXPECT_TRUE((*consumer)->run(stop)); });
    EXPECT_TRUE(eventually(holds));
  }
  std::int64_t effects() { return number(application, "SELECT count(*) FROM effect"); }
};

TEST_P(Redelivery, AfterPruningIsParkedAndNotAppliedAgain) {
  const bool in_a_partition = GetParam();
  if (in_a_partition) make_partition(60);
  must(application, "CREATE TABLE effect (n int)");
  must(application, "SELECT dovetail.publish('order', '1', 'placed', '{}'::jsonb, id => '" +
                        id_of(60).to_string() + "')");
  must(application, "UPDATE dovetail.outbox SET created_at = now() - interval '60 days'");
  run_until([&] { return effects() == 1; });
  must(application,
       "UPDATE dovetail.inbox SET applied_at = now() - interval '60 days'; UPDATE "
       "dovetail.consumer SET created_at = now() - interval '60 days'");
  MaintenanceOptions options;
  options.events_older_than = 24h * 365;  // the outbox still has it
  const MaintenanceReport report = run(options);
  EXPECT_EQ(report.dropped.size(), in_a_partition ? 1u : 0u);
  EXPECT_EQ(report.inbox, in_a_partition ? 0u : 1u);
  must(application, "DELETE FROM dovetail.relay_lane");  // it begins again
  run_until([&] { return number(application, "SELECT count(*) FROM dovetail.parked") == 1; });
  EXPECT_TRUE(contains(text(application, "SELECT reason FROM dovetail.parked"),
                       "older than what the inbox"));
  EXPECT_EQ(effects(), 1);
}

INSTANTIATE_TEST_SUITE_P(OfARow, Redelivery, ::testing::Bool(), [](const auto& param) {
  return param.param ? "InAPartition" : "InTheDefaultPartition";
});

}  // namespace
}  // namespace dovetail::postgres
