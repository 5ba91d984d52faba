#include "core/sinks/confirms.h"

#include <utility>

#include "core/check.h"
#include "core/mutant.h"

namespace dovetail {

std::uint64_t ConfirmTracker::add_batch(std::size_t count) {
  const std::uint64_t first = next_tag_;
  next_tag_ += count;
  unresolved_ += count;
  batches_.push_back(
      Pending{first, count, std::vector<Outcome>(count), std::vector<bool>(count, false)});
  return first;
}

void ConfirmTracker::mark(Pending& batch, std::size_t index, Outcome outcome) {
  if (batch.resolved[index]) {
    if (DOVETAIL_MUTANT(confirmation_counted_twice) && batch.unresolved > 0) {
      // The repeat is counted for the first open event.
      for (std::size_t i = 0; i < batch.resolved.size(); ++i) {
        if (!batch.resolved[i]) return mark(batch, i, Outcome{Fate::confirmed});
      }
    }
    return;
  }
  batch.resolved[index] = true;
  batch.outcomes[index] = std::move(outcome);
  --batch.unresolved;
  --unresolved_;
}

void ConfirmTracker::resolve(std::uint64_t tag, Outcome outcome) {
  for (Pending& batch : batches_) {
    if (tag < batch.first_tag) return;
    const std::uint64_t index = tag - batch.first_tag;
    if (index < batch.outcomes.size()) return mark(batch, index, std::move(outcome));
  }
}

void ConfirmTracker::resolve_through(std::uint64_t tag, const Outcome& outcome) {
  for (Pending& batch : batches_) {
    if (tag < batch.first_tag) return;
    for (std::size_t i = 0; i < batch.outcomes.size() && batch.first_tag + i <= tag; ++i) {
      if (!batch.resolved[i]) mark(batch, i, outcome);
    }
  }
}

bool ConfirmTracker::oldest_is_complete() const {
  return !batches_.empty() && batches_.front().unresolved == 0;
}

void ConfirmTracker::take_oldest(std::span<Outcome> outcomes) {
  DOVETAIL_CHECK(oldest_is_complete());
  DOVETAIL_CHECK(outcomes.size() == batches_.front().outcomes.size());
  std::vector<Outcome>& stored = batches_.front().outcomes;
  for (std::size_t i = 0; i < stored.size(); ++i) outcomes[i] = std::move(stored[i]);
  batches_.pop_front();
}

void ConfirmTracker::clear() {
  batches_.clear();
  unresolved_ = 0;
}

}  // namespace dovetail
