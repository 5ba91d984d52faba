// A consumer is killed at every named point of its work, again and again, while orders are placed.
// At the end every order has moved the stock once, in order, with one event. Common schemes without
// an inbox do not pass.
#include <gtest/gtest.h>
#include <signal.h>

#include <random>
#include <thread>
#include <vector>

#include "kit/dying.h"
#include "postgres/testing/test_database.h"
#include "proofs/inbox/inbox_stage.h"

namespace dovetail::shop {
namespace {

using namespace std::chrono_literals;
using live::claim;
using live::is_long;
using postgres::number;
using postgres::TestDatabase;

struct Point {
  const char* group;  // its group in the catalogue of failures
  const char* name;
  int times_min = 1;   // so that each life makes some progress
  bool parks = false;  // a puzzling order blocks one product
};

constexpr Point kPoints[] = {
    {"I1", "received"},           {"I2", "inserted", 3},      {"I3", "applied", 2},
    {"I4", "commit-unsent", 2},   {"I4", "commit-unread"},    {"I4", "commit-lost", 2},
    {"I5", "committed"},          {"I6", "settled"},          {"I6", "flushed"},
    {"I7", "counted", 2, true},   {"I7", "parking", 1, true}, {"I7", "parked", 1, true},
    {"I7", "replaying", 1, true}, {"I7", "replayed", 1, true}};

class Siege {
 public:
  Siege(const Point& point, std::string scheme, int kills)
      : point_(point),
        scheme_(std::move(scheme)),
        kills_(kills),
        random_(static_cast<std::uint64_t>(::getpid()) ^ std::hash<std::string>{}(point.name)) {}

  Outcome run();

 private:
  Process start(const std::string& point);
  void die_again_and_again();
  void lose_answers();
  void hold_up_a_product();

  const Point point_;
  const std::string scheme_;
  const int kills_;
  std::mt19937_64 random_;
  TestDatabase orders_;
  TestDatabase stock_;
  InboxStage stage_{orders_.conninfo, stock_.conninfo};
};

Process Siege::start(const std::string& point) {
  std::vector<std::string> words = {"--scheme", scheme_, "--attempts", "1000", "--lease", "10000"};
  if (!point.empty()) {
    const auto times = static_cast<std::uint64_t>(point_.times_min) + random_() % 6;
    words.insert(words.end(), {"--die", point, "--times", std::to_string(times)});
  }
  return stage_.start(words);
}

void Siege::die_again_and_again() {
  for (int killed = 0; killed < kills_; ++killed) {
    Process process = start(point_.name);
    ASSERT_EQ(process.wait(InboxStage::patience()), Doom::kExitCode)
        << "it was to die at " << point_.name << "; see " << stage_.file("consumer.log");
    stage_.end_lease();
  }
}

// It survives each time.
void Siege::lose_answers() {
  Process process = start(point_.name);
  stage_.wait_until("answers were lost",
                    [this] { return stage_.lines("lost at") >= static_cast<std::size_t>(kills_); });
  process.send(SIGTERM);
  EXPECT_EQ(process.wait(InboxStage::patience()), 0);
}

// All later orders of that product are parked with the first one.
void Siege::hold_up_a_product() {
  Process process = start("");
  stage_.wait_until("much is parked", [this] {
    postgres::Connection connection = orders_.connect();
    return number(connection, "SELECT count(*) FROM dovetail.parked") >= 30L * kills_;
  });
  process.kill();
  stage_.end_lease();
}

Outcome Siege::run() {
  const std::string name = point_.name;
  const bool replays = name.starts_with("replay");
  OrderServiceOptions service;
  service.orders = 1'000'000'000;
  service.products = 4;
  service.pause = 4ms;
  service.puzzling_order = point_.parks ? 1 : 0;
  {
    const std::jthread customers = stage_.place_orders(service);
    if (replays) {
      hold_up_a_product();
      stage_.mend_the_handler();
    }
    name == "commit-lost" ? lose_answers() : die_again_and_again();
  }
  Process last = start("");
  if (point_.parks && !replays) {
    stage_.wait_until("all but a product is applied", [this] { return stage_.drained(false); });
    stage_.mend_the_handler();
  }
  stage_.wait_until("all is applied", [this] { return stage_.drained(); });
  last.send(SIGTERM);
  EXPECT_EQ(last.wait(InboxStage::patience()), 0);
  return stage_.judge();
}

// Some at the same time, because they mostly wait.
TEST(InboxKill, AtEveryPointNothingIsLostDoubledOrReordered) {
  constexpr std::size_t kAtOnce = 5;
  const int kills = is_long() ? 50 : 2;
  for (std::size_t first = 0; first < std::size(kPoints); first += kAtOnce) {
    std::vector<std::jthread> sieges;
    for (std::size_t i = first; i < std::min(first + kAtOnce, std::size(kPoints)); ++i) {
      sieges.emplace_back([&point = kPoints[i], kills] {
        SCOPED_TRACE(point.name);
        claim_once(Siege(point, "ours", kills).run(), std::string(point.group) + ", killed " +
                                                          std::to_string(kills) + " times at " +
                                                          point.name);
      });
    }
  }
}

// The row is written, the process dies before the work, and when the event comes again it counts as
// done.
TEST(InboxKill, TheGhostOfTheNaiveSchemeIsShownAndOursHasNone) {
  const int kills = is_long() ? 50 : 3;
  const Outcome naive = Siege({"", "between"}, "row-first", kills).run();
  claim(naive.verdict.lost > 0,
        "the ghost: row first, killed %d times before the work: %zu of %zu "
        "orders lost",
        kills, naive.verdict.lost, naive.orders.size());
  const Outcome ours = Siege({"", "inserted", 3}, "ours", kills).run();
  claim_once(ours, "the ghost: ours, killed " + std::to_string(kills) + " times before the work");
}

TEST(InboxKill, WorkThatCommitsBeforeItsRowIsDoubled) {
  const Outcome naive = Siege({"", "between"}, "effect-first", 3).run();
  EXPECT_GT(naive.verdict.doubled, 0U);
  EXPECT_EQ(naive.verdict.lost, 0U);
}

TEST(InboxKill, ASourceThatIsToldBeforeTheCommitLosesEvents) {
  const Outcome naive = Siege({"", "applied", 2}, "settles-first", 3).run();
  EXPECT_GT(naive.verdict.lost, 0U);
}

}  // namespace
}  // namespace dovetail::shop
