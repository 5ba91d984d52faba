// What becomes of an event that comes again after its inbox row was deleted.
#include "core/test_ids.h"
#include "dovetail/sqlite.h"
#include "sqlite/claims.h"
#include "sqlite/consumer_row.h"
#include "sqlite/inbox_store.h"
#include "sqlite/requests.h"
#include "sqlite/test_file.h"

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
  application.run("UPDATE dovetail_inbox SET applied_at = " + at +
                  " WHERE substr(hex(event_id), 13, 1) = '4'");
  EXPECT_EQ(prune_all().inbox, 0u);
  EXPECT_EQ(rows(), 2);
}

TEST_F(PrunedInbox, AClaimOfAForgottenEventIsRefusedAndLeavesNoRow) {
  const EventId id = event_of(60).id;
  application.run("BEGIN");
  ASSERT_TRUE(claim(application.connection, "own loop", id).value());
  application.run("COMMIT");
  age(60);
  prune_all();
  application.run("BEGIN");
  const Result<bool> again = claim(application.connection, "own loop", id);
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
  ASSERT_TRUE(claims.release({&failed.id, 1}, {&epoch, 1}, LetGo::failed));
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

// The whole road: published, applied, forgotten, delivered again.
TEST_F(PrunedInbox, ARedeliveryAfterPruningIsParkedAndNotAppliedAgain) {
  TestFile publisher;
  Application source(publisher.path);
  NewEvent event{.aggregate_type = "order", .aggregate_id = "1", .type = "placed", .payload = "{}"};
  event.id = event_of(60).id;
  source.run("BEGIN");
  ASSERT_TRUE(publish(source.connection, event));
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
  source.run("UPDATE dovetail_reader SET settled = 0");
  run_until([&] { return !list_parked(publisher.path, {})->empty(); });
  EXPECT_TRUE(contains(list_parked(publisher.path, {})->at(0).reason, "older than what the inbox"));
  EXPECT_EQ(effects(), 1);
}

}  // namespace
}  // namespace dovetail::sqlite
