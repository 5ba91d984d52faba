// Judges failures: whether the sink is sick or one key is, what counts as an attempt, how long to
// wait. It knows neither clock nor I/O; everything is told to it.
//
// - One key is sick when it fails while others pass. So a failure counts as an attempt once another
//   key was confirmed after it, which is looked at when the event fails the next time. Until
//   another key passes, the event is tried at the pace of a sick sink, and is never parked.
// - The sink is sick when several keys fail and nothing is confirmed meanwhile. Then nothing
//   counts. Only a few events of different keys go out now and then, until one is confirmed. Keys
//   that are known to fail while others pass prove nothing about the sink.
// - That a receiver is busy counts nothing for a while, and then as a failure does.
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
  std::uint32_t attempts_max = 15;  // counted failures; the next one parks the event
  RetryPolicy key_retry{std::chrono::milliseconds(250), std::chrono::minutes(10)};
  RetryPolicy sink_retry{};  // of a sick sink; its cap holds for every wait that counts nothing
  Duration busy_for = std::chrono::minutes(15);
  std::size_t sick_keys = 5;           // so many keys that fail are an outage
  std::size_t probe_keys = 3;          // events of one probe of a sick sink
  std::size_t events_max = 100'000;    // remembered; beyond it events wait and nothing counts
  std::uint32_t suspect_attempts = 2;  // a key with so many proves nothing about the sink
  // Another key that passed at any time proves it, not only after each failure: for a run that ends
  // when nothing else is left to do.
  bool once_is_enough = false;
};

struct Judgement {
  bool parks = false;
  std::uint32_t attempts = 0;  // of the event, that count by now
  Duration pause{};            // before it is tried again
};

// One thread.
class FailurePolicy {
 public:
  explicit FailurePolicy(const FailurePolicyOptions& options) : options_(options) {}

  // Outcomes of one batch. `key` tells keys apart; an event without one has its own.
  void confirmed(const EventId& id, std::uint64_t key);
  // Known to the sink already, or refused for good: that says nothing about what it does with
  // others.
  void answered(const EventId& id);
  // Any other fate but rejected. `attempts`: that counted so far.
  Judgement failed(const EventId& id, std::uint64_t key, Fate fate, std::uint32_t attempts,
                   TimePoint now, Random& random);
  // The batch ends. True: the sink became sick, is sick still after a probe, or became well.
  bool end_batch(TimePoint now, Random& random);

  bool is_sick() const { return is_sick_; }
  // While sick: when the next probe may go out, and that one is on its way.
  TimePoint probe_at() const { return probe_at_; }
  std::size_t probe_keys() const { return options_.probe_keys; }
  void probe_sent() { is_probing_ = true; }
  // The connection broke under it.
  void probe_lost() { is_probing_ = false; }

  // Grows with every confirmation: what was asked before tells whether there was one since.
  std::uint64_t confirmations() const { return confirmations_; }
  // Batches since the last confirmation in which something failed.
  std::uint32_t failed_in_a_row() const { return failed_in_a_row_; }

 private:
  struct Record {
    std::uint64_t confirmations = 0;  // when it failed last
    std::uint32_t repeats = 0;
    bool may_count = false;  // its last failure, once another key passes
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
  // The last confirmation, and the last one of any other key than that.
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
