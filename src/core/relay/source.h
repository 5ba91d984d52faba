// Where events come from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <stop_token>

#include "core/clock.h"
#include "core/event/batch.h"
#include "dovetail/result.h"

namespace dovetail {

struct Limits {
  std::size_t events_max = 1000;
  std::size_t bytes_max = 4 << 20;  // a single larger event is still read, alone
  Duration wait_max{0};             // how long read() may wait for a first event
  // Of parking: the longest pause that the caller gives. is_due() says what it is for.
  Duration pause_max = std::chrono::hours(24 * 366);
};

// What became of an event, as its source is told.
enum class Settled : std::uint8_t { delivered, parked };

// One thread at a time. Delivers in commit order along each key, and every event at least once:
// what was read and not settled is read again after open().
class Source {
 public:
  virtual ~Source() = default;

  // Connects and starts behind the last settled event. Called again after any error: it then throws
  // the old connection away and forgets what was read and not settled. A source that connects in
  // the background returns at once, and opened() tells.
  virtual Status open() = 0;

  // Asked after open() until it says true or fails; until then only flush() may come, when the
  // relay stops. Waits at most `timeout`. False: not yet.
  virtual Result<bool> opened(Duration timeout) {
    (void)timeout;
    return true;
  }

  // Adds to `out` what is there, at most `limits`. Returns with an empty batch when nothing came
  // within `limits.wait_max` or `stop` was requested. Never waits to fill a batch.
  virtual Status read(Batch& out, const Limits& limits, std::stop_token stop) = 0;

  // Everything in `batch` is delivered or parked and need not be read again. Called in read order,
  // once for each batch. May be lazy: durable only after the next flush().
  virtual Status settle(const Batch& batch, std::span<const Settled> fates) = 0;

  // Makes durable what was settled.
  virtual Status flush() = 0;

  // Called in every round of the relay, also while nothing can be read because the sink stands
  // still. Must be quick.
  virtual Status keep_alive() { return {}; }
};

}  // namespace dovetail
