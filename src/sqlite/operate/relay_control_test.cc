// What operators order for a relay of a file.
#include "sqlite/operate/relay_control.h"

#include "core/testing/test_clock.h"
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
  ASSERT_TRUE(write_forget(file.path, "q", "why", clock));
  EXPECT_EQ(application.text("SELECT group_concat(relay) FROM dovetail_receipt"), "other");
  EXPECT_EQ(application.number("SELECT count(*) FROM dovetail_relay"), 0);
}

}  // namespace
}  // namespace dovetail::sqlite
