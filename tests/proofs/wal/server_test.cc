// Servers that stop, crash and are promoted while a relay reads their WAL.
#include <gtest/gtest.h>

#include "kit/claims.h"
#include "proofs/wal/server_stage.h"

namespace dovetail::postgres {
namespace {

using namespace std::chrono_literals;
using live::Broker;
using live::claim;
using live::how;
using live::modes;
using live::said;
using live::WalStage;

constexpr double kStopMax = 10;  // seconds

class WalServers : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { server_ = std::make_unique<live::OwnServer>("wal_servers"); }
  static void TearDownTestSuite() { server_.reset(); }
  void SetUp() override { ASSERT_TRUE(server_->is_there()) << server_->missing(); }

  static void stop_and_go_on(WalStage& stage, const std::string& what) {
    const std::uint64_t before = stage.metrics().stream_starts;
    const double seconds = server_->stop_fast(4 * kStopMax);
    claim(seconds <= kStopMax, "pg_ctl stop -m fast, %s: %.1f s", what.c_str(), seconds);
    stage.broker = Broker::up;
    ASSERT_TRUE(server_->start_again());
    ASSERT_TRUE(stage.wait_for_stream(before));
    stage.check(what.c_str());
  }

  static std::unique_ptr<live::OwnServer> server_;
};

std::unique_ptr<live::OwnServer> WalServers::server_;

TEST_F(WalServers, OneThatCrashesUnderLoadLosesNothing) {
  for (const ReadMode mode : modes(ReadMode::wal)) {
    const int rounds = live::is_long() ? 10 : 1;
    WalStage stage(*server_);
    stage.start_relay(how(mode));
    ASSERT_TRUE(stage.wait_for_stream());
    stage.start_writers(50, 1ms);
    for (int i = 0; i < rounds; ++i) {
      stage.let_write(100);
      const std::uint64_t before = stage.metrics().stream_starts;
      ASSERT_TRUE(server_->crash());
      ASSERT_TRUE(stage.wait_for_stream(before));
    }
    stage.let_write(50);
    stage.check(said("immediate restart", mode).c_str());
  }
}

TEST_F(WalServers, OneThatIsIdleStopsAtOnce) {
  for (const ReadMode mode : modes(ReadMode::wal)) {
    WalStage stage(*server_);
    stage.start_relay(how(mode));
    ASSERT_TRUE(stage.wait_for_stream());
    stage.start_writers(50, 1ms);
    stage.let_write(20);
    stage.stop_writers();
    ASSERT_TRUE(eventually([&] {
      return number(stage.sql, "SELECT count(*) FROM dovetail.events WHERE state = 'pending'") == 0;
    }));
    stop_and_go_on(stage, said("idle", mode));
  }
}

TEST_F(WalServers, OneWhoseEventsTheBrokerDoesNotTakeStopsAtOnce) {
  for (const ReadMode mode : modes(ReadMode::wal)) {
    WalStage stage(*server_);
    stage.start_relay(how(mode));
    ASSERT_TRUE(stage.wait_for_stream());
    stage.start_writers(500, 1ms);
    stage.let_write(20);
    stage.broker = Broker::stuck;
    stage.let_write(live::is_long() ? 5000 : 100);
    stop_and_go_on(stage, said("broker stuck, with a backlog", mode));
  }
}

TEST_F(WalServers, OneWhoseBrokerIsAwayStopsAtOnce) {
  if (!live::is_long()) GTEST_SKIP() << "by ./dev chaos wal";
  for (const ReadMode mode : modes(ReadMode::automatic)) {
    WalStage stage(*server_);
    stage.start_relay(how(mode));
    ASSERT_TRUE(stage.wait_for_stream());
    stage.start_writers(500, 1ms);
    stage.let_write(20);
    stage.broker = Broker::away;
    stage.let_write(live::is_long() ? 5000 : 100);
    stop_and_go_on(stage, said("broker away, with a backlog", mode));
  }
}

TEST_F(WalServers, OneThatStreamsABacklogStopsAtOnce) {
  for (const ReadMode mode : modes(ReadMode::automatic)) {
    WalStage stage(*server_);
    stage.start_relay(how(mode));
    ASSERT_TRUE(stage.wait_for_stream());
    stage.broker = Broker::stuck;
    stage.start_writers(2000, 0ms);
    stage.let_write(live::is_long() ? 5000 : 50);
    stage.broker = Broker::up;
    stop_and_go_on(stage, said("in the middle of a backlog", mode));
  }
}

}  // namespace
}  // namespace dovetail::postgres
