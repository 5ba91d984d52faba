// A relay that reads the WAL is stopped for three lease terms at named points, another one takes
// over, and the first one continues: it delivers nothing more, and nothing of the other is lost or
// out of order.
#include <gtest/gtest.h>
#include <signal.h>

#include <thread>
#include <vector>

#include "proofs/wal/dying_stage.h"

namespace dovetail::shop {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::milliseconds kLease = 3000ms;

void play(const std::string& mode, const std::string& point) {
  WalStage stage;
  const std::string lease = std::to_string(kLease.count());
  WalWriters writers(stage.writers(std::hash<std::string>{}(mode + point)));
  Process a =
      stage.start({"--mode", mode, "--lease", lease, "--stop", point, "--times", "5"}, "a.log");
  ASSERT_TRUE(stage.wait_until("the first has the lane",
                               [&] { return stage.lines("started", "a.log") > 0; }));
  ASSERT_TRUE(
      stage.wait_until("it stops", [&] { return stage.lines("stopping at", "a.log") > 0; }));
  const auto stopped_at = std::chrono::steady_clock::now();
  Process b = stage.start({"--mode", mode, "--lease", lease}, "b.log");
  ASSERT_TRUE(stage.wait_until("the other delivers", [&] {
    stage.book().read_on();
    return stage.book().count_of(b.pid()) > 0;
  }));
  const auto taken_over_in = std::chrono::steady_clock::now() - stopped_at;
  std::this_thread::sleep_until(stopped_at + 3 * kLease);
  stage.book().read_on();
  const std::uint64_t before = stage.book().count_of(a.pid());
  const std::size_t starts = stage.lines("started", "a.log");
  a.send(SIGCONT);
  ASSERT_TRUE(
      stage.wait_until("it has heard", [&] { return stage.lines("session_lost", "a.log") > 0; }));
  stage.book().read_on();
  const std::uint64_t after = stage.book().count_of(a.pid());
  // On a very slow machine the other one may have lost the lane; then this one may be back.
  const bool is_back = stage.lines("started", "a.log") > starts;
  writers.stop();
  ASSERT_TRUE(stage.wait_until("nothing is left", [&] { return stage.is_drained(); }));
  for (Process* process : {&a, &b}) {
    process->send(SIGTERM);
    EXPECT_EQ(process->wait(90s), 0);
  }
  if (!is_back) {
    EXPECT_EQ(after, before) << "delivered without a lease";
  }
  claim_whole(
      stage.judge(),
      "mode " + mode + ", stopped for three lease times at " + point + ", taken over in " +
          std::to_string(
              std::chrono::duration_cast<std::chrono::milliseconds>(taken_over_in).count()) +
          " ms of a lease of " + lease);
}

// All at the same time, because they mostly wait.
TEST(WalPause, ARelayThatWasStoppedBeyondItsLeaseDeliversNothingMore) {
  std::vector<std::jthread> plays;
  for (const char* mode : {"auto", "wal"})
    for (const char* point : {"received", "sent", "settled"})
      plays.emplace_back([mode, point] {
        SCOPED_TRACE(point);
        play(mode, point);
      });
}

}  // namespace
}  // namespace dovetail::shop
