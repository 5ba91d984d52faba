// Measures how long the machine stood still: threads that were ready did not run. A time limit is
// judged only if the machine did not stand still for about that long.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdio>
#include <thread>
#include <utility>

namespace dovetail::servers {

class Standstill {
 public:
  std::chrono::milliseconds longest() const { return std::chrono::milliseconds(longest_); }
  // Prints a line if not.
  bool is_below(std::chrono::nanoseconds limit) const {
    if (longest() < limit) return true;
    std::printf("NOTE: the machine stood still for %ld ms; times are not judged\n",
                static_cast<long>(longest_));
    return false;
  }

 private:
  void watch(const std::stop_token& stop) {
    using Clock = std::chrono::steady_clock;
    for (auto last = Clock::now(); !stop.stop_requested();) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      const auto now = Clock::now();
      const auto passed =
          std::chrono::duration_cast<std::chrono::milliseconds>(now - std::exchange(last, now));
      if (passed.count() > longest_) longest_ = passed.count();
    }
  }

  std::atomic<std::chrono::milliseconds::rep> longest_ = 0;
  std::jthread thread_{[this](const std::stop_token& stop) { watch(stop); }};
};

}  // namespace dovetail::servers
