#include "postgres/wal/standby_snapshot.h"

#include <gtest/gtest.h>

#include "postgres/testing/test_database.h"
#include "postgres/testing/test_version.h"

namespace dovetail::postgres {
namespace {

using namespace std::chrono_literals;

class StandbySnapshotTest : public testing::Test {
 protected:
  // How often it is due in that time, asked every 50 ms.
  int due_in(Duration duration, bool helps) {
    int count = 0;
    for (const TimePoint end = now_ + duration; now_ < end; now_ += 50ms) {
      if (!note_.is_due(now_, kept_from_)) continue;
      ++count;
      if (helps) ++kept_from_.value;
    }
    return count;
  }

  StandbySnapshot note_;
  TimePoint now_{1h};
  WalPosition kept_from_{1};
};

TEST_F(StandbySnapshotTest, IsMadeOftenWhileTheServerLetsGoOfItsLog) {
  EXPECT_EQ(due_in(1s, true), 20);
}

TEST_F(StandbySnapshotTest, IsMadeSeldomWhileATransactionHoldsTheLog) {
  EXPECT_LT(due_in(1min, false), 15);
  EXPECT_LE(due_in(10min, false), 40);
  ++kept_from_.value;
  EXPECT_TRUE(note_.is_due(now_, kept_from_));
}

class WalStandbySnapshot : public testing::Test {
 protected:
  void SetUp() override {
    if (is_before(connection_, 15)) GTEST_SKIP() << "this server cannot show its log";
    must(connection_, "CREATE EXTENSION pg_walinspect");
    // Nobody waits for its end: quick calls stay quick.
    must(writer_, "BEGIN; SELECT pg_current_xact_id()");
  }

  // The current end of WAL records.
  std::int64_t end_of_wal() { return number(connection_, "pg_current_wal_insert_lsn() - '0/0'"); }
  std::int64_t notes_since(std::int64_t from) {
    must(connection_, "CREATE TABLE on_disk (); DROP TABLE on_disk");  // and everything before it
    return number(connection_,
                  "SELECT count(*) FROM pg_get_wal_records_info('0/0'::pg_lsn + " +
                      std::to_string(from) +
                      ", pg_current_wal_flush_lsn()) WHERE record_type = 'RUNNING_XACTS'");
  }

  // With a role that may replicate, and, if `may_ask`, ask for the record.
  void expect_note(bool may_ask) {
    const std::string role = "noting_" + database_.name;
    must(connection_, "CREATE ROLE " + role + " LOGIN REPLICATION");
    if (may_ask)
      must(connection_, "GRANT EXECUTE ON FUNCTION pg_log_standby_snapshot() TO " + role);
    Connection maker = database_.connect(role);
    const std::int64_t from = end_of_wal();
    EXPECT_TRUE(StandbySnapshot().make(maker));
    EXPECT_TRUE(maker.query("SELECT 1"));
    EXPECT_EQ(notes_since(from) > 0, may_ask);
    EXPECT_EQ(
        number(connection_,
               "SELECT count(*) FROM pg_replication_slots WHERE database = current_database()"),
        0);
    maker = Connection();
    must(connection_, "DROP OWNED BY " + role + "; DROP ROLE " + role);
  }

  TestDatabase database_;
  Connection connection_ = database_.connect();
  Connection writer_ = database_.connect();
};

// The server records it itself, a little later. Nothing is begun that must be cancelled, which
// would be an error in the server's log.
TEST_F(WalStandbySnapshot, IsLeftToTheServerWhereThatIsNotGranted) { expect_note(false); }

TEST_F(WalStandbySnapshot, IsAskedForWhereThatIsGranted) {
  if (is_before(connection_, 16)) GTEST_SKIP() << "this server cannot be asked";
  expect_note(true);
}

}  // namespace
}  // namespace dovetail::postgres
