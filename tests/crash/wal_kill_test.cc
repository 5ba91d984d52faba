// A relay that reads the server's log is killed at every point of its work, again and again, while
// writers put into the log whatever it can hold: nothing is lost, nothing is invented, nothing is
// out of order.
#include <gtest/gtest.h>
#include <signal.h>

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

class Siege {
 public:
  Siege(const Point& point, std::string mode, int kills)
      : point_(point),
        mode_(std::move(mode)),
        kills_(kills),
        random_(static_cast<std::uint64_t>(::getpid()) ^
                std::hash<std::string>{}(point.name + mode_)) {}

  void run();

 private:
  const Point point_;
  const std::string mode_;
  const int kills_;
  std::mt19937_64 random_;
  WalStage stage_;
};

void Siege::run() {
  std::string forms;
  {
    WalWriters writers(stage_.writers(random_()));
    for (int killed = 0; killed < kills_; ++killed) {
      Process process = stage_.start({"--mode", mode_, "--die", point_.name, "--times",
                                      std::to_string(1 + random_() % point_.times_max)});
      ASSERT_EQ(process.wait(WalStage::patience()), Doom::kExitCode)
          << "it was to die at " << point_.name << "; see " << stage_.file("relay.log");
      stage_.end_lease();
    }
    writers.stop();
    forms = writers.summary();
  }
  stage_.finish({"--mode", mode_});
  claim_whole(stage_.judge(), std::string(point_.group) + ", " + mode_ + ", killed " +
                                  std::to_string(kills_) + " times at " + point_.name + " (" +
                                  forms + ")");
}

// Some at once: they mostly wait.
void lay_sieges(const std::vector<std::pair<Point, std::string>>& all, int kills) {
  constexpr std::size_t kAtOnce = 4;
  for (std::size_t first = 0; first < all.size(); first += kAtOnce) {
    std::vector<std::jthread> sieges;
    for (std::size_t i = first; i < std::min(first + kAtOnce, all.size()); ++i) {
      sieges.emplace_back([&one = all[i], kills] {
        SCOPED_TRACE(one.first.name);
        Siege(one.first, one.second, kills).run();
      });
    }
  }
}

TEST(WalKill, AtEveryPointNothingIsLostInventedOrOutOfOrder) {
  std::vector<std::pair<Point, std::string>> all;
  for (const Point& point : kPoints) all.emplace_back(point, "poll");
  lay_sieges(all, is_long() ? 50 : 2);
}

}  // namespace
}  // namespace dovetail::shop
