// A relay that reads the WAL is killed at every point of its work, again and again,
// while writers produce WAL of every form: nothing is lost, invented or out of
// order.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <random>
#include <thread>
#include <vector>

#include "kit/claims.h"
#include "kit/dying.h"
#include "postgres/testing/test_version.h"
#include "proofs/wal/dying_stage.h"

namespace dovetail::shop {
namespace {

using namespace std::chrono_literals;
using live::is_long;

using Words = std::vector<std::string>;

struct Point {
  const char* group;  // its group in the catalogue of failures
  const char* name;
  std::uint64_t times_max = 1;  // the process dies at one of the first `times_max` occurrences
  const char* mode = "";        // if only one mode passes it
  bool makes_slot = false;      // the existing slot is dropped before
  Words more{};                 // more arguments
  int since = 13;               // the PostgreSQL version that passes it
};

const std::vector<Point> kPoints = {
    {"C1", "received", 8},
    {"C1", "step:commit read", 8},
    {"C2", "written", 8},
    {"C2", "settled", 8},
    {"C2", "step:progress written", 8},
    {"C2", "step:confirmed", 8, "wal"},
    {"C2", "step:report written", 8, "wal"},
    {"C3", "step:reported", 8},
    {"C3", "flushed", 8},
    {"C4", "row", 2000},
    {"C4", "sent", 8},
    {"C4", "step:inside a transaction", 8},
    {"C5", "step:connecting"},
    {"C5", "step:connected"},
    {"C5", "step:slot asked for", 1, "", true},
    {"C5", "step:slot made", 1, "", true},
    {"C5", "step:windows read", 1, "", true},
    {"C5", "step:windows end", 1, "", true},
    {"C5", "step:stream starting", 1, "", true},
    {"C5", "step:stream started", 1, "", true},
    {"C5", "step:stream started", 1, "wal"},
    {"C5", "step:probe seen", 1, "auto", false, {}, 14},
    {"C5", "step:safe point taken", 4},
    {"C5", "step:safe point covered", 4},
    {"C6", "reopening", 1, "", false, {"--cut", "3"}},
    {"C6", "reopened", 1, "", false, {"--cut", "3"}},
    {"C6", "received-again", 4, "", false, {"--cut", "3"}},
};

// Through a link so slow that the table is faster.
const Point kStreamLeft = {
    "C5", "step:stream left", 1, "auto", false, {"--slow", "100000", "--catch-up", "50"}};

std::vector<Point> points_of(const std::string& mode) {
  std::vector<Point> all;
  std::copy_if(kPoints.begin(), kPoints.end(), std::back_inserter(all), [&](const Point& point) {
    return std::string(point.mode).empty() || point.mode == mode;
  });
  return all;
}

// All at the same time, because they mostly wait.
void side_by_side(const std::vector<std::function<void()>>& all) {
  constexpr std::size_t kAtOnce = 4;
  std::atomic<std::size_t> next{0};
  std::vector<std::jthread> threads;
  for (std::size_t i = 0; i < std::min(kAtOnce, all.size()); ++i)
    threads.emplace_back([&] {
      for (std::size_t mine = next++; mine < all.size(); mine = next++) all[mine]();
    });
}

constexpr std::int64_t kBehindMax = 20'000;

class Siege {
 public:
  // `copied`: reads a table with copies instead of the outbox.
  explicit Siege(std::string mode, bool copied = false)
      : mode_(std::move(mode)), random_(std::random_device{}()) {
    if (!copied) return;
    stage_.copy_into_table(false);
    more_ = {"--table", "copied"};
  }

  // This many kills at each point.
  WalOutcome run(const std::vector<Point>& points, int kills, std::int64_t rows_max = 10'000);
  const std::string& forms() const { return forms_; }

 private:
  void die_at(const Point& point);

  const std::string mode_;
  Words more_{};
  std::mt19937_64 random_;
  WalStage stage_;
  bool has_run_ = false;  // false: the relay has no row yet
  std::string forms_;
};

void Siege::die_at(const Point& point) {
  if (postgres::is_before(stage_.connection(), point.since)) return;
  const std::string times = std::to_string(1 + random_() % point.times_max);
  Words words = {"--mode", mode_, "--die", point.name, "--times", times};
  words.insert(words.end(), point.more.begin(), point.more.end());
  words.insert(words.end(), more_.begin(), more_.end());
  if (point.makes_slot) {
    stage_.drop_slots();
    if (has_run_)
      stage_.wait_until("windows have something to read", [&] { return !stage_.is_drained(); });
  }
  has_run_ = true;
  Process process = stage_.start(words);
  EXPECT_EQ(process.wait(WalStage::patience()), Doom::kExitCode)
      << "it was to die at " << point.name << "; see " << stage_.file("relay.log");
  stage_.end_lease();
}

WalOutcome Siege::run(const std::vector<Point>& points, int kills, std::int64_t rows_max) {
  {
    // A relay that always catches up would rarely get to the WAL.
    std::atomic<bool> is_behind{false};
    const std::jthread watch([&](std::stop_token stop) {
      Result<postgres::Connection> connection = postgres::Connection::open(stage_.conninfo());
      ASSERT_TRUE(connection) << text_of(connection);
      while (!stop.stop_requested() && *connection) {
        is_behind = stage_.is_behind(*connection, kBehindMax);
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
      }
    });
    WalWritersOptions options = stage_.writers(random_());
    options.rows_max = rows_max;
    options.may_write = [&] { return !is_behind; };
    WalWriters writers(options);
    for (int killed = 0; killed < kills; ++killed) {
      for (const Point& point : points) {
        if (!testing::Test::HasFailure()) die_at(point);
      }
    }
    writers.stop();
    forms_ = writers.summary();
  }
  Words words = {"--mode", mode_, "--batch", "1000"};
  words.insert(words.end(), more_.begin(), more_.end());
  stage_.finish(words);
  return stage_.judge();
}

void besiege(const std::string& mode, const std::vector<Point>& points, int kills,
             const std::string& what, std::int64_t rows_max = 10'000, bool copied = false) {
  SCOPED_TRACE(mode + ", " + what);
  Siege siege(mode, copied);
  const WalOutcome outcome = siege.run(points, kills, rows_max);
  claim_whole(outcome, "mode " + mode + ", killed " + std::to_string(kills) +
                           (kills == 1 ? " time at " : " times at ") + what + " (" + siege.forms() +
                           ")");
}

TEST(WalKill, AtEveryPointNothingIsLostInventedOrOutOfOrder) {
  const int kills = is_long() ? 50 : 1;
  std::vector<std::function<void()>> sieges;
  for (const std::string mode : {"auto", "wal"}) {
    const std::vector<Point> points = points_of(mode);
    if (!is_long()) {
      sieges.emplace_back([=] {
        besiege(mode, points, kills, "each of " + std::to_string(points.size()) + " points");
      });
      continue;
    }
    for (const Point& point : points)
      sieges.emplace_back(
          [=] { besiege(mode, {point}, kills, std::string(point.group) + ", " + point.name); });
  }
  sieges.emplace_back(
      [=] { besiege("auto", {kStreamLeft}, kills, std::string("C5, ") + kStreamLeft.name, 50); });
  side_by_side(sieges);
}

// The short form: one of each group.
TEST(WalKill, OverATableOfTheApplicationsOwnNothingIsLostInventedOrOutOfOrderEither) {
  const std::vector<Point> points = points_of("wal");
  std::vector<std::function<void()>> sieges;
  if (is_long()) {
    for (const Point& point : points)
      sieges.emplace_back([=] {
        besiege("wal", {point}, 50,
                "(a mapped table) " + std::string(point.group) + ", " + point.name, 10'000, true);
      });
  } else {
    std::vector<Point> some;
    for (const Point& point : points) {
      if (some.empty() || std::string(some.back().group) != point.group) some.push_back(point);
    }
    sieges.emplace_back([=] {
      besiege("wal", some, 1, "(a mapped table) " + std::to_string(some.size()) + " points", 1'000,
              true);
    });
  }
  side_by_side(sieges);
}

// One transaction, committed before the relay starts or while it streams: if the relay is killed
// after some of its rows, all rows come in the end.
void kill_behind_rows(const std::string& mode) {
  SCOPED_TRACE(mode);
  constexpr std::int64_t kRows = 10'000;
  const std::int64_t every = is_long() ? 199 : 4'999;
  WalStage stage;
  int kills = 0;
  for (std::int64_t row = 1; row < kRows && !testing::Test::HasFailure(); row += every) {
    stage.wait_until("the one before is gone", [&] { return !stage.is_streaming(); });
    Process process = stage.start({"--mode", mode, "--die", "row", "--times", std::to_string(row)});
    stage.wait_until("it streams", [&] { return stage.is_streaming(); });
    const Status copied = copy_in(stage.conninfo(), kRows, WalStage::kKeys);
    EXPECT_TRUE(copied) << (copied ? "" : copied.error().text);
    EXPECT_EQ(process.wait(WalStage::patience()), Doom::kExitCode)
        << "see " << stage.file("relay.log");
    ++kills;
    stage.end_lease();
    stage.finish({"--mode", mode, "--batch", "1000"});
  }
  claim_whole(stage.judge(), "C4, mode " + mode + ", " + std::to_string(kills) +
                                 " streamed transactions of 10,000 rows, each killed behind "
                                 "another of them");
}

TEST(WalKill, BehindAnyRowOfAStreamedTransactionTheRestStillComes) {
  side_by_side({[] { kill_behind_rows("auto"); }, [] { kill_behind_rows("wal"); }});
}

// Only a resumed slot brings rows that no table has.
void outlive_kills(WalStage& stage, const Words& as, const std::string& what) {
  {
    Process first = stage.start(as);
    stage.wait_until("the slot can be resumed", [&] {
      return postgres::number(
                 stage.connection(),
                 "SELECT count(*) FROM dovetail.relay_lane WHERE slot_reported > '0/0'") > 0;
    });
    first.kill();
    stage.end_lease();
  }
  WalWriters writers(stage.writers());
  int kills = 0;
  for (int round = 0; round < (is_long() ? 50 : 1); ++round) {
    for (const char* point : {"received", "sent", "row", "written", "settled", "step:reported"}) {
      Words words = as;
      words.insert(words.end(), {"--die", point, "--times", std::to_string(3 + round % 7)});
      Process process = stage.start(words);
      ASSERT_EQ(process.wait(WalStage::patience()), Doom::kExitCode)
          << point << "; see " << stage.file("relay.log");
      ++kills;
      stage.end_lease();
    }
  }
  writers.stop();
  Process last = stage.start(as);
  stage.wait_until("all is delivered", [&] { return stage.is_delivered(); });
  claim_whole(stage.judge(), "mode wal, " + what + ", killed " + std::to_string(kills) + " times");
}

TEST(WalKill, RowsThatAreDeletedAtOnceOutliveTheRelayAsLongAsItsSlotDoes) {
  WalStage stage;
  stage.copy_into_table(true);
  outlive_kills(stage, {"--mode", "wal", "--table", "copied"}, "rows deleted at once");
}

// The proof can fail: if the source is told before the sink confirms, events are lost.
TEST(WalKill, ASourceThatIsToldBeforeTheSinkConfirmsLosesEvents) {
  const Point early = {"", "row", 30, "", false, {"--settles-first", "yes"}};
  const WalOutcome naive = Siege("poll").run({early}, 3, 200);
  EXPECT_GT(naive.lost, 0U);
  EXPECT_EQ(naive.phantom, 0U);
}

}  // namespace
}  // namespace dovetail::shop
