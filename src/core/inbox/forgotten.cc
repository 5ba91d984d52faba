#include "core/inbox/forgotten.h"

#include <chrono>

#include "core/event/sha256.h"

namespace dovetail {

std::optional<WallTime> time_of(const EventId& id) {
  const bool is_version_7 = id.bytes[6] >> 4 == 7 && id.bytes[8] >> 6 == 2;
  if (!is_version_7) return std::nullopt;
  std::int64_t ms = 0;
  for (std::size_t i = 0; i < 6; ++i) ms = ms << 8 | id.bytes[i];
  return WallTime(std::chrono::milliseconds(ms));
}

std::optional<WallTime> available_at(const Event& event) {
  const std::optional<WallTime> made = time_of(event.id);
  if (made && event.created_at <= *made + kSkewMax) return made;
  if (event.created_at == WallTime{}) return std::nullopt;
  return event.created_at;
}

bool is_forgotten(const Event& event, WallTime forgotten_until) {
  const std::optional<WallTime> time = available_at(event);
  return time && *time <= forgotten_until;
}

std::int64_t payload_digest(std::string_view payload) {
  const std::string hash = Sha256().add(payload).finish();
  std::uint64_t digest = 0;
  for (std::size_t i = 0; i < 8; ++i) digest = digest << 8 | static_cast<std::uint8_t>(hash[i]);
  return static_cast<std::int64_t>(digest);
}

}  // namespace dovetail
