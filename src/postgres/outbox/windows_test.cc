// What windows guarantee when something else reads the same table in between.
#include "postgres/outbox/windows.h"

#include "host/host.h"
#include "postgres/outbox/snapshot.h"
#include "postgres/outbox/source.h"
#include "postgres/schema/schema.h"
#include "postgres/testing/test_source.h"
#include "postgres/wal/slot.h"

namespace dovetail::postgres {
namespace {

using namespace std::chrono_literals;

class PostgresWindows : public testing::Test {
 protected:
  PostgresWindows() : connection_(database_.connect()), other_(database_.connect()) {
    EXPECT_TRUE(create_schema(connection_));
    reader_.conninfo = database_.conninfo;
    reader_.relay = "test";
    EXPECT_TRUE(source_.open());
  }

  static std::string publishing(const std::string& payload) {
    return "SELECT dovetail.publish('order', 'k', 'placed', '" + payload +
           "', content_type => 'text/plain')";
  }
  void publish(const std::string& payload) { must(connection_, publishing(payload)); }
  std::string snapshot() { return text(connection_, "SELECT pg_current_snapshot()::text"); }
  const std::string& read_to() { return source_.progress().read_to().prev; }
  std::string stored() {
    return text(connection_, "SELECT window_start::text FROM dovetail.relay_lane");
  }
  // A snapshot of now without one event's transaction.
  std::string snapshot_without(const std::string& payload) {
    return text(connection_,
                "SELECT xid || ':' || pg_snapshot_xmax(pg_current_snapshot()) || ':' || "
                "xid FROM dovetail.outbox WHERE payload = '" +
                    payload + "'");
  }

  std::unique_ptr<Batch> read(std::size_t events_max = 1000) {
    return read_some(source_, {events_max, 1 << 20, 50ms});
  }
  Payloads take(std::size_t events_max = 1000) { return take_all(source_, events_max); }
  void settle(const Batch& batch) { settle_all(source_, batch); }
  bool shows(const std::string& of, const std::string& payload) {
    return number(connection_, "SELECT pg_visible_in_snapshot(xid, '" + of +
                                   "')::int FROM dovetail.outbox WHERE payload = '" + payload +
                                   "'") == 1;
  }

  TestDatabase database_;
  Connection connection_;
  Connection other_;
  Reader reader_;
  PostgresSource source_{reader_, system_clock()};
};

TEST_F(PostgresWindows, AnEndIsExactlyWhatItsSnapshotShows) {
  publish("1");
  must(other_, "BEGIN");
  must(other_, publishing("late"));
  const std::string end = snapshot();
  publish("2");
  must(other_, "COMMIT");
  ASSERT_TRUE(source_.end_at(end));
  EXPECT_EQ(take(), (Payloads{"1"}));
  EXPECT_TRUE(source_.has_ended());
  EXPECT_TRUE(take().empty()) << "nothing more until it may go on";
  source_.go_on();
  EXPECT_EQ(take(), (Payloads{"late", "2"})) << "and the rest comes once";
  EXPECT_TRUE(take().empty());
}

// Like a commit that waits for a synchronous standby: the WAL has it, but nobody sees it yet.
TEST_F(PostgresWindows, ASnapshotIsVisibleWhenAllCommitsThatItShowsAre) {
  must(other_, "BEGIN");
  must(other_, publishing("late"));
  publish("1");
  const std::int64_t next =
      number(connection_, "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint");
  const auto all_before = [](std::int64_t xid) {
    return std::to_string(xid) + ":" + std::to_string(xid) + ":";
  };
  const auto can_be_seen = [&](const std::string& of) {
    const Result<bool> visible = is_visible(connection_, of);
    EXPECT_TRUE(visible) << text_of(visible);
    return visible.value_or(false);
  };
  EXPECT_TRUE(can_be_seen(snapshot()));
  EXPECT_FALSE(can_be_seen(all_before(next)));
  must(other_, "COMMIT");
  // Other tests may have transactions open that it shows, too.
  EXPECT_TRUE(eventually([&] { return can_be_seen(all_before(next)); }));
  EXPECT_FALSE(can_be_seen(all_before(next + 1'000'000))) << "they have not begun";
}

TEST_F(PostgresWindows, AnEndThatWasPassedAlreadyTakesNothingBack) {
  publish("1");
  const std::string end = snapshot();
  publish("2");
  EXPECT_EQ(take().size(), 2U);
  ASSERT_TRUE(source_.end_at(end));
  EXPECT_TRUE(take().empty());
  EXPECT_TRUE(source_.has_ended());
  EXPECT_TRUE(shows(read_to(), "2"));
  source_.go_on();
  EXPECT_TRUE(take().empty());
}

// WAL snapshots follow the commit order in the WAL, ours the order of visibility.
TEST_F(PostgresWindows, AnEndThatShowsAnotherChoiceIsUnitedWithWhatWasHandedOut) {
  must(other_, "BEGIN");
  must(other_, publishing("A"));
  publish("B");
  EXPECT_EQ(take(), (Payloads{"B"}));
  must(other_, "COMMIT");
  ASSERT_TRUE(source_.end_at(snapshot_without("B")));
  EXPECT_EQ(take(), (Payloads{"A"}));
  EXPECT_TRUE(shows(read_to(), "A") && shows(read_to(), "B"));
  EXPECT_TRUE(source_.flush());
  EXPECT_EQ(stored(), read_to());
  source_.go_on();
  EXPECT_TRUE(take().empty());
  ASSERT_TRUE(source_.open());
  EXPECT_TRUE(take().empty()) << "nor after a restart";
}

TEST_F(PostgresWindows, ALargeEndComesInPagesAndMayBeLeftInTheMiddle) {
  for (int i = 0; i < 50; ++i) publish(std::to_string(i));
  const std::string end = snapshot();
  publish("behind");
  ASSERT_TRUE(source_.end_at(end));
  EXPECT_FALSE(source_.is_between_windows());
  const auto batch = read(7);
  EXPECT_EQ(batch->size(), 7U);
  EXPECT_FALSE(source_.has_ended());
  settle(*batch);
  source_.go_on();
  EXPECT_FALSE(source_.has_ended());
  const Payloads rest = take(7);
  ASSERT_EQ(rest.size(), 44U);
  EXPECT_EQ(rest[0], "7");
  EXPECT_EQ(rest[43], "behind");
}

TEST_F(PostgresWindows, AnEndIsReadOnAfterARestartInItsMiddle) {
  for (int i = 0; i < 50; ++i) publish(std::to_string(i));
  ASSERT_TRUE(source_.end_at(snapshot()));
  settle(*read(10));
  publish("behind");
  ASSERT_TRUE(source_.open());
  const Payloads rest = take(7);
  ASSERT_EQ(rest.size(), 41U);
  EXPECT_EQ(rest[0], "10");
}

TEST_F(PostgresWindows, WhatASnapshotCoversIsProgressWhenAllThatWasHandedOutIsSettled) {
  publish("1");
  const auto first = read();
  ASSERT_EQ(first->size(), 1U);
  publish("2");
  Batch elsewhere;
  elsewhere.append(first->events()[0]);
  source_.progress().add(1);
  const std::string shown = snapshot();
  source_.progress().cover(shown, 2);
  EXPECT_EQ(read_to(), shown);
  settle(*first);
  EXPECT_NE(stored(), shown) << "the second is not settled";
  EXPECT_TRUE(shows(stored(), "1"));
  EXPECT_FALSE(shows(stored(), "2"));
  settle(elsewhere);
  EXPECT_EQ(stored(), shown);
  EXPECT_EQ(number(connection_, "SELECT delivered_total FROM dovetail.relay_lane"), 2);
  EXPECT_EQ(number(connection_, "SELECT passed_seq FROM dovetail.relay_lane"), 2);
  publish("3");
  EXPECT_EQ(take(), (Payloads{"3"})) << "windows begin behind it";
}

TEST_F(PostgresWindows, AnEarlierProgressDoesNotWaitForWhatIsHandedOutElsewhereLater) {
  publish("1");
  const auto first = read();
  source_.progress().add(1000);
  const std::string shown = read_to();
  settle(*first);
  EXPECT_EQ(stored(), shown);
  source_.progress().cover(snapshot(), 0);
  EXPECT_TRUE(source_.flush());
  EXPECT_EQ(stored(), shown);
}

TEST_F(PostgresWindows, ChoresLetGoDelayedEventsThatAreDue) {
  must(connection_,
       "SELECT dovetail.publish('order', 'k', 'placed', n::text, deliver_at => clock_timestamp() + "
       "n * interval '200 ms') FROM generate_series(1, 2) AS n");
  EXPECT_TRUE(take().empty());
  const auto released = [&](int count) {
    return eventually([&] {
      const Status done = source_.do_chores();
      EXPECT_TRUE(done) << text_of(done);
      return number(connection_, "SELECT count(*) FROM dovetail.outbox") == count;
    });
  };
  EXPECT_TRUE(released(1));
  EXPECT_TRUE(released(2));
  reader_.connection.close();
  EXPECT_TRUE(failed_with(source_.do_chores(), Errc::unavailable));
}

TEST(SnapshotSum, EitherShowsWhatOneOfThemShows) {
  const Snapshot one = *Snapshot::parse("10:20:10,12,15");
  const Snapshot other = *Snapshot::parse("11:25:11,12,21");
  for (const Snapshot& sum : {Snapshot::either(one, other), Snapshot::either(other, one)}) {
    EXPECT_EQ(sum.text(), "12:25:12,21");
    for (std::uint64_t xid = 1; xid < 30; ++xid)
      EXPECT_EQ(sum.shows(xid), one.shows(xid) || other.shows(xid)) << xid;
  }
}

TEST(SnapshotSum, TransactionsCanBeAdded) {
  const Snapshot before = *Snapshot::parse("10:20:10,12,15");
  const std::vector<std::uint64_t> added{22, 12};
  const Snapshot sum = before.with(added);
  EXPECT_EQ(sum.text(), "10:23:10,15,20,21");
  for (std::uint64_t xid = 1; xid < 30; ++xid)
    EXPECT_EQ(sum.shows(xid), before.shows(xid) || xid == 22 || xid == 12) << xid;
  EXPECT_EQ(before.with({}).text(), before.text());
}

TEST(SnapshotSum, AShortNumberIsWidenedToTheNearest) {
  const Snapshot late = *Snapshot::parse("8589934594:8589934596:");  // 2^33 + 2 to 2^33 + 4
  EXPECT_EQ(late.widen(3), 8589934595U);
  EXPECT_EQ(late.widen(7), 8589934599U);
  EXPECT_EQ(late.widen(4294967295U), 8589934591U);
  EXPECT_EQ(Snapshot::parse("5:5:")->widen(4294967295U), 0U);
}

}  // namespace
}  // namespace dovetail::postgres
