// What the relays of this process did lately, in a bounded memory. No I/O.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/clock.h"
#include "core/metrics.h"

namespace dovetail::console {

// Empty values were not measured, or are not known.
struct Measured {
  std::optional<double> pending{};
  std::optional<double> oldest_age_us{};
  std::optional<double> retained_wal_bytes{};
  std::optional<double> parked{};
  // Counted since the process started.
  std::uint64_t read = 0;
  std::uint64_t confirmed = 0;
  LatencyHistogram::Counts commit_to_confirm{};
};

// One interval.
struct Point {
  std::optional<double> pending{};
  std::optional<double> oldest_age_us{};
  std::optional<double> in_per_second{};
  std::optional<double> out_per_second{};
  std::optional<double> p50_us{};  // from commit to confirmation; empty: nothing was confirmed
  std::optional<double> p99_us{};
  std::optional<double> retained_wal_bytes{};
  std::optional<double> parked{};
};

// The last hour in steps of 20 s, and the last day in steps of 5 min. Any thread.
class History {
 public:
  static constexpr Duration kStep = std::chrono::seconds(20);
  static constexpr std::size_t kPoints = 180;
  static constexpr Duration kCoarseStep = std::chrono::minutes(5);
  static constexpr std::size_t kCoarsePoints = 288;
  static constexpr std::size_t kRelaysMax = 200;  // others are not kept

  // At about every kStep. A step that was missed stays empty.
  void add(const std::string& relay, const Measured& measured, TimePoint now, WallTime wall);

  struct Series {
    WallTime start{};  // of the first point
    Duration step{};
    std::vector<Point> points{};
  };
  // Empty: nothing is known of this relay.
  std::optional<Series> of(const std::string& relay, bool is_coarse) const;

 private:
  struct Ring {
    Duration step{};
    std::size_t points_max = 0;
    std::deque<Point> points{};
    std::optional<TimePoint> last_at{};
    WallTime last_wall{};
    Measured last{};

    void add(const Measured& measured, TimePoint now, WallTime wall);
  };
  struct Kept {
    Ring fine{kStep, kPoints};
    Ring coarse{kCoarseStep, kCoarsePoints};
  };

  mutable std::mutex mutex_;
  std::map<std::string, Kept> relays_;
};

}  // namespace dovetail::console
