// Has a store keep what a relay says about itself, without holding the relay up.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string_view>
#include <thread>

#include "core/clock.h"
#include "core/relay/relay_report.h"
#include "dovetail/result.h"

namespace dovetail {

// What was said, under which lease (-1: none), and when.
struct SpokenState {
  RelayState state;
  std::int64_t epoch = -1;
  TimePoint said_at{};
};

// Who delivers holds a lease, and is known to live by that. Who does not says again and again why:
// so often, and it holds until its next try and so long after.
constexpr Duration kStateRepeatedEvery = std::chrono::seconds(5);
constexpr Duration kStateHolds = std::chrono::seconds(10);
bool needs_repeating(const SpokenState& spoken);
// How long from now on it holds without a lease.
Duration holds_for(const SpokenState& spoken, TimePoint now);

// Writes the newest state in a thread of its own, at most once a second; one that cannot be written
// is tried again. What is not written when this ends is left out: nobody relies on it. `clock`
// outlives it.
class StateRecorder {
 public:
  using Write = std::function<Status(const SpokenState& spoken)>;

  StateRecorder(Clock& clock, Write write, Duration pause = std::chrono::seconds(1));

  // Any thread; does not wait. A standby says nothing: the relay that has the lane does.
  void report(const RelayState& state, std::int64_t epoch);

 private:
  void run(std::stop_token stop);

  Clock& clock_;
  Write write_;
  const Duration pause_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::optional<SpokenState> newest_;
  bool is_written_ = true;
  std::jthread thread_;  // last: it uses the rest
};

}  // namespace dovetail
