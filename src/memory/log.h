// An append-only log of events inside the process: the simplest outbox. Used by tests, by examples,
// and wherever publisher and reader share a process and nothing needs to outlive it.
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

// Any thread may call it.
class MemoryLog {
 public:
  // Returns the event's position; positions count from 1 without gaps. REQUIRES: event.id is set,
  // because the log draws no random bytes.
  Result<std::int64_t> publish(const NewEvent& event, WallTime created_at,
                               const EventLimits& limits = {});
  // The same for an event that another store checked already. Its position is replaced.
  std::int64_t append(const Event& event);

  // Adds the events behind `position` to `out`. Waits for a first one as `limits` says.
  void read_behind(std::int64_t position, Batch& out, const Limits& limits, std::stop_token stop);

  std::int64_t last_position() const;

 private:
  mutable std::mutex mutex_;
  std::condition_variable_any arrived_;
  std::deque<StoredEvent> events_;  // the event at position p is events_[p - 1]
};

}  // namespace dovetail
