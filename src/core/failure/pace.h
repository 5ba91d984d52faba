// Chooses the batch size for a slow sink.
#pragma once

#include <algorithm>
#include <cstddef>

#include "core/clock.h"

namespace dovetail {

// Keeps one batch within its part of the lease, so that finished work of a slow handler is
// settled soon. It starts small, at most doubles, and falls at once. It does not fall when
// a batch takes the same time whatever its size, as with a distant replica. For one
// thread.
class Pace {
 public:
  // `most`: the upper limit of a batch. `budget`: the time that one batch may take.
  Pace(std::size_t most, Duration budget)
      : most_(std::max<std::size_t>(most, 1)), budget_(budget), limit_(std::min(most_, kFirst)) {}

  std::size_t limit() const { return limit_; }

  // A batch of `events` took `time`.
  void took(std::size_t events, Duration time);

 private:
  void learn(double events, double time_us);

  static constexpr std::size_t kFirst = 64;

  std::size_t most_;
  Duration budget_;
  std::size_t limit_;
  // The last batch. Two sizes tell whether the time depends on the number of events.
  double last_events_ = 0;
  double last_us_ = 0;
  bool is_fixed_ = false;
};

}  // namespace dovetail
