// A test clock that moves only when it is set or when a thread sleeps on it.
#pragma once

#include "core/clock.h"

namespace dovetail {

class TestClock final : public Clock {
 public:
  TimePoint now() override { return now_; }
  WallTime wall() override { return wall_; }
  void sleep(Duration duration, std::stop_token) override { advance(duration); }

  void advance(Duration duration) {
    now_ += duration;
    wall_ += duration;
  }
  void set_wall(WallTime wall) { wall_ = wall; }

 private:
  TimePoint now_{std::chrono::hours(1)};
  WallTime wall_{std::chrono::hours(24 * 365 * 55)};
};

}  // namespace dovetail
