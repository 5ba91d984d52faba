#include "memory/sink.h"

#include <utility>

namespace dovetail {
namespace {

auto away() {
  return fail(Errc::unavailable, "the memory sink is not open; check set_available() and open()");
}

}  // namespace

Status MemorySink::open() {
  std::lock_guard lock(mutex_);
  submitted_.clear();
  fence_.clear();
  open_ = available_;
  if (!open_) return away();
  return {};
}

Status MemorySink::submit(Events events) {
  std::lock_guard lock(mutex_);
  if (!open_) return away();
  submitted_.push_back({++last_submitted_, {events.begin(), events.end()}});
  return {};
}

Result<bool> MemorySink::collect(std::span<Outcome> outcomes, Duration) {
  std::lock_guard lock(mutex_);
  if (!open_) return away();
  if (submitted_.empty()) return false;
  const Submitted batch = std::move(submitted_.front());
  submitted_.pop_front();
  for (std::size_t i = 0; i < batch.events.size(); ++i)
    outcomes[i] = accept(*batch.events[i], batch.number);
  return true;
}

Outcome MemorySink::accept(const Event& event, std::uint64_t batch) {
  const bool fencing = options_.keeps_order_on_failure && event.has_key();
  if (fencing && fence_.blocks(event.key_hash, batch))
    return {Fate::again, 0, "not tried: an earlier event of its key failed"};
  if (options_.dedup && ids_.contains(event.id)) return {Fate::duplicate, 0, {}};
  Outcome outcome = decide_ ? decide_(event) : Outcome{Fate::confirmed, 0, {}};
  if (outcome.fate == Fate::confirmed) {
    received_.emplace_back(event);
    ids_.insert(event.id);
  } else if (fencing && outcome.fate != Fate::duplicate) {
    fence_.raise(event.key_hash, last_submitted_);
  }
  return outcome;
}

void MemorySink::decide_by(Decide decide) {
  std::lock_guard lock(mutex_);
  decide_ = std::move(decide);
}

void MemorySink::set_available(bool available) {
  std::lock_guard lock(mutex_);
  available_ = available;
  if (!available) open_ = false;
}

std::vector<StoredEvent> MemorySink::received() const {
  std::lock_guard lock(mutex_);
  return received_;
}

std::size_t MemorySink::received_count() const {
  std::lock_guard lock(mutex_);
  return received_.size();
}

}  // namespace dovetail
