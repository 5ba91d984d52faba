// What operators order for a relay, together with lanes, delayed events, the WAL and retention.
#include "postgres/operate/relay_control.h"

#include <set>

#include "host/host.h"
#include "postgres/operate/maintenance.h"
#include "postgres/outbox/source.h"
#include "postgres/testing/test_source.h"
#include "postgres/testing/test_wal_source.h"

namespace dovetail::postgres {
namespace {

class PostgresRelayControl : public ::testing::Test {
 protected:
  // One event of each key, "1" to `events`.
  void publish(int events, const std::string& more = "") {
    must(sql_, "SELECT dovetail.publish('order', n::text, 'placed', n::text" + more +
                   ") FROM generate_series(1, " + std::to_string(events) + ") AS n");
  }
  void publish_due(int events) {
    publish(events, ", deliver_at => clock_timestamp() + interval '1 h'");
    must(sql_, "UPDATE dovetail.delayed SET deliver_at = clock_timestamp() - interval '1 s'");
  }
  // What a lane has until nothing comes, and at least that many.
  Payloads read(std::size_t count, std::uint32_t lane = 0, std::uint32_t lanes = 1) {
    Reader reader{database_.conninfo, "shop", lane, lanes};
    PostgresSource source(reader, system_clock());
    const Status opened = source.open();
    EXPECT_TRUE(opened) << text_of(opened);
    Payloads all;
    EXPECT_TRUE(eventually([&] {
      for (std::string& one : take_all(source, 1000)) all.push_back(std::move(one));
      return all.size() >= count;
    })) << all.size();
    return all;
  }
  SeekCounts seek(const SeekTo& to, bool dry_run = false) {
    const Result<SeekCounts> moved =
        write_seek(database_.conninfo, "shop", to, "the broker lost a day", Hold::none, dry_run);
    EXPECT_TRUE(moved) << text_of(moved);
    return moved.value_or(SeekCounts{});
  }
  // As retention of a day does it.
  void prune() {
    MaintenanceOptions options;
    options.events_older_than = std::chrono::hours(24);
    const auto done = maintain(database_.conninfo, options);
    EXPECT_TRUE(done) << text_of(done);
  }
  // Their ids and times are of the year 2023.
  void publish_old(int events) {
    publish(events, ", id => ('01890a5d-ac96-774b-bcce-' || lpad(n::text, 12, '0'))::uuid");
    must(sql_, "UPDATE dovetail.outbox SET created_at = '2023-07-01'");
  }
  std::int64_t stored() { return number(sql_, "SELECT count(*) FROM dovetail.outbox"); }

  TestDatabase database_;
  Connection sql_ = database_.connect();
};

TEST_F(PostgresRelayControl, AMoveBackSendsEachEventAgainInTheLaneOfItsKey) {
  constexpr std::uint32_t kLanes = 4;
  publish(40);
  std::vector<std::set<std::string>> first(kLanes);
  for (std::uint32_t lane = 0; lane < kLanes; ++lane)
    for (const std::string& one : read(0, lane, kLanes)) first[lane].insert(one);
  const std::int64_t eleventh =
      number(sql_, "SELECT seq FROM dovetail.outbox ORDER BY seq LIMIT 1 OFFSET 10");
  EXPECT_EQ(seek({SeekTo::Kind::position, eleventh}, true).again, 30U);
  EXPECT_EQ(seek({SeekTo::Kind::position, eleventh}).again, 30U);
  std::set<std::string> again;
  std::size_t count = 0;
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    for (const std::string& one : read(0, lane, kLanes)) {
      EXPECT_TRUE(first[lane].contains(one)) << one << " came in lane " << lane;
      again.insert(one);
      ++count;
    }
  }
  EXPECT_EQ(count, 30U);
  EXPECT_EQ(again.size(), 30U);
}

TEST_F(PostgresRelayControl, OneRunningLaneKeepsTheWholeRelayFromBeingMoved) {
  for (std::uint32_t lane = 0; lane < 2; ++lane) (void)read(0, lane, 2);
  must(sql_,
       "UPDATE dovetail.relay_lane SET owner = 'host:1@x#2', lease_term = 10000000, expires = "
       "clock_timestamp() + interval '9 s' WHERE lane = 1");
  EXPECT_TRUE(failed_with(write_seek(database_.conninfo, "shop", {}, "why", Hold::none, false),
                          Errc::rejected));
}

TEST_F(PostgresRelayControl, AMoveToNowSkipsNoTransactionThatIsStillOpen) {
  (void)read(0);
  Connection writer = database_.connect();
  must(writer, "BEGIN; SELECT dovetail.publish('order', '1', 'placed', '901')");
  must(sql_, "SELECT dovetail.publish('order', '2', 'placed', '902')");
  EXPECT_EQ(seek({SeekTo::Kind::now}).skipped, 1U);
  must(writer, "COMMIT");
  EXPECT_EQ(read(1), Payloads{"901"});
}

TEST_F(PostgresRelayControl, AMoveToNowSkipsNoDelayedEvent) {
  (void)read(0);
  publish_due(2);
  EXPECT_EQ(seek({SeekTo::Kind::now}).skipped, 0U);
  EXPECT_EQ(read(2).size(), 2U) << "it comes to be when it is due";
}

TEST_F(PostgresRelayControl, AMoveBackSendsADelayedEventOnceMore) {
  publish_due(2);
  EXPECT_EQ(read(2).size(), 2U);
  EXPECT_EQ(seek({SeekTo::Kind::beginning}).again, 2U);
  EXPECT_EQ(read(2).size(), 2U);
  EXPECT_EQ(number(sql_, "SELECT count(*) FROM dovetail.delayed"), 0);
}

TEST_F(PostgresRelayControl, ARenamedRelayGoesOnWhereItsSlotStood) {
  {
    WalReading reading(database_, quick_wal(ReadMode::wal), "shop");
    ASSERT_TRUE(reading.opened) << text_of(reading.opened);
    ASSERT_TRUE(reading.until_streaming()) << reading.told();
    publish(10);
    ASSERT_TRUE(reading.until([&] { return reading.payloads.size() == 10; }));
  }
  ASSERT_TRUE(eventually([&] {
    return number(sql_,
                  "SELECT count(*) FROM pg_replication_slots WHERE active AND database = "
                  "current_database()") == 0;
  }));
  const std::string slot = text(sql_, "SELECT slot FROM dovetail.relay_lane");
  const Result<std::string> left = write_rename(database_.conninfo, "shop", "store", "why");
  ASSERT_TRUE(left) << text_of(left);
  EXPECT_EQ(*left, slot) << "the caller drops this slot";
  must(sql_, "SELECT dovetail.publish('order', '1', 'placed', '903')");
  WalReading reading(database_, quick_wal(ReadMode::wal), "store");
  ASSERT_TRUE(reading.until([&] { return reading.streams() && reading.counts.contains("903"); }))
      << reading.told();
  EXPECT_EQ(reading.payloads, Payloads{"903"}) << "nothing is sent twice";
}

TEST_F(PostgresRelayControl, RetentionKeepsWhatAPausedRelayHasNotPassed) {
  (void)read(0);
  ASSERT_TRUE(write_hold(database_.conninfo, "shop", Hold::paused, "why"));
  publish_old(3);
  prune();
  EXPECT_EQ(stored(), 3);
  ASSERT_TRUE(write_hold(database_.conninfo, "shop", Hold::none, "why"));
  EXPECT_EQ(read(3).size(), 3U);
  prune();
  EXPECT_EQ(stored(), 0);
}

TEST_F(PostgresRelayControl, RetentionTakesWhatAMoveHasSkippedAndKeepsWhatItSendsAgain) {
  (void)read(0);
  publish_old(3);
  EXPECT_EQ(seek({SeekTo::Kind::now}).skipped, 3U);
  EXPECT_EQ(seek({SeekTo::Kind::beginning}).again, 3U);
  prune();
  EXPECT_EQ(stored(), 3) << "they are to be sent again";
  seek({SeekTo::Kind::now});
  prune();
  EXPECT_EQ(stored(), 0);
}

}  // namespace
}  // namespace dovetail::postgres
