// Events for tests.
#pragma once

#include <cstdint>
#include <deque>
#include <string_view>

#include "core/event/batch.h"
#include "host/host.h"

namespace dovetail {

// The texts belong to the caller.
inline Event event_with(std::string_view topic, std::string_view key, std::string_view payload,
                        std::string_view headers = "") {
  Event event;
  event.id = new_event_id();
  event.topic = topic;
  event.aggregate_type = "order";
  event.aggregate_id = key;
  event.type = "changed";
  event.content_type = "application/json";
  event.payload = payload;
  event.headers = headers;
  event.created_at = system_clock().wall();
  return event;
}

// Events with their texts, valid as long as this object.
class TestEvents {
 public:
  Event& add(const Event& event) { return batches_.emplace_back().append(event); }
  Event& make(std::string_view topic, std::string_view key, std::string_view payload,
              std::string_view headers = "") {
    Event event = event_with(topic, key, payload, headers);
    event.position = static_cast<std::int64_t>(batches_.size()) + 1;
    return add(event);
  }

 private:
  std::deque<Batch> batches_;
};

}  // namespace dovetail
