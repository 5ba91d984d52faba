#include "core/failure/failure_policy.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/mutant.h"

namespace dovetail {

std::size_t FailurePolicy::IdHash::operator()(const EventId& id) const {
  std::uint64_t first = 0;
  std::uint64_t second = 0;
  std::memcpy(&first, id.bytes.data(), sizeof(first));
  std::memcpy(&second, id.bytes.data() + sizeof(first), sizeof(second));
  return static_cast<std::size_t>((first ^ (second * 0x9e3779b97f4a7c15U)));
}

void FailurePolicy::confirmed(const EventId& id, std::uint64_t key) {
  if (key != last_key_) last_of_others_ = confirmations_;
  last_key_ = key;
  ++confirmations_;
  batch_has_confirmation_ = true;
  if (!events_.empty()) events_.erase(id);
}

void FailurePolicy::answered(const EventId& id) {
  batch_has_answer_ = true;
  if (!events_.empty()) events_.erase(id);
}

bool FailurePolicy::another_passed_since(std::uint64_t confirmations, std::uint64_t key) const {
  return (key == last_key_ ? last_of_others_ : confirmations_) > confirmations;
}

// An event that was not tried for long is gone: it was discarded, or another relay owns the lane.
FailurePolicy::Record* FailurePolicy::find_or_add(const EventId& id, TimePoint now) {
  const auto found = events_.find(id);
  if (found != events_.end()) return &found->second;
  const Duration long_ago = 2 * std::max(options_.key_retry.cap, options_.sink_retry.cap);
  if (events_.size() >= options_.events_max && now - swept_at_ > std::chrono::minutes(1)) {
    swept_at_ = now;
    std::erase_if(events_, [&](const auto& one) { return now - one.second.last > long_ago; });
  }
  if (events_.size() >= options_.events_max) return nullptr;
  return &events_[id];
}

Judgement FailurePolicy::failed(const EventId& id, std::uint64_t key, Fate fate,
                                std::uint32_t attempts, TimePoint now, Random& random) {
  const RetryPolicy patient{std::min(options_.key_retry.base, options_.sink_retry.cap),
                            std::min(options_.key_retry.cap, options_.sink_retry.cap)};
  // An event that was not tried proves nothing.
  const bool is_sign = fate == Fate::failed || fate == Fate::busy;
  if (is_sign) {
    batch_has_failure_ = true;
    if (attempts < options_.suspect_attempts && failing_keys_.size() < options_.sick_keys)
      failing_keys_.insert(key);
  }
  Record* const record = find_or_add(id, now);
  if (record == nullptr) return {false, attempts, retry_delay(patient, 32, random)};

  record->last = now;
  const std::uint32_t repeats = record->repeats++;
  if (!is_sign) return {false, attempts, retry_delay(patient, repeats, random)};
  if (fate == Fate::busy && !std::exchange(record->is_busy, true)) record->busy_since = now;
  const bool is_excused = record->is_busy && now - record->busy_since < options_.busy_for &&
                          !DOVETAIL_MUTANT(busy_counts_attempts);
  const std::uint64_t since = options_.once_is_enough ? 0 : record->confirmations;
  const bool others_pass = another_passed_since(since, key) && !is_sick_;
  const bool counts = record->may_count &&
                      (others_pass || DOVETAIL_MUTANT(outage_counts_attempts)) &&
                      !DOVETAIL_MUTANT(attempts_never_count);
  record->may_count = !is_excused && !is_sick_;
  record->confirmations = confirmations_;
  if (!counts) return {false, attempts, retry_delay(patient, repeats, random)};
  ++attempts;
  if (attempts < options_.attempts_max)
    return {false, attempts, retry_delay(options_.key_retry, repeats, random)};
  events_.erase(id);
  return {true, attempts, {}};
}

bool FailurePolicy::end_batch(TimePoint now, Random& random) {
  const bool passed = std::exchange(batch_has_confirmation_, false);
  const bool answered = std::exchange(batch_has_answer_, false);
  const bool failed = std::exchange(batch_has_failure_, false);
  const bool probed = std::exchange(is_probing_, false);
  if (passed) {
    failed_in_a_row_ = 0;
    probes_failed_ = 0;
    failing_keys_.clear();
    return std::exchange(is_sick_, false);
  }
  if (failed) ++failed_in_a_row_;
  const bool becomes_sick = !is_sick_ && failing_keys_.size() >= options_.sick_keys;
  if (becomes_sick) is_sick_ = true;
  if (!is_sick_) return false;
  if (!becomes_sick && !probed) return false;  // sent before the sink was sick
  // The probe was answered but not tried, which proves nothing; the next one may.
  if (probed && answered) {
    probe_at_ = now;
    return false;
  }
  probe_at_ = now + retry_delay(options_.sink_retry, probes_failed_++, random);
  if (DOVETAIL_MUTANT(sick_sink_not_probed)) probe_at_ = TimePoint::max();
  return true;
}

}  // namespace dovetail
