#include "postgres/outbox/source.h"

#include <cstdlib>

#include "core/testing/test_clock.h"
#include "dovetail/postgres.h"
#include "host/host.h"
#include "postgres/schema/schema.h"
#include "postgres/testing/test_source.h"
#include "postgres/testing/test_version.h"

namespace dovetail::postgres {
namespace {

using namespace std::chrono_literals;

// Moves only in sleep(), and by a second at one call of now(): there the thread stands still.
class StallingClock final : public Clock {
 public:
  TimePoint now() override {
    if (calls_until_stall_ > 0 && --calls_until_stall_ == 0) clock_.advance(1s);
    return clock_.now();
  }
  WallTime wall() override { return clock_.wall(); }
  void sleep(Duration duration, std::stop_token) override { clock_.advance(duration); }
  void stall_at_call(int call) { calls_until_stall_ = call; }

 private:
  TestClock clock_;
  int calls_until_stall_ = 0;
};

class PostgresSourceTest : public testing::Test {
 protected:
  PostgresSourceTest() : connection_(database_.connect()) {
    EXPECT_TRUE(create_schema(connection_));
  }

  void open(std::uint32_t lane = 0, std::uint32_t lanes = 1) {
    open_at(database_.conninfo, lane, lanes);
  }
  void open_at(const std::string& conninfo, std::uint32_t lane = 0, std::uint32_t lanes = 1) {
    reader_ = Reader{};
    reader_.conninfo = conninfo;
    reader_.relay = "test";
    reader_.lane = lane;
    reader_.lanes = lanes;
    SourceOptions options;
    options.log = [this](std::string_view text) { logged_ += text; };
    source_ = std::make_unique<PostgresSource>(reader_, system_clock(), options);
    opened_ = source_->open();
  }
  void publish(const std::string& key, const std::string& payload) {
    must(connection_, "SELECT dovetail.publish('order', '" + key + "', 'placed', '" + payload +
                          "', content_type => 'text/plain')");
  }
  std::unique_ptr<Batch> read(std::size_t events_max = 1000, Duration wait = 50ms,
                              std::size_t bytes_max = 1 << 20) {
    return read_some(*source_, {events_max, bytes_max, wait});
  }
  Payloads take(std::size_t events_max = 1000) { return take_all(*source_, events_max); }
  void settle(const Batch& batch) { settle_all(*source_, batch); }

  TestDatabase database_;
  Connection connection_;
  Reader reader_;
  std::unique_ptr<PostgresSource> source_;
  Status opened_{};
  std::string logged_;
};

TEST_F(PostgresSourceTest, LanesTogetherReadEverythingOnceAndAKeyAlwaysInOneLane) {
  for (int i = 0; i < 100; ++i) publish("k" + std::to_string(i % 25), std::to_string(i));
  for (int i = 0; i < 10; ++i) publish("", "no key " + std::to_string(i));
  std::map<std::string, std::uint32_t> lane_of_key;
  std::size_t total = 0;
  for (std::uint32_t lane = 0; lane < 3; ++lane) {
    open(lane, 3);
    for (auto batch = read(7); !batch->empty(); batch = read(7)) {
      for (const Event& event : batch->events()) {
        if (!event.has_key()) continue;
        EXPECT_EQ(lane_of_key.emplace(std::string(event.aggregate_id), lane).first->second, lane);
      }
      total += batch->size();
    }
  }
  EXPECT_EQ(total, 110U);
}

TEST_F(PostgresSourceTest, PagesKeepToTheirBytesAndOneEventAlwaysFits) {
  Payloads sent;
  for (int i = 0; i < 60; ++i)
    sent.push_back(std::to_string(i) + std::string(i % 20 == 7 ? 5000 : i % 3 == 0 ? 900 : 1, 'x'));
  for (const std::string& payload : sent) publish("k", payload);
  open();
  Payloads all;
  for (auto batch = read(40, 50ms, 4000); !batch->empty(); batch = read(40, 50ms, 4000)) {
    std::size_t bytes = 0;
    for (const Event& event : batch->events()) {
      all.emplace_back(event.payload);
      bytes += event.payload.size();
    }
    EXPECT_TRUE(bytes <= 4000 || batch->size() == 1) << bytes << " bytes in " << batch->size();
    settle(*batch);
  }
  EXPECT_EQ(all, sent);
}

TEST_F(PostgresSourceTest, ALongGapInTheNumbersIsCrossedQuickly) {
  Payloads sent;
  for (int i = 0; i < 30; ++i) {
    if (i % 10 == 5)
      must(connection_,
           "SELECT setval('dovetail.outbox_seq', last_value + 3000000) "
           "FROM dovetail.outbox_seq");
    sent.push_back(std::to_string(i));
    publish("k", sent.back());
  }
  open();
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(take(8), sent);
  // Page by page of 10 numbers it would be a million statements.
  EXPECT_LT(std::chrono::steady_clock::now() - start, 30s);
}

TEST_F(PostgresSourceTest, APageThatWasAskedForAheadIsNotTakenWhenLessIsWanted) {
  for (int i = 0; i < 100; ++i) publish("k", std::to_string(i));
  open();
  Payloads all;
  for (const std::size_t events_max : {20U, 20U, 5U, 30U, 1U, 50U, 50U}) {
    const auto batch = read(events_max);
    EXPECT_LE(batch->size(), events_max);
    for (const Event& event : batch->events()) all.emplace_back(event.payload);
  }
  ASSERT_EQ(all.size(), 100U);
  for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i], std::to_string(i));
}

TEST_F(PostgresSourceTest, ADelayedEventGoesOutWhenItIsDue) {
  open();
  must(connection_,
       "SELECT dovetail.publish('order', 'k', 'placed', 'later'::bytea, deliver_at => "
       "clock_timestamp() + interval '300 ms')");
  publish("k", "now");
  EXPECT_EQ(take(), (Payloads{"now"}));
  const auto batch = read(10, 20s);
  ASSERT_EQ(batch->size(), 1U);
  EXPECT_EQ(batch->events()[0].payload, "later");
  EXPECT_EQ(number(connection_, "SELECT count(*) FROM dovetail.delayed"), 0);
  EXPECT_EQ(number(connection_,
                   "SELECT count(*) FROM dovetail.outbox WHERE payload = 'later' AND "
                   "clock_timestamp() < created_at"),
            0)
      << "never early";
}

TEST_F(PostgresSourceTest, DelayedEventsComeInTheOrderInWhichTheyAreDue) {
  must(connection_,
       "SELECT dovetail.publish('order', 'k', 'placed', n::text, deliver_at => clock_timestamp() + "
       "(400 - 100 * n) * interval '1 ms') FROM generate_series(1, 3) AS n");
  open();
  Payloads all;
  EXPECT_TRUE(eventually([&] {
    const auto batch = read();
    for (const Event& event : batch->events()) all.emplace_back(event.payload);
    return all.size() == 3;
  }));
  EXPECT_EQ(all, (Payloads{"3", "2", "1"}));
}

TEST_F(PostgresSourceTest, AStandbyIsRefused) {
  servers::Started standby("standby");
  if (standby.server().conninfo.empty()) GTEST_SKIP() << standby.server().missing;
  ASSERT_TRUE(eventually([&] {  // until the database has reached that point
    return Connection::open(servers::with_database(standby.server().conninfo, database_.name))
        .has_value();
  }));
  open_at(servers::with_database(standby.server().conninfo, database_.name));
  EXPECT_TRUE(failed_with(opened_, Errc::unavailable));
  EXPECT_TRUE(contains(text_of(opened_), "standby")) << text_of(opened_);
}

// A dump and restore into a cluster whose transactions have lower numbers.
TEST_F(PostgresSourceTest, ARestoreIntoAnotherClusterLosesNothing) {
  if (!is_before(connection_, 16)) GTEST_SKIP() << "pg_dump of Debian refuses a newer server";
  servers::Started other("other");
  if (other.server().conninfo.empty()) GTEST_SKIP() << other.server().missing;
  // Numbers here are ahead of those there.
  for (int i = 0; i < 200; ++i) must(connection_, "SELECT pg_current_xact_id()");
  open();
  publish("k", "1");
  EXPECT_EQ(take(), (Payloads{"1"}));
  publish("k", "2");
  Result<Connection> there = Connection::open(other.server().conninfo);
  ASSERT_TRUE(there);
  must(*there, "CREATE DATABASE restored");
  const std::string target = servers::with_database(other.server().conninfo, "restored");
  ASSERT_EQ(std::system(("pg_dump '" + database_.conninfo + "' | psql -Xq -v ON_ERROR_STOP=1 '" +
                         target + "' >/dev/null")
                            .c_str()),
            0);
  open_at(target);
  ASSERT_TRUE(opened_) << text_of(opened_);
  EXPECT_TRUE(contains(logged_, "another cluster")) << logged_;
  EXPECT_EQ(take(), (Payloads{"1", "2"})) << "what is there is sent again, in order";
  EXPECT_TRUE(take().empty()) << "and only once";
  Result<Connection> restored = Connection::open(target);
  ASSERT_TRUE(restored);
  must(*restored, "SELECT dovetail.publish('order', 'k', 'placed', '3')");
  EXPECT_EQ(take(), (Payloads{"3"}));
  logged_.clear();
  open_at(target);
  EXPECT_TRUE(take().empty());
  EXPECT_EQ(logged_, "");
}

TEST_F(PostgresSourceTest, WhatWasReadThroughALostConnectionIsReadAgain) {
  open();
  publish("k", "1");
  const auto batch = read();
  ASSERT_EQ(batch->size(), 1U);
  reader_.connection.close();
  ASSERT_TRUE(connect(reader_)) << "as the lease does when it renews";
  ASSERT_TRUE(source_->settle(*batch, std::vector<Settled>{Settled::delivered}));
  EXPECT_TRUE(failed_with(source_->flush(), Errc::unavailable))
      << "the new connection may lead to another server";
  ASSERT_TRUE(source_->open());
  EXPECT_EQ(take(), (Payloads{"1"}));
}

TEST_F(PostgresSourceTest, ProgressIsSmallAndTheOutboxIsNeverWritten) {
  open();
  for (int i = 0; i < 50; ++i) publish("k", std::to_string(i));
  EXPECT_EQ(take(9).size(), 50U);
  EXPECT_EQ(number(connection_, "SELECT count(*) FROM dovetail.relay_lane"), 1);
  EXPECT_EQ(number(connection_,
                   "SELECT sum(n_tup_upd + n_tup_del) FROM pg_stat_user_tables WHERE relname LIKE "
                   "'outbox%' AND relname <> 'outbox_limit'"),
            0);
  EXPECT_EQ(text(connection_, "SELECT string_agg(DISTINCT state, ' ') FROM dovetail.events"),
            "delivered");
  EXPECT_EQ(number(connection_, "SELECT pending FROM dovetail.lag"), 0);
  EXPECT_EQ(number(connection_, "SELECT delivered_total FROM dovetail.relay_lane"), 50);
}

TEST_F(PostgresSourceTest, TheBacklogShrinksAsEventsAreSettled) {
  must(connection_, "SELECT dovetail.set_backlog_limit(3)");
  for (int i = 0; i < 3; ++i) publish("k", "x");
  EXPECT_FALSE(connection_.execute("SELECT dovetail.publish('a', '1', 't', '{}')"));
  open();
  EXPECT_EQ(take().size(), 3U);
  EXPECT_TRUE(connection_.execute("SELECT dovetail.publish('a', '1', 't', '{}')"));
}

TEST_F(PostgresSourceTest, AReadLooksAtTheTableWhereverItsThreadStandsStill) {
  StallingClock clock;
  open();
  PostgresSource source(reader_, clock);
  ASSERT_TRUE(source.open());
  for (int call = 1; call <= 8; ++call) {
    EXPECT_TRUE(read_some(source, {10, 1 << 20, 0ms})->empty());  // the next look is later
    publish("k", "x");
    clock.stall_at_call(call);
    const auto batch = read_some(source, {10, 1 << 20, 50ms});
    EXPECT_EQ(batch->size(), 1U) << "a stall at call " << call;
    settle_all(source, *batch);
  }
}

TEST_F(PostgresSourceTest, AnIdleSourceAsksLittle) {
  open();
  EXPECT_TRUE(take().empty());
  const auto statements = [&] {
    return number(connection_,
                  "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()");
  };
  const std::int64_t before = statements();
  EXPECT_TRUE(read(10, 2s)->empty());
  reader_.connection.close();  // its counts are known when the session has ended
  EXPECT_TRUE(eventually([&] { return statements() > before + 20; }));
  EXPECT_LT(statements() - before, 250) << "about 40 looks a second";
}

}  // namespace
}  // namespace dovetail::postgres
