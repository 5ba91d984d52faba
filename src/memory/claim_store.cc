#include "memory/claim_store.h"

#include <algorithm>

#include "core/inbox/forgotten.h"

namespace dovetail {

std::uint64_t MemoryClaimDatabase::completed(const std::string& consumer) const {
  const std::lock_guard lock(mutex_);
  const auto row = consumers_.find(consumer);
  return row == consumers_.end() ? 0 : row->second.seen.size();
}

std::size_t MemoryClaimDatabase::held(const std::string& consumer) const {
  const std::lock_guard lock(mutex_);
  const auto row = consumers_.find(consumer);
  if (row == consumers_.end()) return 0;
  const TimePoint now = clock_.now();
  return static_cast<std::size_t>(
      std::count_if(row->second.claims.begin(), row->second.claims.end(),
                    [&](const auto& claim) { return claim.second.expires > now; }));
}

Result<std::vector<Claim>> MemoryClaimStore::claim(Events events, Duration lease) {
  const std::lock_guard lock(database_.mutex_);
  auto& consumer = database_.consumers_[consumer_];
  const TimePoint now = database_.clock_.now();
  std::vector<Claim> claims;
  for (const Event* event : events) {
    const std::int64_t digest = payload_digest(event->payload);
    const auto seen = consumer.seen.find(event->id);
    if (seen != consumer.seen.end()) {
      const bool is_same = seen->second == digest;
      claims.push_back({is_same ? Claim::State::duplicate : Claim::State::conflict, 0, 0});
      continue;
    }
    const auto [place, is_new] = consumer.claims.try_emplace(event->id);
    auto& row = place->second;
    if (!is_new && row.digest != digest) {
      claims.push_back({Claim::State::conflict, 0, 0});
      continue;
    }
    row.digest = digest;
    if (row.expires > now) {
      claims.push_back({Claim::State::in_progress, 0, 0});
      continue;
    }
    row.epoch = ++database_.last_epoch_;
    row.expires = now + lease;
    ++row.attempts;
    claims.push_back({Claim::State::first, row.epoch, row.attempts});
  }
  return claims;
}

Status MemoryClaimStore::complete(std::span<const EventId> ids,
                                  std::span<const std::int64_t> epochs, std::span<bool> done) {
  const std::lock_guard lock(database_.mutex_);
  auto& consumer = database_.consumers_[consumer_];
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto row = consumer.claims.find(ids[i]);
    done[i] = row != consumer.claims.end() && row->second.epoch == epochs[i];
    if (!done[i]) continue;
    consumer.seen.emplace(ids[i], row->second.digest);
    consumer.claims.erase(row);
  }
  return {};
}

Status MemoryClaimStore::release(std::span<const EventId> ids, std::span<const std::int64_t> epochs,
                                 ReleaseReason how) {
  const std::lock_guard lock(database_.mutex_);
  auto& consumer = database_.consumers_[consumer_];
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto found = consumer.claims.find(ids[i]);
    if (found == consumer.claims.end() || found->second.epoch != epochs[i]) continue;
    auto& row = found->second;
    row.epoch = 0;  // without an owner, so that a repeat changes nothing
    row.expires = {};
    if (how == ReleaseReason::untried) --row.attempts;
    if (how == ReleaseReason::parked || row.attempts == 0) consumer.claims.erase(found);
  }
  return {};
}

}  // namespace dovetail
