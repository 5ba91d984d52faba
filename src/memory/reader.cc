#include "memory/reader.h"

#include <algorithm>
#include <set>
#include <utility>

#include "core/failure/retry.h"

namespace dovetail {
namespace {

OrderKey key_of(const StoredEvent& event) { return {event.aggregate_type, event.aggregate_id}; }

}  // namespace

void ParkedRows::park(std::span<const ParkRequest> requests, WallTime now) {
  for (const ParkRequest& request : requests) {
    const auto found = rows_.find(request.event->id);
    if (found == rows_.end() || is_same_event(found->second.event.view(), *request.event)) {
      keep(request, now);
    } else {
      keep(SecondEvent(request).request(), now);
    }
  }
}

void ParkedRows::keep(const ParkRequest& request, WallTime now) {
  auto [row, added] = rows_.try_emplace(request.event->id);
  ParkedEvent& parked = row->second;
  if (!added && (parked.discarded || parked.event.position < request.event->position)) return;
  if (added) parked.event = StoredEvent(*request.event);
  parked.event.position = request.event->position;
  if (!added && parked.state == ParkState::parked && request.state == ParkState::waiting) return;
  parked.state = request.state;
  parked.attempts = request.attempts;
  parked.retry_at = now + request.delay;
  parked.reason = request.reason;
}

void ParkedRows::blocked_keys(std::vector<OrderKey>& out, std::size_t keys_max) const {
  std::set<OrderKey> keys;
  for (const auto& [id, row] : rows_) {
    if (keys.size() == keys_max) break;
    if (!row.discarded && row.event.key_hash != 0) keys.insert(key_of(row.event));
  }
  out.insert(out.end(), keys.begin(), keys.end());
}

void ParkedRows::blocked_among(std::span<const OrderKey> keys, std::vector<OrderKey>& out) const {
  const std::set<OrderKey> asked(keys.begin(), keys.end());
  std::set<OrderKey> found;
  for (const auto& [id, row] : rows_)
    if (!row.discarded && row.event.key_hash != 0 && asked.contains(key_of(row.event)))
      found.insert(key_of(row.event));
  out.insert(out.end(), found.begin(), found.end());
}

void ParkedRows::take_due(Batch& out, std::vector<std::uint32_t>& attempts, const Limits& limits,
                          WallTime now, const std::function<bool(const StoredEvent&)>& mine) const {
  std::vector<const ParkedEvent*> in_order;
  for (const auto& [id, row] : rows_)
    if (!row.discarded && mine(row.event)) in_order.push_back(&row);
  std::sort(in_order.begin(), in_order.end(), [](const ParkedEvent* a, const ParkedEvent* b) {
    return std::pair(a->event.position, a->event.id) < std::pair(b->event.position, b->event.id);
  });

  std::set<OrderKey> held;
  std::size_t count = 0;
  std::size_t bytes = 0;
  for (const ParkedEvent* row : in_order) {
    const bool keyed = row->event.key_hash != 0;
    if (keyed && held.contains(key_of(row->event))) continue;
    const bool due =
        row->state == ParkState::waiting && is_due(row->retry_at, now, limits.pause_max);
    const bool fits =
        count < limits.events_max && (count == 0 || bytes + row->event.bytes() <= limits.bytes_max);
    if (!due || !fits) {
      if (keyed) held.insert(key_of(row->event));
      continue;
    }
    bytes += row->event.bytes();
    ++count;
    out.append(row->event.view()).replays = row->replays;
    attempts.push_back(row->attempts);
  }
}

void ParkedRows::delivered(std::span<const EventId> ids) {
  for (const EventId& id : ids) {
    const auto row = rows_.find(id);
    if (row != rows_.end() && !row->second.discarded) rows_.erase(row);
  }
}

bool ParkedRows::replay(const EventId& id, WallTime now) {
  const auto row = rows_.find(id);
  if (row == rows_.end() || row->second.discarded || row->second.state != ParkState::parked)
    return false;
  row->second.state = ParkState::waiting;
  ++row->second.replays;
  row->second.attempts = 0;
  row->second.retry_at = now;
  return true;
}

bool ParkedRows::discard(const EventId& id, std::string reason) {
  const auto row = rows_.find(id);
  if (row == rows_.end() || row->second.discarded) return false;
  row->second.discarded = true;
  row->second.reason = std::move(reason);
  return true;
}

void ParkedRows::hurry(WallTime now) {
  for (auto& [id, row] : rows_) row.retry_at = std::min(row.retry_at, now);
}

void MemoryReader::hurry() {
  std::lock_guard lock(mutex_);
  parked_.hurry(clock_.wall());
}

std::int64_t MemoryReader::settled() const {
  std::lock_guard lock(mutex_);
  return settled_;
}

std::vector<ParkedEvent> MemoryReader::parked() const {
  std::lock_guard lock(mutex_);
  std::vector<ParkedEvent> out;
  for (const auto& [id, row] : parked_.rows()) out.push_back(row);
  return out;
}

bool MemoryReader::replay(const EventId& id, WallTime now) {
  std::lock_guard lock(mutex_);
  return parked_.replay(id, now);
}

bool MemoryReader::discard(const EventId& id, std::string reason) {
  std::lock_guard lock(mutex_);
  return parked_.discard(id, std::move(reason));
}

MemoryLease::MemoryLease(MemoryReader& reader, std::string owner, Duration term, Clock& clock)
    : reader_(reader), owner_(std::move(owner)), term_(term), clock_(clock) {}

Status MemoryLease::acquire() {
  const TimePoint now = clock_.now();
  std::lock_guard lock(reader_.mutex_);
  LeaseRow& row = reader_.lease_;
  if (!lease_is_free(row, now))
    return fail(Errc::unavailable,
                "the lease is held by " + row.owner + "; check whether that relay should run");
  row.owner = owner_;
  row.expires = now + term_;
  epoch_ = static_cast<std::int64_t>(++row.epoch);
  asked_at_ = now;
  return {};
}

Status MemoryLease::renew() {
  const TimePoint now = clock_.now();
  return reader_.fenced(epoch_, [&](MemoryReader& reader) {
    reader.lease_.expires = now + term_;
    asked_at_ = now;
  });
}

Status MemoryLease::release() {
  std::lock_guard lock(reader_.mutex_);
  if (epoch_is_current(reader_.lease_, static_cast<std::uint64_t>(epoch_)))
    reader_.lease_.expires = clock_.now();
  epoch_ = kNoLeaseNow;
  return {};
}

Status MemoryParking::blocked_keys(std::vector<OrderKey>& out, std::size_t keys_max) {
  std::lock_guard lock(reader_.mutex_);
  reader_.parked_.blocked_keys(out, keys_max);
  return {};
}

Status MemoryParking::blocked_among(std::span<const OrderKey> keys, std::vector<OrderKey>& out) {
  std::lock_guard lock(reader_.mutex_);
  reader_.parked_.blocked_among(keys, out);
  return {};
}

Status MemoryParking::park(std::span<const ParkRequest> requests) {
  return reader_.fenced(
      epoch(), [&](MemoryReader& reader) { reader.parked_.park(requests, reader.clock_.wall()); });
}

Status MemoryParking::take_due(Batch& out, std::vector<std::uint32_t>& attempts,
                               const Limits& limits) {
  std::lock_guard lock(reader_.mutex_);
  reader_.parked_.take_due(out, attempts, limits, reader_.clock_.wall());
  return {};
}

Status MemoryParking::delivered(std::span<const EventId> ids) {
  return reader_.fenced(epoch(), [&](MemoryReader& reader) { reader.parked_.delivered(ids); });
}

}  // namespace dovetail
