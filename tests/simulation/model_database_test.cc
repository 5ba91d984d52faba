// A model of a database is useful only if it behaves like the real one. PostgreSQL was observed
// with these histories; a server can run the same scripts.
#include "simulation/model_database.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "simulation/visibility_scripts.h"

namespace dovetail::sim {
namespace {

StoredEvent event_named(std::string_view name) {
  StoredEvent event;
  event.type = name;
  event.aggregate_type = "order";
  event.aggregate_id = "k";
  return event;
}

// Runs a script and reads in four ways, each with its own position.
class Player {
 public:
  void play(const VisibilityScript& script) {
    for (const Step& step : script.steps) take(step);
  }

  std::string by_windows, by_xmin_gate, by_xid_order, by_cursor;

 private:
  void take(const Step& step) {
    switch (step.action) {
      case Action::begin:
      case Action::begin_read_only:
        sessions_[step.session] = database_.begin();
        return;
      case Action::begin_in_other_database:
        // Transaction ids belong to the whole cluster.
        sessions_[step.session] = database_.begin();
        database_.xid_of(sessions_[step.session]);
        return;
      case Action::take_xid:
        database_.xid_of(sessions_.at(step.session));
        return;
      case Action::next_seq:
        taken_ = database_.next_seq();
        EXPECT_FALSE(database_.has_xid(sessions_.at(step.session)));
        return;
      case Action::insert:
        database_.insert(sessions_.at(step.session), event_named(step.event));
        return;
      case Action::insert_with_taken_seq:
        database_.insert(sessions_.at(step.session), event_named(step.event), taken_);
        return;
      case Action::commit:
        database_.commit(sessions_.at(step.session));
        return;
      case Action::poll:
        return poll();
    }
  }

  static void add(std::string& list, const OutboxRow& row) {
    if (!list.empty()) list += ' ';
    list += row.event.type;
  }

  void poll() {
    const Snapshot now = database_.snapshot();
    for (const OutboxRow* row : database_.window({done_, {}, 0}, now)) add(by_windows, *row);
    done_ = now;

    std::vector<OutboxRow> rows = database_.outbox();
    std::erase_if(rows, [&](const OutboxRow& row) { return !database_.visible(row, now); });
    std::sort(rows.begin(), rows.end(),
              [](const OutboxRow& a, const OutboxRow& b) { return a.seq < b.seq; });
    for (const OutboxRow& row : rows) {
      if (row.xid < now.xmin() && row.seq > gate_cursor_) {
        add(by_xmin_gate, row);
        gate_cursor_ = row.seq;
      }
      if (row.seq > cursor_) {
        add(by_cursor, row);
        cursor_ = row.seq;
      }
    }
    std::stable_sort(rows.begin(), rows.end(),
                     [](const OutboxRow& a, const OutboxRow& b) { return a.xid < b.xid; });
    for (const OutboxRow& row : rows) {
      if (row.xid >= now.xmin() || row.xid <= xid_cursor_) continue;
      add(by_xid_order, row);
      xid_cursor_ = row.xid;
    }
  }

  ModelDatabase database_;
  std::map<char, TxId> sessions_;
  std::int64_t taken_ = 0;
  Snapshot done_;
  std::int64_t gate_cursor_ = 0;
  std::int64_t cursor_ = 0;
  Xid xid_cursor_ = 0;
};

TEST(ModelDatabase, ShowsWhatPostgresShowsInTheFiveScripts) {
  for (const VisibilityScript& script : visibility_scripts()) {
    SCOPED_TRACE(script.name);
    Player player;
    player.play(script);
    EXPECT_EQ(player.by_windows, script.by_windows);
    EXPECT_EQ(player.by_xmin_gate, script.by_xmin_gate);
    EXPECT_EQ(player.by_xid_order, script.by_xid_order);
    EXPECT_EQ(player.by_cursor, script.by_cursor);
  }
}

TEST(ModelDatabase, ARowLockIsHeldUntilItsTransactionEnds) {
  ModelDatabase database;
  const TxId a = database.begin();
  const TxId b = database.begin();
  EXPECT_TRUE(database.try_lock(a, "k"));
  EXPECT_FALSE(database.try_lock(b, "k"));
  database.commit(a);
  EXPECT_TRUE(database.try_lock(b, "k"));
}

TEST(ModelDatabase, AnEventLivesAndDiesWithItsTransaction) {
  ModelDatabase database;
  const TxId kept = database.begin();
  database.write(kept, "k", event_named("kept"));
  database.savepoint(kept);
  database.write(kept, "k", event_named("undone"));
  database.rollback_to_savepoint(kept);
  database.commit(kept);
  const TxId dropped = database.begin();
  database.write(dropped, "k", event_named("dropped"));
  database.rollback(dropped);

  const auto rows = database.window({}, database.snapshot());
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0]->event.type, "kept");
  EXPECT_EQ(database.business_changes().size(), 1U);
}

TEST(ModelDatabase, ACrashGivesNumbersTwiceThatNobodyHasPutOnDisk) {
  ModelDatabase database;
  const TxId kept = database.begin();
  database.write(kept, "k", event_named("kept"));
  database.commit(kept);
  const std::string run = database.run();
  const TxId undone = database.begin();
  const Xid number = database.xid_of(undone);
  database.rollback(undone);
  const Snapshot seen = database.snapshot();
  EXPECT_TRUE(seen.had_ended(number));
  database.lane(0).progress.done = seen;
  database.crash();
  EXPECT_NE(database.run(), run);
  EXPECT_FALSE(database.lane(0).progress.done.had_ended(number)) << "it was not on disk either";
  const TxId again = database.begin();
  database.write(again, "k", event_named("again"));
  EXPECT_EQ(database.xid_of(again), number);
  database.commit(again);
  EXPECT_TRUE(database.window({seen, {}, 0}, database.snapshot()).empty()) << "what memory hides";
  const auto rows = database.window(database.lane(0).progress, database.snapshot());
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[1]->event.type, "again");
}

}  // namespace
}  // namespace dovetail::sim
