// Writes a relay's reports to its store without delaying the relay.
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

// One report, its time, and the epoch of its lease (-1: no lease).
struct SpokenState {
  RelayState state;
  std::int64_t epoch = -1;
  TimePoint said_at{};
};

// A relay that delivers holds a lease, which shows that it lives. A relay without a lease repeats
// its state this often; a report is valid until the next try and this long after it.
constexpr Duration kStateRepeatedEvery = std::chrono::seconds(5);
constexpr Duration kStateHolds = std::chrono::seconds(10);
bool needs_repeating(const SpokenState& spoken);
// How long from now the report is valid without a lease.
Duration holds_for(const SpokenState& spoken, TimePoint now);

// Writes the newest state on its own thread, at most once a second, and retries if that
// fails. The destructor drops unwritten states: nothing depends on them. `clock` must outlive
// it.
class StateRecorder {
 public:
  using Write = std::function<Status(const SpokenState& spoken)>;

  StateRecorder(Clock& clock, Write write, Duration pause = std::chrono::seconds(1));

  // Any thread; does not wait. A standby reports nothing: the owner of the lane
  // does. A held relay neither: the lane's row says it.
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
  std::jthread thread_;  // last, because it uses the other members
};

}  // namespace dovetail
