#include "core/failure/retry.h"

#include <algorithm>

#include "core/mutant.h"

namespace dovetail {

Duration retry_delay(const RetryPolicy& policy, std::uint32_t failures, Random& random) {
  constexpr Duration kFloor = std::chrono::milliseconds(1);
  Duration ceiling = policy.base;
  // Doubling stops at the cap, so nothing can overflow.
  for (std::uint32_t i = 0; i < failures && ceiling < policy.cap; ++i) ceiling *= 2;
  ceiling = std::clamp(ceiling, kFloor, std::max(policy.cap, kFloor));
  const Duration least = std::max(kFloor, ceiling / 2);
  const auto spread = static_cast<std::uint64_t>((ceiling - least).count()) + 1;
  return least + Duration(static_cast<Duration::rep>(random.below(spread)));
}

bool is_due(WallTime due, WallTime now, Duration pause_max) {
  return due <= now || (due > latest_due(now, pause_max) && !DOVETAIL_MUTANT(far_due_waited_for));
}

}  // namespace dovetail
