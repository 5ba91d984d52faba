// What becomes of an event that comes again after its inbox row was deleted.
#include "dovetail/sqlite.h"
#include "kit/ids.h"
#include "sqlite/inbox/consumer_row.h"
#include "sqlite/inbox/inbox_store.h"
#include "sqlite/testing/test_file.h"
#include "sqlite/work/claims.h"
#include "sqlite/work/requests.h"

namespace dovetail::sqlite {
namespace {

using namespace std::chrono_literals;

class PrunedInbox : public ::testing::Test {
 protected:
  PrunedInbox() {
    application.run("CREATE TABLE effect (n INTEGER)");
    EXPECT_TRUE(store.open());
  }
  Event event_of(int days, int version = 7) {
    Event event = make_event("k", 1);
    event.id = id_at(days_ago(clock, days), version);
    event.created_at = days_ago(clock, days);
    return event;
  }
  Arrival apply(SqliteInboxStore& to, const Event& event) {
    Arrival arrival = Arrival::duplicate;
    const Event* const one[] = {&event};
    EXPECT_TRUE(to.begin());
    EXPECT_TRUE(to.insert(one, {&arrival, 1}));
    if (arrival == Arrival::first) {
      EXPECT_TRUE(to.apply(one));
    }
    EXPECT_TRUE(to.commit(arrival == Arrival::first ? 1 : 0, 0));
    return arrival;
  }
  // As if the consumer had begun, and applied everything, so long ago.
  void age(int days) {
    const std::string at = std::to_string(to_stored(days_ago(clock, days)));
    application.run("UPDATE dovetail_inbox SET applied_at = " + at);
    application.run("UPDATE dovetail_consumer SET created_at = " + at);
    EXPECT_TRUE(store.open());
  }
  PruneReport prune_all(const PruneOptions& options = {}) {
    const Result<PruneReport> report = prune(file.path, options, clock);
    EXPECT_TRUE(report) << text_of(report);
    return report.value_or(PruneReport{});
  }
  std::int64_t rows() { return application.number("SELECT count(*) FROM dovetail_inbox"); }
  std::int64_t effects() { return application.number("SELECT count(*) FROM effect"); }

  TestFile file;
  Application application{file.path};
  Clock& clock = system_clock();
  Handler handler = [](sqlite3* transaction, const Event&) -> Status {
    sqlite3_exec(transaction, "INSERT INTO effect VALUES (1)", nullptr, nullptr, nullptr);
    return {};
  };
  SqliteInboxStore store{file.path, "billing", handler, clock};
};

TEST_F(PrunedInbox, AnEventThatComesAgainIsForgottenAndGetsNoRow) {
  const Event of_version_7 = event_of(60);
  const Event of_no_time = event_of(60, 4);
  EXPECT_EQ(apply(store, of_version_7), Arrival::first);
  EXPECT_EQ(apply(store, of_no_time), Arrival::first);
  age(60);
  EXPECT_EQ(apply(store, of_version_7), Arrival::duplicate);
  EXPECT_EQ(prune_all().inbox, 2u);
  EXPECT_EQ(apply(store, of_version_7), Arrival::forgotten);
  EXPECT_EQ(apply(store, of_no_time), Arrival::forgotten);
  EXPECT_EQ(rows(), 0);
  EXPECT_EQ(effects(), 2);
  EXPECT_EQ(apply(store, event_of(29)), Arrival::first) << "what is young enough goes on";
}

TEST_F(PrunedInbox, NothingIsForgottenWhenNothingWasDeleted) {
  apply(store, event_of(10));
  age(10);
  prune_all();
  EXPECT_EQ(apply(store, event_of(60)), Arrival::first);
}

TEST_F(PrunedInbox, AConsumerThatBeganLaterMayReadWhatIsOld) {
  const Event event = event_of(60);
  apply(store, event);
  age(60);
  prune_all();
  SqliteInboxStore reports(file.path, "reports", handler, clock);
  ASSERT_TRUE(reports.open());
  EXPECT_EQ(apply(reports, event), Arrival::first);
  prune_all();
  EXPECT_EQ(apply(reports, event), Arrival::duplicate) << "applied not long ago, it is remembered";
}

TEST_F(PrunedInbox, ARowStaysWhoseEventWouldNotBeKnownAsForgotten) {
  apply(store, event_of(-100));  // by a clock that is wrong
  const Event of_no_time = event_of(30, 4);
  apply(store, of_no_time);
  age(31);
  const std::string at = std::to_string(to_stored(days_ago(clock, 30) - 30min));
  // As rows of an older version are, which do not say when the event came to be.
  application.run("UPDATE dovetail_inbox SET digest = NULL, available_at = NULL, applied_at = " +
                  at + " WHERE substr(hex(event_id), 13, 1) = '4'");
  EXPECT_EQ(prune_all().inbox, 0u);
  EXPECT_EQ(rows(), 2);
}

TEST_F(PrunedInbox, AClaimOfAForgottenEventIsRefusedAndLeavesNoRow) {
  const EventId id = event_of(60).id;
  application.run("BEGIN");
  ASSERT_EQ(claim(application.connection, "own loop", id).value(), Claim::State::first);
  application.run("COMMIT");
  age(60);
  prune_all();
  application.run("BEGIN");
  const Result<Claim::State> again = claim(application.connection, "own loop", id);
  EXPECT_TRUE(failed_with(again, Errc::rejected)) << text_of(again);
  application.run("COMMIT");
  EXPECT_EQ(rows(), 0);
}

TEST_F(PrunedInbox, ALeasedClaimOfAForgottenEventSaysSo) {
  const Event event = event_of(60);
  apply(store, event);
  age(60);
  prune_all();
  SqliteClaimStore claims(file.path, "billing", clock, boot_id());
  ASSERT_TRUE(claims.open());
  const Event* const one[] = {&event};
  EXPECT_EQ(claims.claim(one, 1min)->at(0).state, Claim::State::forgotten);
  SqliteClaimStore later(file.path, "reports", clock, boot_id());
  ASSERT_TRUE(later.open());
  EXPECT_EQ(later.claim(one, 1min)->at(0).state, Claim::State::first);
}

TEST_F(PrunedInbox, ClaimsThatNobodyWantsGoAndThoseThatAreHeldStay) {
  SqliteClaimStore claims(file.path, "billing", clock, boot_id());
  ASSERT_TRUE(claims.open());
  const Event of_the_dead = make_event("a", 1);
  const Event held = make_event("b", 2);
  const Event failed = make_event("c", 3);
  const Event* const ended[] = {&of_the_dead};
  const Event* const going_on[] = {&held};
  const Event* const given_back[] = {&failed};
  ASSERT_TRUE(claims.claim(ended, 1us));
  ASSERT_TRUE(claims.claim(going_on, 24h));
  const std::int64_t epoch = claims.claim(given_back, 24h)->at(0).epoch;
  ASSERT_TRUE(claims.release({&failed.id, 1}, {&epoch, 1}, ReleaseReason::failed));
  EXPECT_EQ(prune_all().claims, 0u) << "not long ago";
  application.run("UPDATE dovetail_claim SET updated_at = 1");
  EXPECT_EQ(prune_all().claims, 2u);
  EXPECT_EQ(claims.claim(going_on, 24h)->at(0).state, Claim::State::in_progress);
}

TEST_F(PrunedInbox, EachTableHasItsOwnLimit) {
  for (int i = 0; i < 10; ++i) apply(store, event_of(60));
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(store.count_attempt(event_of(60).id, +1));
  age(60);
  application.run("UPDATE dovetail_attempt SET updated_at = 1");
  PruneOptions options;
  options.batch_max = 2;
  options.rows_max = 4;
  PruneReport report = prune_all(options);
  EXPECT_EQ(report.inbox, 4u);
  EXPECT_EQ(report.attempts, 4u);
  EXPECT_FALSE(report.finished);
  report = prune_all();
  EXPECT_EQ(report.inbox, 6u);
  EXPECT_EQ(report.attempts, 6u);
  EXPECT_TRUE(report.finished);
}

TEST_F(PrunedInbox, RequestsGoWhenTheyExpire) {
  SqliteRequestStore requests(file.path, clock, boot_id());
  ASSERT_TRUE(requests.open());
  for (const char* key : {"old", "new"}) {
    const RequestKey request{"shop", key, "fingerprint"};
    ASSERT_TRUE(requests.begin(request, {}, new_event_id()));
  }
  application.run(
      "UPDATE dovetail_request SET expires_at = 1, lease_expires = 0 WHERE key = 'old'");
  EXPECT_EQ(prune_all().requests, 1u);
  EXPECT_EQ(application.text("SELECT key FROM dovetail_request"), "new");
}

TEST_F(PrunedInbox, WhatCameWhileTheConsumerStoodStillIsNotForgotten) {
  apply(store, event_of(60));
  age(60);
  EXPECT_EQ(prune_all().inbox, 1u);
  EXPECT_EQ(apply(store, event_of(40)), Arrival::first) << "nothing of this time was ever applied";
}

TEST_F(PrunedInbox, AnEventThatWentOutLaterThanItWasMadeIsRememberedFromThen) {
  const Event first = event_of(60);
  Event delayed = event_of(60);
  delayed.created_at = days_ago(clock, 10);
  EXPECT_EQ(apply(store, first), Arrival::first);
  EXPECT_EQ(apply(store, delayed), Arrival::first);
  age(60);
  EXPECT_EQ(prune_all().inbox, 1u) << "it could come again";
  EXPECT_EQ(apply(store, delayed), Arrival::duplicate);
  delayed.id = event_of(60).id;
  EXPECT_EQ(apply(store, delayed), Arrival::first) << "it could not have been applied before";
}

TEST_F(PrunedInbox, AParkedEventThatWasNotAppliedMayBeReplayedAtAnyAge) {
  const Event applied = event_of(60);
  const Event parked = event_of(60);
  apply(store, applied);
  age(60);
  for (const Event& event : {applied, parked}) {
    Result<Statement> park = Statement::prepare(
        application.connection,
        "INSERT INTO dovetail_parked (relay, position, id, topic, aggregate_type, aggregate_id, "
        "type, content_type, headers, payload, aggregate_version, created_at, state, attempts, "
        "reason, parked_at, retry_at) VALUES ('billing', 1, ?1, '', 'order', 'k', 'placed', 'x', "
        "'', x'00', 0, ?2, 'waiting', 0, '', 1, 1)");
    ASSERT_TRUE(park) << text_of(park);
    ASSERT_TRUE(park->bind_id(1, event.id).bind(2, to_stored(event.created_at)).run());
  }
  prune_all();
  EXPECT_EQ(apply(store, applied), Arrival::forgotten);
  EXPECT_EQ(apply(store, parked), Arrival::first);
  EXPECT_EQ(apply(store, parked), Arrival::duplicate);
}

// Moves as it is told.
class SetClock final : public Clock {
 public:
  TimePoint now() override { return system_clock().now() + passed; }
  WallTime wall() override { return system_clock().wall() + passed + ahead; }
  void sleep(Duration, std::stop_token) override {}
  Duration ahead{};
  Duration passed{};
};

TEST_F(PrunedInbox, AStepOfTheClockForgetsNothingAndSaysBothTimes) {
  SetClock stepping;
  PruneOptions options;
  options.inbox_older_than = 24h;
  const Event event = event_of(0);
  apply(store, event);
  ASSERT_TRUE(prune(file.path, options, stepping));
  for (const Duration step : {Duration(50h), Duration(-50h), Duration(2h), Duration(-48h)}) {
    stepping.ahead = step;
    stepping.passed += 6s;
    const Result<PruneReport> refused = prune(file.path, options, stepping);
    EXPECT_TRUE(failed_with(refused, Errc::unavailable)) << text_of(refused);
    EXPECT_TRUE(contains(text_of(refused), "expected was")) << text_of(refused);
    stepping.ahead = 0s;
    ASSERT_TRUE(prune(file.path, options, stepping)) << "it was set back";
  }
  EXPECT_EQ(apply(store, event), Arrival::duplicate);
  EXPECT_EQ(apply(store, event_of(0)), Arrival::first);
}

// A machine that was off for a minute by the right time, and whose clock is two days off since.
TEST_F(PrunedInbox, AClockThatIsWrongAfterAStartForgetsNothing) {
  PruneOptions options;
  options.inbox_older_than = 24h;
  for (const Duration wrong_by : {Duration(48h), Duration(-48h)}) {
    SetClock clock_now;
    application.run("DELETE FROM dovetail_clock_mark");
    const Event event = event_of(0);
    apply(store, event);
    ASSERT_TRUE(prune(file.path, options, clock_now));
    application.run("UPDATE dovetail_clock_mark SET boot = 'the one before', boot_time = 1");
    clock_now.ahead = wrong_by;
    const Result<PruneReport> refused = prune(file.path, options, clock_now);
    ASSERT_TRUE(failed_with(refused, Errc::unavailable)) << text_of(refused);
    EXPECT_TRUE(contains(text_of(refused), "first check after the start")) << text_of(refused);
    clock_now.passed = 10min;
    EXPECT_FALSE(prune(file.path, options, clock_now));
    EXPECT_EQ(apply(store, event), Arrival::duplicate);
    clock_now.ahead = 0s;
    EXPECT_TRUE(prune(file.path, options, clock_now)) << "it was set right";
    application.run("UPDATE dovetail_clock_mark SET boot = 'the one before', boot_time = 1");
    clock_now.ahead = wrong_by;
    EXPECT_FALSE(prune(file.path, options, clock_now));
    clock_now.passed += 61min;
    EXPECT_TRUE(prune(file.path, options, clock_now)) << "it has run evenly for an hour";
  }
}

// As after a restart of the machine that doubts it, by a time that would be trusted otherwise.
TEST_F(PrunedInbox, AClockThatWasDoubtedBeforeAStartForgetsNothing) {
  SetClock clock_now;
  PruneOptions options;
  options.inbox_older_than = 24h;
  ASSERT_TRUE(prune(file.path, options, clock_now));
  clock_now.ahead = 20h;
  EXPECT_FALSE(prune(file.path, options, clock_now));
  application.run("UPDATE dovetail_clock_mark SET boot = 'the one before'");
  EXPECT_FALSE(prune(file.path, options, clock_now));
  clock_now.passed += 61min;
  EXPECT_TRUE(prune(file.path, options, clock_now));
}

TEST_F(PrunedInbox, AStepOfTheClockNeitherEndsAClaimNorProlongsIt) {
  SetClock stepping;
  SqliteClaimStore claims(file.path, "billing", stepping, boot_id());
  ASSERT_TRUE(claims.open());
  const Event event = event_of(0);
  const Event* const one[] = {&event};
  ASSERT_EQ(claims.claim(one, 1h)->at(0).state, Claim::State::first);
  for (const Duration step : {Duration(1h), Duration(-1h), Duration(48h), Duration(-48h)}) {
    stepping.ahead = step;
    EXPECT_EQ(claims.claim(one, 1h)->at(0).state, Claim::State::in_progress) << step.count();
  }
  stepping.passed += 61min;
  EXPECT_EQ(claims.claim(one, 1h)->at(0).state, Claim::State::first) << "by the time that passed";
}

TEST_F(PrunedInbox, AStepOfTheClockForgetsNoRequest) {
  SetClock stepping;
  SqliteRequestStore requests(file.path, stepping, boot_id());
  ASSERT_TRUE(requests.open());
  ASSERT_TRUE(requests.begin({"shop", "key", "fingerprint"}, {}, new_event_id()));
  application.run("UPDATE dovetail_request SET status = 200, lease_expires = 0");
  ASSERT_TRUE(prune_requests(file.path, 10, stepping, boot_id()));
  stepping.ahead = 24h * 365;
  const Result<std::uint64_t> refused = prune_requests(file.path, 10, stepping, boot_id());
  EXPECT_TRUE(failed_with(refused, Errc::unavailable)) << text_of(refused);
  EXPECT_EQ(application.number("SELECT count(*) FROM dovetail_request"), 1);
}

// What is applied under a wrong clock is remembered for at least as long as it should be.
TEST_F(PrunedInbox, WhatIsAppliedUnderAWrongClockIsNotAppliedAgain) {
  for (const Duration step : {Duration(1h), Duration(-1h), Duration(48h), Duration(-48h)}) {
    SetClock stepping;
    stepping.ahead = step;
    SqliteInboxStore wrong(file.path, "billing", handler, stepping);
    ASSERT_TRUE(wrong.open());
    const Event event = event_of(0);
    EXPECT_EQ(apply(wrong, event), Arrival::first);
    PruneOptions options;
    options.inbox_older_than = 24h;
    prune_all(options);
    const Arrival again = apply(store, event);
    EXPECT_TRUE(again == Arrival::duplicate || again == Arrival::forgotten) << step.count();
  }
}

TEST_F(PrunedInbox, AnOperatorRepairsWhatAWrongClockHasForgotten) {
  const std::string ahead = std::to_string(to_stored(clock.wall() + 26h));
  application.run("UPDATE dovetail_consumer SET forgotten_until = " + ahead);
  ASSERT_EQ(apply(store, event_of(0)), Arrival::forgotten);
  const WallTime since = clock.wall() - 1h;
  EXPECT_TRUE(failed_with(remember_since(file.path, since, " ", clock), Errc::rejected));
  const Result<WallTime> before = remember_since(file.path, since, "wrong clock", clock);
  ASSERT_TRUE(before) << text_of(before);
  EXPECT_EQ(apply(store, event_of(0)), Arrival::first) << "also for a consumer that is running";
  EXPECT_EQ(apply(store, event_of(1)), Arrival::forgotten);
  EXPECT_EQ(application.text("SELECT who || ': ' || what || ': ' || reason FROM dovetail_audit"),
            user_name() + ": remember: wrong clock");
}

TEST_F(PrunedInbox, AnOperatorWhoHasCheckedHasAnOldEventApplied) {
  const Event old = event_of(60);
  apply(store, event_of(60));
  age(60);
  prune_all();
  ASSERT_EQ(apply(store, old), Arrival::forgotten);
  EXPECT_TRUE(failed_with(apply_event(file.path, "billing", old.id, "", clock), Errc::rejected));
  EXPECT_TRUE(failed_with(apply_event(file.path, "bill", old.id, "x", clock), Errc::rejected));
  ASSERT_EQ(apply_event(file.path, "billing", old.id, "checked", clock).value_or(0), 1u);
  EXPECT_EQ(apply(store, old), Arrival::first);
  EXPECT_EQ(apply(store, old), Arrival::duplicate);
  EXPECT_EQ(apply_event(file.path, "billing", old.id, "checked", clock).value_or(9), 0u);
}

// The whole road: published, applied, forgotten, delivered again.
TEST_F(PrunedInbox, ARedeliveryAfterPruningIsParkedAndNotAppliedAgain) {
  TestFile publisher;
  Application source(publisher.path);
  NewEvent event{.aggregate_type = "order", .aggregate_id = "1", .type = "placed", .payload = "{}"};
  event.id = event_of(60).id;
  source.run("BEGIN");
  ASSERT_TRUE(publish(source.connection, event));
  source.run("UPDATE dovetail_outbox SET created_at = " +
             std::to_string(to_stored(days_ago(clock, 60))));
  source.run("COMMIT");
  const auto run_until = [&](const std::function<bool()>& holds) {
    auto consumer = Consumer::open(
        {.database = file.path, .name = "shipping", .from = publisher.path}, handler);
    ASSERT_TRUE(consumer) << text_of(consumer);
    std::jthread thread([&](std::stop_token stop) { EXPECT_TRUE((*consumer)->run(stop)); });
    EXPECT_TRUE(eventually(holds));
  };
  run_until([&] { return effects() == 1; });
  age(60);
  EXPECT_EQ(prune_all().inbox, 1u);
  source.run("UPDATE dovetail_relay SET passed_seq = 0");
  run_until([&] { return !list_parked(publisher.path, {})->empty(); });
  EXPECT_TRUE(contains(list_parked(publisher.path, {})->at(0).reason, "older than what the inbox"));
  EXPECT_EQ(effects(), 1);
}

}  // namespace
}  // namespace dovetail::sqlite
