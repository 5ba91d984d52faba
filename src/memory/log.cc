#include "memory/log.h"

#include <utility>

namespace dovetail {

Result<std::int64_t> MemoryLog::publish(const NewEvent& event, WallTime created_at,
                                        const EventLimits& limits) {
  DOVETAIL_TRY(validate(event, limits));
  if (!event.id)
    return fail(Errc::rejected,
                "the event has no id; set NewEvent::id before you publish to a MemoryLog");
  auto headers = encode_headers(event.headers);
  if (!headers) return fail(std::move(headers.error()));

  Event stored;
  stored.id = *event.id;
  stored.topic = event.topic;
  stored.aggregate_type = event.aggregate_type;
  stored.aggregate_id = event.aggregate_id;
  stored.type = event.type;
  stored.content_type = event.content_type;
  if (!event.headers.empty()) stored.headers = *headers;
  stored.payload = event.payload;
  stored.aggregate_version = event.aggregate_version;
  stored.created_at = created_at;
  return append(stored);
}

std::int64_t MemoryLog::append(const Event& event) {
  StoredEvent stored(event);
  std::int64_t position = 0;
  {
    std::lock_guard lock(mutex_);
    position = static_cast<std::int64_t>(events_.size()) + 1;
    stored.position = position;
    events_.push_back(std::move(stored));
  }
  arrived_.notify_all();
  return position;
}

void MemoryLog::read_behind(std::int64_t position, Batch& out, const Limits& limits,
                            std::stop_token stop) {
  std::unique_lock lock(mutex_);
  auto next = static_cast<std::size_t>(position);
  arrived_.wait_for(lock, stop, limits.wait_max, [&] { return events_.size() > next; });

  std::size_t count = 0;
  std::size_t bytes = 0;
  for (; next < events_.size() && count < limits.events_max; ++next, ++count) {
    bytes += events_[next].bytes();
    if (count > 0 && bytes > limits.bytes_max) break;
    out.append(events_[next].view());
  }
}

std::int64_t MemoryLog::last_position() const {
  std::lock_guard lock(mutex_);
  return static_cast<std::int64_t>(events_.size());
}

}  // namespace dovetail
