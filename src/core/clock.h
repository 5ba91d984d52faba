// Clocks and random numbers are passed in: the core never reads a clock or a random device
// itself.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <stop_token>

#include "dovetail/event.h"

namespace dovetail {

using Duration = std::chrono::microseconds;

// Time that never steps and runs on while the machine sleeps (CLOCK_BOOTTIME on Linux).
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

// Bytes that cannot be guessed. Only event ids use them.
class Entropy {
 public:
  virtual ~Entropy() = default;
  virtual void fill(std::span<std::uint8_t> bytes) = 0;
};

// A small generator with a seed, for jitter and simulation. The same seed gives the same numbers on
// every machine.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next();
  std::uint64_t below(std::uint64_t bound);  // uniform in [0, bound); 0 if bound is 0
  bool chance(double probability);

 private:
  std::uint64_t state_;
};

}  // namespace dovetail
