#include "core/metrics.h"

#include <algorithm>
#include <bit>
#include <numeric>

namespace dovetail {

namespace {

std::uint64_t microseconds(Duration value) {
  return static_cast<std::uint64_t>(std::max<Duration::rep>(value.count(), 0));
}

}  // namespace

std::size_t LatencyHistogram::bucket_of(std::uint64_t us) {
  return std::min<std::size_t>(static_cast<std::size_t>(std::bit_width(us)), kBuckets - 1);
}

void LatencyHistogram::observe(Duration value, std::uint64_t count) {
  const std::uint64_t us = microseconds(value);
  buckets_[bucket_of(us)].fetch_add(count, std::memory_order_relaxed);
  sum_us_.fetch_add(us * count, std::memory_order_relaxed);
}

void LatencyBatch::observe(Duration value) {
  const std::uint64_t us = microseconds(value);
  const std::size_t bucket = LatencyHistogram::bucket_of(us);
  if (bucket != bucket_) flush();
  bucket_ = bucket;
  ++count_;
  sum_us_ += us;
}

void LatencyBatch::flush() {
  if (count_ == 0) return;
  histogram_.buckets_[bucket_].fetch_add(count_, std::memory_order_relaxed);
  histogram_.sum_us_.fetch_add(sum_us_, std::memory_order_relaxed);
  count_ = sum_us_ = 0;
}

LatencyHistogram::Counts LatencyHistogram::counts() const {
  Counts counts;
  for (std::size_t i = 0; i < kBuckets; ++i)
    counts.buckets[i] = buckets_[i].load(std::memory_order_relaxed);
  counts.sum_us = sum_us_.load(std::memory_order_relaxed);
  return counts;
}

std::uint64_t LatencyHistogram::Counts::count() const {
  return std::accumulate(buckets.begin(), buckets.end(), std::uint64_t{0});
}

Duration LatencyHistogram::Counts::quantile(double q) const {
  const std::uint64_t total = count();
  if (total == 0) return Duration{0};
  const auto wanted = std::clamp<std::uint64_t>(
      static_cast<std::uint64_t>(q * static_cast<double>(total)) + 1, 1, total);
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < kBuckets; ++i) {
    seen += buckets[i];
    if (seen >= wanted) return Duration{static_cast<Duration::rep>(1) << i};
  }
  return Duration{static_cast<Duration::rep>(1) << (kBuckets - 1)};
}

LatencyHistogram::Counts LatencyHistogram::Counts::since(const Counts& before) const {
  Counts left;
  for (std::size_t i = 0; i < kBuckets; ++i) left.buckets[i] = buckets[i] - before.buckets[i];
  left.sum_us = sum_us - before.sum_us;
  return left;
}

}  // namespace dovetail
