#include "host/errand.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>

namespace dovetail {
namespace {

using namespace std::chrono_literals;

TEST(Errand, IsKnownUntilItHasEnded) {
  std::atomic<bool> goes_on{true};
  run_errand([&] { goes_on.wait(true); });
  EXPECT_EQ(errands_left(), 1U);
  EXPECT_FALSE(wait_for_errands(1ms));
  goes_on = false;
  goes_on.notify_all();
  EXPECT_TRUE(wait_for_errands(60s));
  EXPECT_EQ(errands_left(), 0U);
}

// A thread that meets the end of the process must not meet destructors of static objects.
TEST(ErrandDeathTest, TheExitOfTheProcessWaitsForIt) {
  const auto end_the_process = [] {
    run_errand([] {
      std::this_thread::sleep_for(50ms);
      ::_exit(7);  // seen only if the exit does not wait
    });
    std::exit(0);
  };
  EXPECT_EXIT(end_the_process(), testing::ExitedWithCode(7), "");
}

}  // namespace
}  // namespace dovetail
