#include "postgres/wal/source.h"

#include <atomic>

#include "postgres/testing/test_version.h"
#include "postgres/testing/test_wal_source.h"
#include "servers/tcp_proxy.h"

namespace dovetail::postgres {
namespace {

using namespace std::chrono_literals;

class WalSourceTest : public testing::Test {
 protected:
  WalSourceTest() : connection_(database_.connect()), other_(database_.connect()) {
    EXPECT_TRUE(create_schema(connection_));
  }
  static std::string publishing(const std::string& payload) {
    return "SELECT dovetail.publish('order', 'k', 'placed', '" + payload +
           "', content_type => 'text/plain')";
  }
  void publish(const std::string& payload) { must(connection_, publishing(payload)); }
  void publish(int from, int to) {
    for (int i = from; i < to; ++i) publish(std::to_string(i));
  }
  std::int64_t slots() {
    return number(connection_,
                  "SELECT count(*) FROM pg_replication_slots WHERE database = current_database()");
  }
  std::int64_t pending() { return number(connection_, "SELECT pending FROM dovetail.lag"); }
  // Whether the stored progress covers everything published.
  bool is_progress_complete() { return pending() == 0; }
  static Payloads numbers(int from, int to) {
    Payloads all;
    for (int i = from; i < to; ++i) all.push_back(std::to_string(i));
    return all;
  }
  bool until_read(WalReading& reading, std::size_t count) {
    return reading.until([&] { return reading.payloads.size() >= count; });
  }
  int server_port() const {
    return std::stoi(database_.conninfo.substr(database_.conninfo.rfind("port=") + 5));
  }
  std::string through(const servers::TcpProxy& link) const {
    return database_.conninfo + " host=127.0.0.1 port=" + std::to_string(link.port()) +
           " sslmode=disable gssencmode=disable";
  }

  TestDatabase database_;
  Connection connection_;
  Connection other_;
};

TEST_F(WalSourceTest, TheTableIsReadFirstAndThenTheLogEachEventOnce) {
  publish(0, 10);
  WalReading reading(database_, quick_wal(ReadMode::automatic));
  ASSERT_TRUE(reading.opened) << text_of(reading.opened);
  ASSERT_TRUE(reading.until_streaming()) << reading.told();
  publish(10, 20);
  ASSERT_TRUE(until_read(reading, 20));
  EXPECT_EQ(reading.payloads, numbers(0, 20));
  EXPECT_EQ(
      text(connection_, "SELECT reads_wal || reads_why FROM dovetail.relay_lane").substr(0, 24),
      "truethrough the slot dov");
  EXPECT_TRUE(reading.until([&] { return is_progress_complete(); }))
      << "progress follows by safe points";
  EXPECT_EQ(reading.metrics.stream_starts, 1U);
}

TEST_F(WalSourceTest, ATemporarySlotIsGoneWithItsReader) {
  {
    WalReading reading(database_, quick_wal(ReadMode::automatic));
    ASSERT_TRUE(reading.until_streaming()) << reading.told();
    EXPECT_EQ(slots(), 1);
  }
  EXPECT_TRUE(eventually([&] { return slots() == 0; }));
}

TEST_F(WalSourceTest, AnotherReaderGoesOnFromTheProgressOfSafePoints) {
  WalReading first(database_, quick_wal(ReadMode::automatic));
  ASSERT_TRUE(first.until_streaming()) << first.told();
  publish(0, 10);
  ASSERT_TRUE(until_read(first, 10));
  ASSERT_TRUE(first.until([&] { return is_progress_complete(); }));
  publish(10, 15);
  WalReading second(database_, quick_wal(ReadMode::automatic));
  ASSERT_TRUE(until_read(second, 5));
  ASSERT_TRUE(second.until_streaming());
  EXPECT_EQ(second.payloads, numbers(10, 15));
}

TEST_F(WalSourceTest, WhatIsNotSettledIsReadAgain) {
  WalReading reading(database_, quick_wal(ReadMode::automatic));
  ASSERT_TRUE(reading.until_streaming()) << reading.told();
  reading.settles = false;
  publish(0, 5);
  ASSERT_TRUE(until_read(reading, 5));
  for (int i = 0; i < 30; ++i) ASSERT_TRUE(reading.step());
  EXPECT_EQ(pending(), 5) << "safe points were passed, and nothing is settled";
  reading.unsettled.clear();
  ASSERT_TRUE(reading.source->open());
  reading.settles = true;
  ASSERT_TRUE(until_read(reading, 10));
  EXPECT_EQ(reading.counts["4"], 2U);
}

// The slot's snapshot then begins after its end.
TEST_F(WalSourceTest, TransactionsThatEndInVainWhileTheSlotIsMadeDoNotMatter) {
  Connection second = database_.connect();
  Connection third = database_.connect();
  must(other_, "BEGIN; SELECT pg_current_xact_id()");
  WalReading reading(database_, quick_wal(ReadMode::automatic));
  ASSERT_TRUE(reading.until([&] { return slots() == 1; })) << "the slot is asked for";
  must(second, "BEGIN");
  const std::string xid = text(second, "SELECT pg_current_xact_id()::text");
  must(other_, "ROLLBACK");
  ASSERT_TRUE(eventually([&] {
    return number(connection_,
                  "SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'transactionid' "
                  "AND transactionid = '" +
                      xid + "'::xid") > 0;
  })) << "the server waits for the second";
  must(third, "BEGIN");
  must(third, publishing("late"));
  must(second, "ROLLBACK");
  ASSERT_TRUE(reading.until_streaming()) << reading.told();
  publish("1");
  must(third, "COMMIT");
  ASSERT_TRUE(until_read(reading, 2));
  EXPECT_EQ(reading.payloads, (Payloads{"1", "late"}));
}

// It commits while the slot is made and windows are closed.
TEST_F(WalSourceTest, ATransactionThatIsOpenOverTheHandOverComesOnce) {
  must(other_, "BEGIN");
  must(other_, publishing("late"));
  publish("1");
  WalReading reading(database_, quick_wal(ReadMode::automatic));
  ASSERT_TRUE(until_read(reading, 1));
  ASSERT_TRUE(reading.until([&] { return slots() == 1; })) << "the slot is asked for";
  publish("2");
  ASSERT_TRUE(until_read(reading, 2)) << "windows go on while the server waits";
  EXPECT_FALSE(reading.streams());
  must(other_, "COMMIT");
  ASSERT_TRUE(reading.until_streaming()) << reading.told();
  publish("3");
  ASSERT_TRUE(until_read(reading, 4));
  EXPECT_EQ(reading.repeated(), 0U);
}

TEST_F(WalSourceTest, WhoHoldsUpTheSlotIsToldWithItsProcess) {
  must(other_, "BEGIN");
  must(other_, publishing("late"));
  const std::int64_t pid = number(other_, "SELECT pg_backend_pid()");
  WalReading reading(database_, quick_wal(ReadMode::automatic));
  ASSERT_TRUE(reading.until([&] { return !reading.changes.empty(); }));
  EXPECT_TRUE(contains(reading.told(), "process " + std::to_string(pid))) << reading.told();
  must(other_, "ROLLBACK");
  EXPECT_TRUE(reading.until_streaming()) << reading.told();
}

TEST_F(WalSourceTest, SubtransactionsAndPreparedTransactionsComeOnceAndWholly) {
  WalReading reading(database_, quick_wal(ReadMode::automatic));
  ASSERT_TRUE(reading.until_streaming()) << reading.told();
  must(other_, "BEGIN");
  must(other_, publishing("1"));
  must(other_, "SAVEPOINT s");
  must(other_, publishing("never"));
  must(other_, "ROLLBACK TO s");
  must(other_, publishing("2"));
  must(other_, "PREPARE TRANSACTION '" + database_.name + "'");
  must(other_, "BEGIN");
  must(other_, publishing("never"));
  must(other_, "ROLLBACK");
  publish("3");
  ASSERT_TRUE(until_read(reading, 1));
  ASSERT_TRUE(reading.until([&] { return pending() == 0; }));
  must(other_, "COMMIT PREPARED '" + database_.name + "'");
  ASSERT_TRUE(until_read(reading, 3));
  EXPECT_EQ(reading.payloads, (Payloads{"3", "1", "2"}));
  EXPECT_TRUE(reading.until([&] { return is_progress_complete(); }));
}

// The safe point must not cover it.
TEST_F(WalSourceTest, ATransactionThatIsOpenOverASafePointIsNotCovered) {
  WalReading reading(database_, quick_wal(ReadMode::automatic));
  ASSERT_TRUE(reading.until_streaming()) << reading.told();
  must(other_, "BEGIN");
  must(other_, publishing("late"));
  publish("1");
  ASSERT_TRUE(until_read(reading, 1));
  ASSERT_TRUE(reading.until([&] { return pending() == 0; }));
  must(other_, "COMMIT");
  WalReading next(database_, quick_wal(ReadMode::poll));
  ASSERT_TRUE(until_read(next, 1));
  EXPECT_EQ(next.payloads, (Payloads{"late"}));
}

TEST_F(WalSourceTest, ABacklogIsCaughtUpByWindowsAndThenTheLogIsReadAgain) {
  WalSourceOptions options = quick_wal(ReadMode::automatic);
  options.catch_up_events = 500;
  options.safe_point_every = std::chrono::milliseconds(1);  // or a quick stream is level before
  WalReading reading(database_, options);
  ASSERT_TRUE(reading.until_streaming()) << reading.told();
  publish(0, 10);
  ASSERT_TRUE(until_read(reading, 10));
  // Nobody reads meanwhile, as with a blocked sink. One transaction per event.
  must(connection_, "SET synchronous_commit = off");
  must(connection_,
       "DO $$ BEGIN FOR i IN 10..8009 LOOP PERFORM dovetail.publish('order', 'k', 'placed', "
       "i::text || repeat('x', 2000), content_type => 'text/plain'); COMMIT; END LOOP; END $$");
  ASSERT_TRUE(until_read(reading, 8010)) << reading.payloads.size() << reading.told();
  EXPECT_GE(reading.metrics.stream_ends, 1U) << reading.told();
  ASSERT_TRUE(reading.until_streaming()) << reading.told();
  publish("behind");
  ASSERT_TRUE(until_read(reading, 8011));
  EXPECT_EQ(reading.repeated(), 0U);
  EXPECT_EQ(reading.counts.size(), 8011U);
  EXPECT_TRUE(reading.until([&] { return is_progress_complete(); }));
}

TEST_F(WalSourceTest, DelayedEventsGoOutWhileTheLogIsRead) {
  WalReading reading(database_, quick_wal(ReadMode::automatic));
  ASSERT_TRUE(reading.until_streaming()) << reading.told();
  must(connection_,
       "SELECT dovetail.publish('order', 'k', 'placed', 'later'::bytea, deliver_at => "
       "clock_timestamp() + interval '300 ms')");
  ASSERT_TRUE(until_read(reading, 1));
  EXPECT_TRUE(reading.streams());
}

TEST_F(WalSourceTest, AStreamThatIsCutEndsTheSessionAndTheNextOneLosesNothing) {
  WalReading reading(database_, quick_wal(ReadMode::automatic));
  ASSERT_TRUE(reading.until_streaming()) << reading.told();
  publish(0, 5);
  must(connection_,
       "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE database = "
       "current_database()");
  EXPECT_TRUE(failed_with(reading.until_lost(), Errc::unavailable));
  EXPECT_FALSE(reading.streams());
  publish(5, 10);
  ASSERT_TRUE(reading.source->open());
  ASSERT_TRUE(reading.until([&] { return reading.counts.size() == 10; }));
  ASSERT_TRUE(reading.until_streaming()) << reading.told();
  publish(10, 12);
  ASSERT_TRUE(reading.until([&] { return reading.counts.size() == 12; }));
  EXPECT_EQ(reading.metrics.stream_starts, 2U);
  EXPECT_EQ(reading.metrics.stream_ends, 1U);
}

TEST_F(WalSourceTest, APublicationThatIsChangedEndsTheStreamBeforeItIsTrusted) {
  WalReading reading(database_, quick_wal(ReadMode::automatic));
  ASSERT_TRUE(reading.until_streaming()) << reading.told();
  must(connection_, "ALTER PUBLICATION dovetail_outbox SET (publish = 'update')");
  publish(0, 3);
  EXPECT_TRUE(failed_with(reading.until_lost(), Errc::unavailable));
  EXPECT_TRUE(contains(reading.told(), "was changed")) << reading.told();
  ASSERT_TRUE(reading.source->open());
  ASSERT_TRUE(until_read(reading, 3)) << "the table has them";
  ASSERT_TRUE(reading.until([&] { return contains(reading.told(), "publishes no inserts"); }));
  must(connection_, "ALTER PUBLICATION dovetail_outbox SET (publish = 'insert')");
  EXPECT_TRUE(reading.until_streaming()) << "and it is tried again";
}

TEST_F(WalSourceTest, MoreLogThanMayBeKeptGivesTheSlotUp) {
  WalSourceOptions options = quick_wal(ReadMode::automatic);
  options.reading.retained_wal_max = 4 << 20;
  WalReading reading(database_, options);
  ASSERT_TRUE(reading.until_streaming()) << reading.told();
  reading.settles = false;
  publish("stuck");
  ASSERT_TRUE(until_read(reading, 1));
  must(connection_,
       "CREATE TABLE other AS SELECT repeat(n::text, 200) FROM generate_series(1, 10000) AS n");
  EXPECT_TRUE(failed_with(reading.until_lost(), Errc::unavailable));
  EXPECT_TRUE(contains(reading.told(), "retained_wal_max")) << reading.told();
  EXPECT_TRUE(eventually([&] { return slots() == 0; }));
  reading.unsettled.clear();
  ASSERT_TRUE(reading.source->open());
  ASSERT_TRUE(until_read(reading, 2));
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(reading.step());
  EXPECT_EQ(slots(), 0) << "a sink that takes nothing is no reason for a slot";
  reading.settles = true;
  ASSERT_TRUE(reading.settle());
  EXPECT_TRUE(reading.until_streaming()) << "a sink that takes again";
}

TEST_F(WalSourceTest, WhereTheRoleMayNotReplicateTheTableIsReadAndItIsSaidOnce) {
  must(connection_, "CREATE ROLE plain_" + database_.name + " LOGIN");
  WalSourceOptions options = quick_wal(ReadMode::automatic);
  options.retry_every = 50ms;
  options.replication_conninfo = database_.conninfo + " user=plain_" + database_.name;
  {
    WalReading reading(database_, options);
    publish(0, 3);
    ASSERT_TRUE(until_read(reading, 3));
    ASSERT_TRUE(reading.until([&] { return !reading.changes.empty(); }));
    publish(3, 5);
    ASSERT_TRUE(until_read(reading, 5));
    for (int i = 0; i < 40; ++i) ASSERT_TRUE(reading.step());
    EXPECT_EQ(reading.changes.size(), 1U) << reading.told();
    EXPECT_TRUE(contains(reading.told(), "REPLICATION")) << reading.told();
    options.reading.mode = ReadMode::wal;
    WalReading wal(database_, options, "wal");
    EXPECT_TRUE(failed_with(wal.until_lost(), Errc::rejected)) << "asked for, it is an error";
  }
  must(connection_, "DROP ROLE plain_" + database_.name);
}

// Without a time limit each of these waits takes 10 s, or forever.
TEST_F(WalSourceTest, WhereTheWayToTheLogIsDeadAStopDoesNotWaitForIt) {
  servers::TcpProxy link(server_port());
  WalSourceOptions options = quick_wal(ReadMode::automatic);
  options.replication_conninfo = through(link);
  std::string step;
  options.passing = [&](std::string_view passed) { step = passed; };
  const auto stops_soon = [](WalReading& reading) {
    const auto start = std::chrono::steady_clock::now();
    reading.source.reset();
    EXPECT_LT(std::chrono::steady_clock::now() - start, 5s);
  };
  Connection open = database_.connect();
  must(open, "BEGIN; SELECT pg_current_xact_id()");
  WalReading making(database_, options, "making");
  ASSERT_TRUE(making.until([&] { return step == "slot asked for"; }));
  link.stall();
  stops_soon(making);
  WalReading connecting(database_, options, "connecting");
  ASSERT_TRUE(connecting.until([&] { return step == "connecting"; }));
  stops_soon(connecting);
}

// The host's time, which the test can move ahead.
class PushedClock final : public Clock {
 public:
  TimePoint now() override { return system_clock().now() + pushed_.load(); }
  WallTime wall() override { return system_clock().wall(); }
  void sleep(Duration duration, std::stop_token stop) override {
    system_clock().sleep(duration, std::move(stop));
  }
  void push(Duration by) { pushed_ = pushed_.load() + by; }

 private:
  std::atomic<Duration> pushed_{};
};

TEST_F(WalSourceTest, TimeInWhichNobodyReadsIsNotHeldAgainstTheLog) {
  PushedClock clock;
  WalReading reading(database_, quick_wal(ReadMode::automatic), "test", clock);
  reading.on_change = [&] { clock.push(1h); };
  ASSERT_TRUE(reading.until_streaming()) << reading.told();
  publish(0, 3);
  ASSERT_TRUE(until_read(reading, 3)) << reading.told();
  EXPECT_TRUE(reading.streams()) << reading.told();
}

TEST_F(WalSourceTest, WhereTheProbeDoesNotComeOutTheTableIsRead) {
  if (is_before(connection_, 14)) GTEST_SKIP() << "PostgreSQL 14 brought messages";
  servers::TcpProxy link(server_port());
  WalSourceOptions options = quick_wal(ReadMode::automatic);
  options.replication_conninfo = through(link);
  options.probe_within = 100ms;
  options.passing = [&](std::string_view step) {
    if (step == "stream started") link.stall();
  };
  WalReading reading(database_, options);
  const Status lost = reading.until_lost();
  EXPECT_EQ(lost.error().code, Errc::unavailable);
  EXPECT_TRUE(contains(lost.error().text, "did not come out")) << text_of(lost);
  publish(0, 3);
  ASSERT_TRUE(reading.source->open());
  EXPECT_TRUE(until_read(reading, 3)) << reading.told();
}

TEST_F(WalSourceTest, WhoMayNotWriteTheProbeReadsTheLogAllTheSame) {
  const std::string role = "few_" + database_.name;
  ASSERT_TRUE(create_roles(connection_));
  must(connection_, "CREATE ROLE " + role + " LOGIN REPLICATION");
  must(connection_, "GRANT dovetail_relay TO " + role);
  must(connection_,
       "DO $$ DECLARE f regprocedure; BEGIN FOR f IN SELECT oid FROM pg_proc WHERE proname = "
       "'pg_logical_emit_message' LOOP EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', "
       "f); END LOOP; END $$");
  const std::string conninfo = database_.conninfo;
  database_.conninfo += " user=" + role;
  {
    WalReading reading(database_, quick_wal(ReadMode::automatic));
    ASSERT_TRUE(reading.until_streaming());
    publish(0, 3);
    EXPECT_TRUE(until_read(reading, 3));
    EXPECT_TRUE(reading.streams()) << reading.told();
  }
  database_.conninfo = conninfo;
  must(connection_, "DROP ROLE " + role);
}

}  // namespace
}  // namespace dovetail::postgres
