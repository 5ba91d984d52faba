#include "host/state_recorder.h"

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

#include "host/host.h"
#include "kit/eventually.h"

namespace dovetail {
namespace {

using namespace std::chrono_literals;
using Kind = RelayState::Kind;

class Recorder : public testing::Test {
 protected:
  Status write(const SpokenState& spoken) {
    const std::lock_guard lock(mutex_);
    ++tries_;
    if (is_away_) return fail(Errc::unavailable, "away");
    written_.push_back(spoken);
    return {};
  }
  std::vector<SpokenState> written() {
    const std::lock_guard lock(mutex_);
    return written_;
  }

  std::mutex mutex_;
  std::vector<SpokenState> written_;
  bool is_away_ = false;
  int tries_ = 0;
};

TEST_F(Recorder, WritesTheNewestWithItsLeaseAndLeavesStandbysOut) {
  StateRecorder recorder(system_clock(), [this](const auto& spoken) { return write(spoken); }, 1ms);
  recorder.report({Kind::standby, {}, "held by another", {}}, 0);
  recorder.report({Kind::backing_off, 1s, "refused", 2s}, 7);
  ASSERT_TRUE(eventually([&] { return written().size() == 1; }));
  EXPECT_EQ(written()[0].epoch, 7);
  EXPECT_EQ(written()[0].state.last_error, "refused");
  recorder.report({Kind::halted, {}, "no such table", 1s}, 0);
  ASSERT_TRUE(eventually([&] { return written().size() == 2; }));
  EXPECT_EQ(written()[1].epoch, -1) << "without a lease";
}

TEST_F(Recorder, TriesAgainWhatCouldNotBeWritten) {
  is_away_ = true;
  StateRecorder recorder(system_clock(), [this](const auto& spoken) { return write(spoken); }, 1ms);
  recorder.report({Kind::delivering, {}, "", {}}, 3);
  ASSERT_TRUE(eventually([&] {
    const std::lock_guard lock(mutex_);
    return tries_ >= 3;
  }));
  {
    const std::lock_guard lock(mutex_);
    is_away_ = false;
  }
  ASSERT_TRUE(eventually([&] { return !written().empty(); }));
  EXPECT_EQ(written()[0].epoch, 3);
}

TEST_F(Recorder, AStoreThatHangsHoldsNobodyUp) {
  std::atomic<bool> hangs{true};
  {
    StateRecorder recorder(
        system_clock(),
        [&](const SpokenState&) -> Status {
          while (hangs) std::this_thread::sleep_for(1ms);
          return {};
        },
        1ms);
    for (int i = 0; i < 1000; ++i) recorder.report({Kind::delivering, {}, "", {}}, 1);
    hangs = false;
  }
}

}  // namespace
}  // namespace dovetail
