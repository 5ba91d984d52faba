// Judges failures: whether the sink or a key is sick, what counts as an attempt, how long to wait.
// It has no clock and does no I/O; callers tell it everything.
//
// - A key is sick when it fails while others pass. So a failure counts as an attempt once another
//   key was confirmed after it. This is checked when the event fails the next time. Until
//   another key passes, the event is tried at the pace of a sick sink and is never parked.
// - The sink is sick when several keys fail and nothing is confirmed in between. Then nothing
//   counts. Only probes go out, a few events of different keys, until one is confirmed. Keys that
//   are known to fail while others pass say nothing about the sink.
// - A busy receiver costs no attempts for a while; after that it counts as a failure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <unordered_map>

#include "core/clock.h"
#include "core/failure/retry.h"
#include "core/relay/sink.h"
#include "dovetail/event.h"

namespace dovetail {

struct FailurePolicyOptions {
  std::uint32_t attempts_max = 15;  // counted failures that park the event
  RetryPolicy key_retry{std::chrono::milliseconds(250), std::chrono::minutes(10)};
  RetryPolicy sink_retry{};  // for a sick sink; its cap limits every wait that costs no attempt
  Duration busy_for = std::chrono::minutes(15);
  std::size_t sick_keys = 5;           // this many failing keys are an outage
  std::size_t probe_keys = 3;          // how many events one probe of a sick sink has
  std::size_t events_max = 100'000;    // events remembered; beyond it they wait and nothing counts
  std::uint32_t suspect_attempts = 2;  // a key with this many attempts says nothing about the sink
  // One pass of another key is enough for all failures; it need not come after each of them. For a
  // run that ends when nothing is left to do.
  bool once_is_enough = false;
};

struct Judgement {
  bool parks = false;
  std::uint32_t attempts = 0;  // counted attempts of the event
  Duration pause{};            // the wait before the next try
};

// For one thread.
class FailurePolicy {
 public:
  explicit FailurePolicy(const FailurePolicyOptions& options) : options_(options) {}

  // The outcomes of one batch. `key` tells keys apart; an event without a key has its own value.
  void confirmed(const EventId& id, std::uint64_t key);
  // The sink knew the event already, or refused it for good: that says nothing about other
  // events.
  void answered(const EventId& id);
  // Any fate except rejected. `attempts`: those counted so far.
  Judgement failed(const EventId& id, std::uint64_t key, Fate fate, std::uint32_t attempts,
                   TimePoint now, Random& random);
  // Ends the batch. True: the sink became sick, a probe failed, or the sink became well.
  bool end_batch(TimePoint now, Random& random);

  bool is_sick() const { return is_sick_; }
  // While sick: when the next probe may go out; and: a probe is on its way.
  TimePoint probe_at() const { return probe_at_; }
  std::size_t probe_keys() const { return options_.probe_keys; }
  void probe_sent() { is_probing_ = true; }
  // The connection broke during the probe.
  void probe_lost() { is_probing_ = false; }

  // Grows with every confirmation, so two readings tell whether one came between them.
  std::uint64_t confirmations() const { return confirmations_; }
  // Batches with failures since the last confirmation.
  std::uint32_t failed_in_a_row() const { return failed_in_a_row_; }

 private:
  struct Record {
    std::uint64_t confirmations = 0;  // of others, when the event failed last
    std::uint32_t repeats = 0;
    bool may_count = false;  // the last failure counts once another key passes
    bool is_busy = false;
    TimePoint busy_since{};
    TimePoint last{};
  };
  struct IdHash {
    std::size_t operator()(const EventId& id) const;
  };

  Record* find_or_add(const EventId& id, TimePoint now);
  bool another_passed_since(std::uint64_t confirmations, std::uint64_t key) const;

  FailurePolicyOptions options_;
  std::unordered_map<EventId, Record, IdHash> events_;
  TimePoint swept_at_{};
  // The last confirmation, and the last one of a different key.
  std::uint64_t confirmations_ = 0;
  std::uint64_t last_key_ = 0;
  std::uint64_t last_of_others_ = 0;
  std::uint32_t failed_in_a_row_ = 0;
  std::set<std::uint64_t> failing_keys_;  // since the last confirmation, at most sick_keys
  bool batch_has_answer_ = false;
  bool batch_has_failure_ = false;
  bool batch_has_confirmation_ = false;
  bool is_sick_ = false;
  bool is_probing_ = false;
  std::uint32_t probes_failed_ = 0;
  TimePoint probe_at_{};
};

}  // namespace dovetail
