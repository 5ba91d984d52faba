// An event that owns its bytes, for stores that keep events in memory.
#pragma once

#include <cstdint>
#include <string>

#include "dovetail/event.h"

namespace dovetail {

struct StoredEvent {
  StoredEvent() = default;
  explicit StoredEvent(const Event& event);

  // Valid while this object exists and is not moved.
  Event view() const;
  std::size_t bytes() const;

  EventId id{};
  std::int64_t position = 0;
  std::uint64_t key_hash = 0;
  std::string topic{};
  std::string aggregate_type{};
  std::string aggregate_id{};
  std::string type{};
  std::string content_type{};
  std::string headers{};
  std::string payload{};
  std::int64_t aggregate_version = 0;
  WallTime created_at{};

  friend bool operator==(const StoredEvent&, const StoredEvent&) = default;
};

}  // namespace dovetail
