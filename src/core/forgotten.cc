#include "core/forgotten.h"

#include <chrono>

namespace dovetail {

std::optional<WallTime> time_of(const EventId& id) {
  const bool is_version_7 = id.bytes[6] >> 4 == 7 && id.bytes[8] >> 6 == 2;
  if (!is_version_7) return std::nullopt;
  std::int64_t ms = 0;
  for (std::size_t i = 0; i < 6; ++i) ms = ms << 8 | id.bytes[i];
  return WallTime(std::chrono::milliseconds(ms));
}

bool is_forgotten(const Event& event, WallTime forgotten_before, WallTime consumer_since) {
  if (consumer_since >= forgotten_before) return false;
  const WallTime time = time_of(event.id).value_or(event.created_at);
  return time != WallTime{} && time < forgotten_before;
}

}  // namespace dovetail
