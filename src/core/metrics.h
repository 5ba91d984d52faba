// What a relay counts. The relay's thread writes; any thread may read at any time.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/clock.h"

namespace dovetail {

// Counts values in buckets that double: bucket i holds values below 2^i microseconds. Precise
// enough for p50 and p99 of a latency.
class LatencyHistogram {
 public:
  static constexpr std::size_t kBuckets = 40;
  struct Counts {
    std::array<std::uint64_t, kBuckets> buckets{};
    std::uint64_t sum_us = 0;

    std::uint64_t count() const;
    // The upper bound of the bucket that holds it; 0 without any values.
    Duration quantile(double q) const;
    // What came since `before`. REQUIRES: both are of one histogram.
    Counts since(const Counts& before) const;
  };

  void observe(Duration value, std::uint64_t count = 1);
  Duration quantile(double q) const { return counts().quantile(q); }
  std::uint64_t count() const { return counts().count(); }
  Counts counts() const;

 private:
  friend class LatencyBatch;
  static std::size_t bucket_of(std::uint64_t us);

  std::array<std::atomic<std::uint64_t>, kBuckets> buckets_{};
  std::atomic<std::uint64_t> sum_us_{0};
};

// Gathers the values of a batch. Most are alike, so the shared numbers are touched
// rarely. For one thread.
class LatencyBatch {
 public:
  explicit LatencyBatch(LatencyHistogram& histogram) : histogram_(histogram) {}
  ~LatencyBatch() { flush(); }
  LatencyBatch(const LatencyBatch&) = delete;
  LatencyBatch& operator=(const LatencyBatch&) = delete;
  void observe(Duration value);
  void flush();

 private:
  LatencyHistogram& histogram_;
  std::size_t bucket_ = 0;
  std::uint64_t count_ = 0;
  std::uint64_t sum_us_ = 0;
};

// One writer's part of a shared gauge. The gauge is the sum of the parts; a writer that ends
// removes its part. For one thread.
class GaugePart {
 public:
  explicit GaugePart(std::atomic<std::uint64_t>& sum) : sum_(sum) {}
  ~GaugePart() { set(0); }
  GaugePart(const GaugePart&) = delete;
  GaugePart& operator=(const GaugePart&) = delete;
  void set(std::uint64_t value) {
    sum_ += value - part_;  // wraps around if the part shrinks
    part_ = value;
  }

 private:
  std::atomic<std::uint64_t>& sum_;
  std::uint64_t part_ = 0;
};

// Counts those who are in each of some states. For one thread, which is in at most one.
template <std::size_t kStates>
class StateGauge {
 public:
  using Counts = std::array<std::atomic<std::uint64_t>, kStates>;
  explicit StateGauge(Counts& counts) : counts_(counts) {}
  ~StateGauge() { leave(); }
  StateGauge(const StateGauge&) = delete;
  StateGauge& operator=(const StateGauge&) = delete;
  void enter(std::size_t state) {
    if (state == state_) return;
    leave();
    ++counts_[state];
    state_ = state;
  }

 private:
  void leave() {
    if (state_ != kStates) --counts_[state_];
    state_ = kStates;
  }

  Counts& counts_;
  std::size_t state_ = kStates;  // none
};

struct RelayMetrics {
  using Counter = std::atomic<std::uint64_t>;
  static constexpr std::size_t kStates = 5;  // of RelayState::Kind
  Counter read{0};
  Counter submitted{0};  // sends, including repeats
  Counter confirmed{0};
  Counter duplicates{0};  // the sink knew the event already
  Counter failed{0};
  Counter rejected{0};
  Counter parked{0};    // events put into parking, including those behind a failure
  Counter replayed{0};  // delivered from parking
  Counter settled{0};
  Counter skipped{0};         // left out by the filter; not delivered
  Counter sink_errors{0};     // connections thrown away after an error
  Counter session_errors{0};  // source, parking or lease failures: everything in memory was dropped
  Counter fenced{0};          // writes or sends refused because the lease was lost
  Counter stalls{0};          // no confirmation within the limit
  Counter leases_taken{0};
  // The sum of all lanes; see GaugePart.
  std::atomic<std::uint64_t> window_events{0};  // read and not settled
  std::atomic<std::uint64_t> window_bytes{0};
  std::atomic<std::uint64_t> blocked_keys{0};
  std::atomic<std::uint64_t> sinks_lost{0};  // lanes that have lost their sink
  std::array<std::atomic<std::uint64_t>, kStates> lanes_in_state{};  // by RelayState::Kind
  // Of a source that can read the WAL.
  Counter stream_starts{0};                          // changes to the WAL
  Counter stream_ends{0};                            // changes back to the table
  std::atomic<std::uint64_t> streams{0};             // 1: the WAL is read now
  std::atomic<std::uint64_t> retained_wal_bytes{0};  // WAL that the server keeps for this relay
  std::atomic<std::int64_t> progress_at_us{0};  // boot time of the last confirmation or idle read
  LatencyHistogram commit_to_confirm;
  LatencyHistogram receive_to_confirm;  // from reading the source
};

}  // namespace dovetail
