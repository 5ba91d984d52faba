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

class Receipt;

struct Limits {
  std::size_t events_max = 1000;
  std::size_t bytes_max = 4 << 20;  // a single larger event is still read, alone
  Duration wait_max{0};             // the longest wait of read() for a first event
  // For parking: the longest pause that the caller sets; see is_due().
  Duration pause_max = std::chrono::hours(24 * 366);
};

// What the source is told about an event.
enum class Settled : std::uint8_t {
  delivered,
  parked,
  skipped,  // the relay's filter left it out
};

// One thread at a time. Delivers in commit order along each key, every event at least once: events
// read but not settled are read again after open().
class Source {
 public:
  virtual ~Source() = default;

  // Connects and starts after the last settled event. After an error it is called again: it drops
  // the old connection and forgets what was read and not settled. A source that connects in the
  // background returns at once; opened() tells the result.
  virtual Status open() = 0;

  // Called after open() until it is true or fails. Meanwhile only flush() may be called, when the
  // relay stops. Waits at most `timeout`. False: not yet.
  virtual Result<bool> opened(Duration timeout) {
    (void)timeout;
    return true;
  }

  // Adds available events to `out`, at most `limits`. Returns an empty batch if nothing comes
  // within `limits.wait_max` or `stop` is requested. Never waits to fill a batch.
  virtual Status read(Batch& out, const Limits& limits, std::stop_token stop) = 0;

  // All events in `batch` are delivered, parked or skipped and need not be read again. Called in
  // read order, once per batch. May be lazy: durable only after the next flush().
  virtual Status settle(const Batch& batch, std::span<const Settled> fates) = 0;

  // Makes settled events durable.
  virtual Status flush() = 0;

  // The caller adds what was delivered before it calls settle(). The source writes it together with
  // its progress, and clears it. Null: it keeps no receipts.
  virtual Receipt* receipt() { return nullptr; }

  // Called in every round of the relay, even if nothing can be read because the sink blocks. Must
  // be quick.
  virtual Status keep_alive() { return {}; }
};

}  // namespace dovetail
