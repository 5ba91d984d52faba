// How many events are handed at once to a sink whose work takes time.
#pragma once

#include <algorithm>
#include <cstddef>

#include "core/clock.h"

namespace dovetail {

// Keeps the work of one batch within a part of the lease, so that what a slow handler has done is
// settled as it goes. Starts small, grows by no more than twice, and falls at once; but not where a
// batch takes its time whatever it holds, such as that of a distant replica. Not for several
// threads.
class Pace {
 public:
  // `most`: what a batch may have at any speed. `budget`: the time that one may take.
  Pace(std::size_t most, Duration budget)
      : most_(std::max<std::size_t>(most, 1)), budget_(budget), limit_(std::min(most_, kFirst)) {}

  std::size_t limit() const { return limit_; }

  // A batch of so many events took so long.
  void took(std::size_t events, Duration time);

 private:
  void learn(double events, double time_us);

  static constexpr std::size_t kFirst = 64;

  std::size_t most_;
  Duration budget_;
  std::size_t limit_;
  // Of the last batch. Two of different sizes tell whether the time is that of their events.
  double last_events_ = 0;
  double last_us_ = 0;
  bool is_fixed_ = false;
};

}  // namespace dovetail
