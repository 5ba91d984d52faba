// A slot that stays between starts of its relay: when it is resumed, and when not.
#include "postgres/testing/test_version.h"
#include "postgres/testing/test_wal_source.h"
#include "postgres/wal/slot_access.h"
#include "postgres/wal/slot_record.h"

namespace dovetail::postgres {
namespace {

class WalSlotSource : public testing::Test {
 protected:
  WalSlotSource() : connection_(database_.connect()) { EXPECT_TRUE(create_schema(connection_)); }

  void publish(int from, int to) {
    for (int i = from; i < to; ++i)
      must(connection_,
           "SELECT dovetail.publish('order', 'k', 'placed', '" + std::to_string(i) + "')");
  }
  std::unique_ptr<WalReading> read_on() {
    auto reading = std::make_unique<WalReading>(database_, quick_wal(ReadMode::wal));
    EXPECT_TRUE(reading->opened) << text_of(reading->opened);
    return reading;
  }
  // Reads the WAL until that many events are read, settled and reported; then closes.
  void read_and_go(int count) {
    const auto reading = read_on();
    ASSERT_TRUE(reading->until_streaming()) << reading->told();
    publish(0, count);
    ASSERT_TRUE(reading->until([&] { return reading->payloads.size() == std::size_t(count); }));
    ASSERT_TRUE(reading->until([&] {
      return number(
                 connection_,
                 "SELECT count(*) FROM dovetail.relay_lane AS r, pg_replication_slots AS s WHERE "
                 "s.slot_name = r.slot AND s.confirmed_flush_lsn = r.slot_reported") == 1;
    })) << reading->told();
  }
  void until_unused() {
    ASSERT_TRUE(eventually([&] {
      return number(connection_,
                    "SELECT count(*) FROM pg_replication_slots WHERE active AND database = "
                    "current_database()") == 0;
    }));
  }
  std::string slot() { return text(connection_, "SELECT slot FROM dovetail.relay_lane"); }
  // What the next reader returns until it reads the WAL and `count` events came.
  std::unique_ptr<WalReading> next_reads(std::size_t count) {
    auto reading = read_on();
    EXPECT_TRUE(reading->until([&] {
      return reading->streams() && reading->payloads.size() >= count;
    })) << reading->payloads.size()
        << reading->told();
    return reading;
  }
  static Payloads numbers(int from, int to) {
    Payloads all;
    for (int i = from; i < to; ++i) all.push_back(std::to_string(i));
    return all;
  }

  TestDatabase database_;
  Connection connection_;
};

TEST_F(WalSlotSource, IsGoneOnWithWhereItStoodAndRepeatsNothing) {
  read_and_go(10);
  until_unused();
  publish(10, 20);
  const auto next = next_reads(10);
  EXPECT_EQ(next->payloads, numbers(10, 20));
  EXPECT_TRUE(contains(next->told(), "where it stood")) << next->told();
  publish(20, 22);
  EXPECT_TRUE(next->until([&] { return next->payloads.size() == 12; }));
}

TEST_F(WalSlotSource, IsNotGoneOnWithBeforeWhatTheTableGaveIsSettled) {
  publish(0, 5);
  {
    const auto reading = read_on();
    reading->settles = false;
    ASSERT_TRUE(
        reading->until([&] { return reading->streams() && reading->payloads.size() == 5; }));
    for (int i = 0; i < 100; ++i) ASSERT_TRUE(reading->step());
    EXPECT_EQ(text(connection_, "SELECT slot_reported::text FROM dovetail.relay_lane"), "0/0");
  }
  until_unused();
  const auto next = next_reads(5);
  EXPECT_EQ(next->payloads, numbers(0, 5)) << "the slot begins behind them";
}

TEST_F(WalSlotSource, MadeAgainBySomebodyElseIsNotTrusted) {
  read_and_go(3);
  until_unused();
  publish(3, 6);
  const std::string slot = text(connection_, "SELECT slot FROM dovetail.relay_lane");
  must(connection_, "SELECT pg_drop_replication_slot('" + slot + "')");
  // Not together with a table in one statement, which the server cannot always do.
  must(connection_, "SELECT pg_create_logical_replication_slot('" + slot + "', 'pgoutput')");
  publish(6, 8);
  const auto next = next_reads(5);
  EXPECT_EQ(next->payloads, numbers(3, 8));
  EXPECT_TRUE(contains(next->told(), "somebody else made it or moved it")) << next->told();
}

TEST_F(WalSlotSource, MovedOnBySomebodyElseIsNotTrusted) {
  read_and_go(3);
  until_unused();
  publish(3, 6);
  must(connection_,
       "SELECT pg_replication_slot_advance(slot, pg_current_wal_lsn()) FROM dovetail.relay_lane");
  const auto next = next_reads(3);
  EXPECT_EQ(next->payloads, numbers(3, 6));
}

TEST_F(WalSlotSource, ThatIsGoneIsMadeAgainAndTheTableClosesTheGap) {
  read_and_go(3);
  until_unused();
  publish(3, 6);
  must(connection_, "SELECT pg_drop_replication_slot(slot) FROM dovetail.relay_lane");
  const auto next = next_reads(3);
  EXPECT_EQ(next->payloads, numbers(3, 6));
  EXPECT_TRUE(contains(next->told(), "is gone")) << next->told();
}

TEST_F(WalSlotSource, OfAPublicationThatWasChangedMeanwhileIsNotTrusted) {
  read_and_go(3);
  until_unused();
  must(connection_, "ALTER PUBLICATION dovetail_outbox SET (publish = 'update')");
  publish(3, 6);
  must(connection_, "ALTER PUBLICATION dovetail_outbox SET (publish = 'insert')");
  const auto next = next_reads(3);
  EXPECT_EQ(next->payloads, numbers(3, 6));
}

TEST_F(WalSlotSource, ThatAnotherProcessStillUsesIsWaitedForWhileTheTableIsRead) {
  auto first = read_on();
  ASSERT_TRUE(first->until_streaming()) << first->told();
  publish(0, 3);
  ASSERT_TRUE(first->until([&] { return first->payloads.size() == 3; }));
  const auto second = read_on();
  publish(3, 6);
  ASSERT_TRUE(second->until([&] { return second->payloads.size() == 3; })) << second->told();
  EXPECT_FALSE(second->streams());
  EXPECT_TRUE(contains(second->told(), "in use by the process")) << second->told();
  first.reset();
  ASSERT_TRUE(second->until_streaming()) << second->told();
  publish(6, 8);
  ASSERT_TRUE(second->until([&] { return second->payloads.size() == 5; }));
  EXPECT_EQ(second->payloads, numbers(3, 8));
}

TEST_F(WalSlotSource, ThatKeepsTooMuchIsDroppedAndMadeAgainWhenTheSinkTakes) {
  WalSourceOptions options = quick_wal(ReadMode::wal);
  options.reading.retained_wal_max = 4 << 20;
  WalReading reading(database_, options);
  ASSERT_TRUE(reading.until_streaming()) << reading.told();
  reading.settles = false;
  publish(0, 1);
  ASSERT_TRUE(reading.until([&] { return reading.payloads.size() == 1; }));
  must(connection_,
       "CREATE TABLE other AS SELECT repeat(n::text, 200) FROM generate_series(1, 10000) AS n");
  EXPECT_TRUE(failed_with(reading.until_lost(), Errc::unavailable));
  reading.unsettled.clear();
  ASSERT_TRUE(reading.source->open());
  ASSERT_TRUE(reading.until([&] {
    return reading.payloads.size() == 2 &&
           number(connection_,
                  "SELECT count(*) FROM pg_replication_slots WHERE database = "
                  "current_database()") == 0;
  })) << reading.told();
  reading.settles = true;
  ASSERT_TRUE(reading.settle());
  EXPECT_TRUE(reading.until_streaming()) << reading.told();
}

// The thread of a paused process continues with what it knew before.
TEST_F(WalSlotSource, IsNotDroppedByWhoHasLostTheLane) {
  read_and_go(3);
  until_unused();
  Reader reader;
  reader.conninfo = database_.conninfo;
  reader.relay = "test";
  ASSERT_TRUE(connect(reader));
  SlotAccessOptions asked;
  asked.conninfo = reader.conninfo;
  asked.server = identify(reader.connection).value();
  asked.published.publication = kOutboxPublication;
  asked.record = load_slot_record(reader).value();
  asked.slot = asked.record.slot;
  asked.temporary = false;
  asked.held = {"test", 0, 7};
  publish(3, 6);
  must(connection_,
       "UPDATE dovetail.relay_lane SET epoch = 8; "
       "SELECT pg_replication_slot_advance(slot, pg_current_wal_lsn()) FROM dovetail.relay_lane");
  const std::string left =
      "SELECT count(*) FROM pg_replication_slots WHERE slot_name = '" + asked.slot + "'";
  const Result<SlotAccess> of_old = find_slot_access(asked, {});
  EXPECT_TRUE(failed_with(of_old, Errc::unavailable)) << text_of(of_old);
  EXPECT_EQ(number(connection_, left), 1);
  asked.held.epoch = 8;
  const Result<SlotAccess> of_new = find_slot_access(asked, {});
  ASSERT_TRUE(of_new) << text_of(of_new);
  EXPECT_TRUE(contains(of_new->lost, "moved it")) << of_new->lost;
  EXPECT_EQ(number(connection_, left), 0);
}

// A relay that has lost its lane must not move the slot of the new owner.
TEST_F(WalSlotSource, IsNotReportedByWhoHasLostTheLane) {
  const auto reading = read_on();
  ASSERT_TRUE(reading->until_streaming()) << reading->told();
  reading->reader.epoch = 7;
  must(connection_, "UPDATE dovetail.relay_lane SET epoch = 8");
  const std::string before =
      text(connection_, "SELECT slot_reported::text FROM dovetail.relay_lane");
  publish(0, 3);
  EXPECT_TRUE(failed_with(reading->until_lost(), Errc::stopped));
  EXPECT_EQ(text(connection_, "SELECT slot_reported::text FROM dovetail.relay_lane"), before);
}

}  // namespace
}  // namespace dovetail::postgres
