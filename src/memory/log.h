// An append-only list of events in the process: the simplest outbox. For tests, examples, and any
// publisher and reader in one process that keep nothing after it ends.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <stop_token>

#include "core/event/batch.h"
#include "core/relay/source.h"
#include "dovetail/event.h"
#include "dovetail/result.h"
#include "memory/stored_event.h"

namespace dovetail {

// Any thread.
class MemoryLog {
 public:
  // Returns the event's position; positions count from 1 without gaps. REQUIRES: event.id is set,
  // because this class makes no ids.
  Result<std::int64_t> publish(const NewEvent& event, WallTime created_at,
                               const EventLimits& limits = {});
  // The same for an event from another store. It gets a new position.
  std::int64_t append(const Event& event);

  // Adds the events after `position` to `out`. Waits for the first as `limits` says.
  void read_behind(std::int64_t position, Batch& out, const Limits& limits, std::stop_token stop);

  std::int64_t last_position() const;

 private:
  mutable std::mutex mutex_;
  std::condition_variable_any arrived_;
  std::deque<StoredEvent> events_;  // the event at position p is events_[p - 1]
};

}  // namespace dovetail
