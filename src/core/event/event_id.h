// Makes event ids: UUID version 7, which begins with the time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "core/clock.h"
#include "dovetail/event.h"

namespace dovetail {

inline constexpr std::size_t kIdTextBytes = 36;
void write_id(const EventId& id, char* to);  // like to_string(): kIdTextBytes bytes, no final NUL
std::optional<EventId> read_id(std::string_view text);  // like parse(), without a reason

// Ids of one generator always grow, even if the wall clock steps back. 62 random bits keep the
// ids of different generators apart. For one thread. After fork() the child needs its own
// entropy.
class IdGenerator {
 public:
  IdGenerator(Clock& clock, Entropy& entropy) : clock_(clock), entropy_(entropy) {}
  EventId next();

 private:
  Clock& clock_;
  Entropy& entropy_;
  std::uint64_t last_ms_ = 0;
  std::uint32_t counter_ = 0;  // 12 bits within one millisecond
};

}  // namespace dovetail
