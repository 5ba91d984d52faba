// What operators order for a relay of a file.
#include "core/testing/test_clock.h"
#include "host/host.h"
#include "sqlite/lane/lease.h"
#include "sqlite/lane/parking.h"
#include "sqlite/operate/admin.h"
#include "sqlite/testing/test_file.h"

namespace dovetail::sqlite {
namespace {

class SqliteRelayControl : public ::testing::Test {
 protected:
  SqliteRelayControl() {
    for (int i = 0; i < 5; ++i)
      application.run(
          "INSERT INTO dovetail_outbox (aggregate_type, type, payload) VALUES ('a', 'b', 'c')");
    application.run(
        "INSERT INTO dovetail_relay (relay, source, passed_seq, epoch) VALUES ('r', 'outbox', 3, "
        "7)");
  }
  Result<SeekCounts> seek(SeekTo to, bool dry_run = false) {
    return write_seek(file.path, "r", to, "the broker lost a day", Hold::none, dry_run, clock);
  }
  std::string states() {
    return application.text(
        "SELECT group_concat(substr(state, 1, 1), '') FROM (SELECT state FROM dovetail_events "
        "ORDER BY seq)");
  }

  TestFile file;
  Application application{file.path};
  TestClock clock;
};

TEST_F(SqliteRelayControl, AMoveCountsWhatIsSentAgainOrSkippedAndRaisesTheEpoch) {
  const Result<SeekCounts> tried = seek({SeekTo::Kind::position, 2}, true);
  ASSERT_TRUE(tried) << text_of(tried);
  EXPECT_EQ(tried->again, 2U);
  EXPECT_EQ(states(), "dddpp") << "a dry run changes nothing";
  ASSERT_TRUE(seek({SeekTo::Kind::now}));
  EXPECT_EQ(states(), "dddss");
  ASSERT_TRUE(seek({SeekTo::Kind::position, 5}));
  EXPECT_EQ(states(), "dddsp");
  EXPECT_EQ(application.text("SELECT epoch || ' ' || skipped_total FROM dovetail_relay"), "9 2");
}

TEST_F(SqliteRelayControl, ARelayThatRunsIsNeitherMovedNorRenamedNorForgotten) {
  Reader reader{file.path, "r"};
  SqliteLease lease(reader, clock, "host:1", boot_id());
  ASSERT_TRUE(lease.acquire());
  EXPECT_TRUE(has_owner(file.path, "r", clock).value());
  EXPECT_TRUE(contains(text_of(seek({SeekTo::Kind::now})), "runs"));
  EXPECT_TRUE(contains(text_of(write_rename(file.path, "r", "q", "why", clock)), "runs"));
  EXPECT_TRUE(contains(text_of(write_forget(file.path, "r", "why", clock)), "runs"));
  EXPECT_TRUE(seek({SeekTo::Kind::beginning}, true)) << "counting is allowed";
  ASSERT_TRUE(lease.release());
  EXPECT_EQ(seek({SeekTo::Kind::beginning})->again, 3U);
}

TEST_F(SqliteRelayControl, AnOrderThatItHasAlreadyChangesNothingAndIsNotInTheAudit) {
  EXPECT_TRUE(failed_with(write_hold(file.path, "r", Hold::paused, " \n", clock), Errc::rejected));
  ASSERT_TRUE(write_hold(file.path, "r", Hold::paused, "first", clock));
  ASSERT_TRUE(write_hold(file.path, "r", Hold::paused, "second", clock));
  EXPECT_EQ(application.text("SELECT hold || ' ' || hold_reason FROM dovetail_relay"),
            "paused first");
  EXPECT_EQ(application.number("SELECT count(*) FROM dovetail_audit"), 1);
  ASSERT_TRUE(write_hold(file.path, "r", Hold::none, "third", clock));
  EXPECT_EQ(application.text("SELECT hold || hold_by || hold_reason FROM dovetail_relay"), "");
}

TEST_F(SqliteRelayControl, ARenameKeepsOffNamesInUseAndConsumers) {
  application.run("INSERT INTO dovetail_relay (relay, source) VALUES ('q', 'outbox')");
  application.run("INSERT INTO dovetail_consumer (name) VALUES ('r')");
  EXPECT_TRUE(contains(text_of(write_rename(file.path, "r", "q", "why", clock)), "already"));
  EXPECT_TRUE(contains(text_of(write_rename(file.path, "r", "s", "why", clock)), "a consumer"));
  EXPECT_TRUE(contains(text_of(write_rename(file.path, "gone", "s", "why", clock)), "has run"));
}

TEST_F(SqliteRelayControl, WhatIsParkedKeepsARelayFromBeingForgottenAndAHoldFromARename) {
  ASSERT_TRUE(write_hold(file.path, "r", Hold::paused, "why", clock));
  EXPECT_TRUE(failed_with(write_rename(file.path, "r", "q", "why", clock), Errc::rejected));
  ASSERT_TRUE(write_hold(file.path, "r", Hold::none, "why", clock));
  application.run(
      "INSERT INTO dovetail_receipt (relay, at, owner, first_seq, last_seq, events, places) VALUES "
      "('r', 1, 'x', 1, 3, 3, ''), ('other', 1, 'x', 1, 3, 3, '')");
  ASSERT_TRUE(write_rename(file.path, "r", "q", "why", clock));
  EXPECT_EQ(application.text("SELECT max(relay) || min(relay) FROM dovetail_receipt"), "qother");
  EXPECT_TRUE(failed_with(write_forget(file.path, "r", "why", clock), Errc::rejected));
  Reader reader{file.path, "q"};
  SqliteParking parking(reader, clock);
  ASSERT_TRUE(parking.open());
  const Event event = make_event("a", 1);
  const ParkRequest request{.event = &event, .reason = "no such topic"};
  ASSERT_TRUE(parking.park({&request, 1}));
  EXPECT_TRUE(contains(text_of(write_forget(file.path, "q", "why", clock)), "parked events"));
  ASSERT_TRUE(discard(file.path, "q", event.id, "why", clock));
  ASSERT_TRUE(write_forget(file.path, "q", "why", clock));
  EXPECT_EQ(application.text("SELECT group_concat(relay) FROM dovetail_receipt"), "other");
  EXPECT_EQ(application.number("SELECT count(*) FROM dovetail_relay"), 0);
}

}  // namespace
}  // namespace dovetail::sqlite
