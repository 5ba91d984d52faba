#include "core/metrics.h"

#include <algorithm>
#include <bit>

namespace dovetail {

void LatencyHistogram::observe(Duration value, std::uint64_t count) {
  const auto us = static_cast<std::uint64_t>(std::max<Duration::rep>(value.count(), 0));
  const auto bucket =
      std::min<std::size_t>(static_cast<std::size_t>(std::bit_width(us)), kBuckets - 1);
  buckets_[bucket].fetch_add(count, std::memory_order_relaxed);
}

std::uint64_t LatencyHistogram::count() const {
  std::uint64_t total = 0;
  for (const auto& bucket : buckets_) total += bucket.load(std::memory_order_relaxed);
  return total;
}

Duration LatencyHistogram::quantile(double q) const {
  const std::uint64_t total = count();
  if (total == 0) return Duration{0};
  const auto wanted = std::clamp<std::uint64_t>(
      static_cast<std::uint64_t>(q * static_cast<double>(total)) + 1, 1, total);
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < kBuckets; ++i) {
    seen += buckets_[i].load(std::memory_order_relaxed);
    if (seen >= wanted) return Duration{static_cast<Duration::rep>(1) << i};
  }
  return Duration{static_cast<Duration::rep>(1) << (kBuckets - 1)};
}

}  // namespace dovetail
