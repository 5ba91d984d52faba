// A relay that reads the server's log is killed at every point of its work, again and again, while
// writers put into the log whatever it can hold: nothing is lost, nothing is invented, nothing is
// out of order.
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <functional>
#include <random>
#include <thread>
#include <vector>

#include "crash/dying.h"
#include "crash/wal_stage.h"
#include "live/claims.h"

namespace dovetail::shop {
namespace {

using namespace std::chrono_literals;
using live::is_long;

struct Point {
  const char* group;  // as failures are catalogued
  const char* name;
  std::uint64_t times_max = 8;  // one dies at the first to this one of its occurrences
};

constexpr Point kPoints[] = {{"C1", "received"},  {"C4", "written"}, {"C4", "row", 3000},
                             {"C2", "confirmed"}, {"C2", "settled"}, {"C3", "flushed"}};

// So many of them at once: they mostly wait.
void side_by_side(const std::vector<std::function<void()>>& all) {
  constexpr std::size_t kAtOnce = 4;
  std::atomic<std::size_t> next{0};
  std::vector<std::jthread> threads;
  for (std::size_t i = 0; i < std::min(kAtOnce, all.size()); ++i)
    threads.emplace_back([&] {
      for (std::size_t mine = next++; mine < all.size(); mine = next++) all[mine]();
    });
}

class Siege {
 public:
  Siege(const Point& point, std::string mode)
      : point_(point),
        mode_(std::move(mode)),
        random_(static_cast<std::uint64_t>(::getpid()) ^
                std::hash<std::string>{}(point.name + mode_)) {}

  WalOutcome run(int kills, const std::vector<std::string>& more = {});
  const std::string& forms() const { return forms_; }

 private:
  const Point point_;
  const std::string mode_;
  std::mt19937_64 random_;
  WalStage stage_;
  std::string forms_;
};

WalOutcome Siege::run(int kills, const std::vector<std::string>& more) {
  {
    WalWriters writers(stage_.writers(random_()));
    for (int killed = 0; killed < kills; ++killed) {
      std::vector<std::string> words = {
          "--mode",    mode_,     "--die",
          point_.name, "--times", std::to_string(1 + random_() % point_.times_max)};
      words.insert(words.end(), more.begin(), more.end());
      Process process = stage_.start(words);
      EXPECT_EQ(process.wait(WalStage::patience()), Doom::kExitCode)
          << "it was to die at " << point_.name << "; see " << stage_.file("relay.log");
      stage_.end_lease();
      if (testing::Test::HasFailure()) break;
    }
    writers.stop();
    forms_ = writers.summary();
  }
  stage_.finish({"--mode", mode_});
  return stage_.judge();
}

TEST(WalKill, AtEveryPointNothingIsLostInventedOrOutOfOrder) {
  const int kills = is_long() ? 50 : 2;
  std::vector<std::function<void()>> sieges;
  for (const char* mode : {"poll"}) {
    for (const Point& point : kPoints) {
      sieges.emplace_back([&point, mode, kills] {
        SCOPED_TRACE(point.name);
        Siege siege(point, mode);
        const WalOutcome outcome = siege.run(kills);
        claim_whole(outcome, std::string(point.group) + ", mode " + mode + ", killed " +
                                 std::to_string(kills) + " times at " + point.name + " (" +
                                 siege.forms() + ")");
      });
    }
  }
  side_by_side(sieges);
}

// One transaction, which is there before the relay is or is committed while it streams: killed
// behind so many of its rows, everything of it comes in the end.
TEST(WalKill, BehindAnyRowOfATransactionTheRestStillComes) {
  constexpr std::int64_t kRows = 10'000;
  const std::int64_t every = is_long() ? 199 : 4'999;
  for (const std::string mode : {"poll"}) {
    WalStage stage;
    int kills = 0;
    for (std::int64_t row = 1; row < kRows; row += every) {
      Process process =
          stage.start({"--mode", mode, "--die", "row", "--times", std::to_string(row)});
      const Status copied = copy_in(stage.conninfo(), kRows, WalStage::kKeys);
      ASSERT_TRUE(copied) << copied.error().text;
      ASSERT_EQ(process.wait(WalStage::patience()), Doom::kExitCode)
          << "see " << stage.file("relay.log");
      ++kills;
      stage.end_lease();
      stage.finish({"--mode", mode, "--batch", "1000"});
    }
    claim_whole(stage.judge(), "C4, mode " + mode + ", " + std::to_string(kills) +
                                   " transactions of 10,000 rows, each killed behind another row");
  }
}

// The proof can fail: a relay that lets the source forget what nobody has confirmed loses it.
TEST(WalKill, ASourceThatIsToldBeforeTheSinkConfirmsLosesEvents) {
  const WalOutcome naive = Siege({"", "row", 30}, "poll").run(3, {"--settles-first", "yes"});
  EXPECT_GT(naive.lost, 0U);
  EXPECT_EQ(naive.phantom, 0U);
}

}  // namespace
}  // namespace dovetail::shop
