// Time and chance, given from outside: the core never looks at a clock or a random device by
// itself.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <stop_token>

#include "dovetail/event.h"

namespace dovetail {

using Duration = std::chrono::microseconds;

// Time that never steps and goes on while the machine sleeps (CLOCK_BOOTTIME on a real host).
struct BootTime {
  using rep = Duration::rep;
  using period = Duration::period;
  using duration = Duration;
  using time_point = std::chrono::time_point<BootTime, Duration>;
  static constexpr bool is_steady = true;
};
using TimePoint = BootTime::time_point;

// Any thread may call it.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual TimePoint now() = 0;
  virtual WallTime wall() = 0;
  // Blocks for at most `duration`, less when `stop` is requested.
  virtual void sleep(Duration duration, std::stop_token stop) = 0;
};

// Bytes that cannot be guessed. Only event ids need them.
class Entropy {
 public:
  virtual ~Entropy() = default;
  virtual void fill(std::span<std::uint8_t> bytes) = 0;
};

// A small seeded generator for jitter and simulation; the same seed gives the same numbers
// everywhere.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next();
  std::uint64_t below(std::uint64_t bound);  // uniform in [0, bound); 0 when bound is 0
  bool chance(double probability);

 private:
  std::uint64_t state_;
};

}  // namespace dovetail
