#include "console/history/history.h"

#include <algorithm>

namespace dovetail::console {

void History::Ring::add(const Measured& measured, TimePoint now, WallTime wall) {
  if (last_at && now - *last_at < step - kStep / 2) return;
  Point point;
  point.pending = measured.pending;
  point.oldest_age_us = measured.oldest_age_us;
  point.retained_wal_bytes = measured.retained_wal_bytes;
  point.parked = measured.parked;
  if (last_at) {
    const double seconds = std::chrono::duration<double>(now - *last_at).count();
    point.in_per_second = static_cast<double>(measured.read - last.read) / seconds;
    point.out_per_second = static_cast<double>(measured.confirmed - last.confirmed) / seconds;
    const auto latency = measured.commit_to_confirm.since(last.commit_to_confirm);
    if (latency.count() != 0) {
      point.p50_us = static_cast<double>(latency.quantile(0.5).count());
      point.p99_us = static_cast<double>(latency.quantile(0.99).count());
    }
    // What was missed stays empty, but for so long only as is kept.
    const auto missed = (now - *last_at + step / 2) / step - 1;
    for (auto i = std::min<std::int64_t>(missed, static_cast<std::int64_t>(points_max)); i > 0; --i)
      points.push_back({});
  }
  points.push_back(point);
  while (points.size() > points_max) points.pop_front();
  last = measured;
  last_at = now;
  last_wall = wall;
}

void History::add(const std::string& relay, const Measured& measured, TimePoint now,
                  WallTime wall) {
  const std::lock_guard lock(mutex_);
  if (!relays_.contains(relay) && relays_.size() >= kRelaysMax) return;
  Kept& kept = relays_[relay];
  kept.fine.add(measured, now, wall);
  kept.coarse.add(measured, now, wall);
}

std::optional<History::Series> History::of(const std::string& relay, bool is_coarse) const {
  const std::lock_guard lock(mutex_);
  const auto found = relays_.find(relay);
  if (found == relays_.end()) return std::nullopt;
  const Ring& ring = is_coarse ? found->second.coarse : found->second.fine;
  Series series;
  series.step = ring.step;
  series.start = ring.last_wall - ring.step * (static_cast<std::int64_t>(ring.points.size()) - 1);
  series.points.assign(ring.points.begin(), ring.points.end());
  return series;
}

}  // namespace dovetail::console
