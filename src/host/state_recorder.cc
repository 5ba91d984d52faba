#include "host/state_recorder.h"

#include <algorithm>
#include <utility>

namespace dovetail {

bool needs_repeating(const SpokenState& spoken) {
  return spoken.state.kind != RelayState::Kind::delivering;
}

Duration holds_for(const SpokenState& spoken, TimePoint now) {
  if (!needs_repeating(spoken)) return Duration{0};
  const Duration until_try = spoken.said_at + spoken.state.next_try - now;
  return kStateHolds + std::max(Duration{0}, until_try);
}

StateRecorder::StateRecorder(Clock& clock, Write write, Duration pause)
    : clock_(clock),
      write_(std::move(write)),
      pause_(pause),
      thread_([this](std::stop_token stop) { run(stop); }) {}

void StateRecorder::report(const RelayState& state, std::int64_t epoch) {
  if (state.kind == RelayState::Kind::standby || state.kind == RelayState::Kind::held) return;
  const std::lock_guard lock(mutex_);
  newest_ = SpokenState{state, epoch > 0 ? epoch : -1, clock_.now()};
  is_written_ = false;
  changed_.notify_all();
}

void StateRecorder::run(std::stop_token stop) {
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    if (is_written_) {
      const bool repeats = newest_ && needs_repeating(*newest_);
      const auto is_new = [this] { return !is_written_; };
      if (repeats) {
        changed_.wait_for(lock, stop, kStateRepeatedEvery, is_new);
      } else {
        changed_.wait(lock, stop, is_new);
      }
    }
    if (stop.stop_requested() || !newest_) continue;
    const SpokenState spoken = *newest_;
    is_written_ = true;
    lock.unlock();
    const Status written = write_(spoken);
    lock.lock();
    if (!written) is_written_ = false;
    changed_.wait_for(lock, stop, pause_, [] { return false; });
  }
}

}  // namespace dovetail
