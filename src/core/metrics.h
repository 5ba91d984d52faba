// What a relay counts. Written by the relay's thread, readable by any other at any time.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/clock.h"

namespace dovetail {

// Counts in buckets that double: bucket i holds values below 2^i microseconds. Enough for p50 and
// p99 of a latency.
class LatencyHistogram {
 public:
  static constexpr std::size_t kBuckets = 40;
  void observe(Duration value, std::uint64_t count = 1);
  Duration quantile(
      double q) const;  // upper bound of the bucket that holds it; 0 when nothing was observed
  std::uint64_t count() const;

 private:
  std::array<std::atomic<std::uint64_t>, kBuckets> buckets_{};
};

// One writer's part of a gauge that several share: the gauge is the sum of their parts, and a
// writer that ends takes its part along. One thread.
class GaugePart {
 public:
  explicit GaugePart(std::atomic<std::uint64_t>& sum) : sum_(sum) {}
  ~GaugePart() { set(0); }
  GaugePart(const GaugePart&) = delete;
  GaugePart& operator=(const GaugePart&) = delete;
  void set(std::uint64_t value) {
    sum_ += value - part_;  // wraps around where the part shrinks
    part_ = value;
  }

 private:
  std::atomic<std::uint64_t>& sum_;
  std::uint64_t part_ = 0;
};

struct RelayMetrics {
  using Counter = std::atomic<std::uint64_t>;
  Counter read{0};
  Counter submitted{0};  // sends, repeats included
  Counter confirmed{0};
  Counter duplicates{0};  // the sink had it already
  Counter failed{0};
  Counter rejected{0};
  Counter parked{0};    // events put into parking, those behind a failure included
  Counter replayed{0};  // delivered from parking
  Counter settled{0};
  Counter sink_errors{0};     // connections thrown away
  Counter session_errors{0};  // source, parking or lease failures: everything in memory was dropped
  Counter fenced{0};          // writes or sends refused because the lease was lost
  Counter stalls{0};          // no confirmation within the limit
  // Of all lanes together: see GaugePart.
  std::atomic<std::uint64_t> window_events{0};  // read and not settled
  std::atomic<std::uint64_t> window_bytes{0};
  std::atomic<std::uint64_t> blocked_keys{0};
  // Of a source that reads its database's log where it can.
  Counter stream_starts{0};                          // changes to the log
  Counter stream_ends{0};                            // and away from it
  std::atomic<std::uint64_t> streams{0};             // 1: the log is read now
  std::atomic<std::uint64_t> retained_wal_bytes{0};  // kept for us by the server
  std::atomic<std::int64_t> progress_at_us{0};  // boot time of the last confirmation or idle read
  LatencyHistogram commit_to_confirm;
};

}  // namespace dovetail
