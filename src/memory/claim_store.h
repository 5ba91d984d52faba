// Claims of consumers that keep their state in this process.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "core/inbox/claims.h"

namespace dovetail {

// The claims of any number of consumers, and what they have completed. Any thread.
class MemoryClaimDatabase {
 public:
  // `clock` decides when leases end.
  explicit MemoryClaimDatabase(Clock& clock) : clock_(clock) {}

  std::uint64_t completed(const std::string& consumer) const;
  std::size_t held(const std::string& consumer) const;  // with leases that have not ended

 private:
  friend class MemoryClaimStore;
  struct Row {
    std::int64_t epoch = 0;
    std::uint32_t attempts = 0;
    TimePoint expires{};
    std::int64_t digest = 0;
  };
  struct Consumer {
    std::map<EventId, std::int64_t> seen;  // with the digest of its payload
    std::map<EventId, Row> claims;
  };
  Clock& clock_;
  mutable std::mutex mutex_;
  std::map<std::string, Consumer> consumers_;
  std::int64_t last_epoch_ = 0;
};

class MemoryClaimStore final : public ClaimStore {
 public:
  MemoryClaimStore(MemoryClaimDatabase& database, std::string consumer)
      : database_(database), consumer_(std::move(consumer)) {}

  Status open() override { return {}; }
  Result<std::vector<Claim>> claim(Events events, Duration lease) override;
  Status complete(std::span<const EventId> ids, std::span<const std::int64_t> epochs,
                  std::span<bool> done) override;
  Status release(std::span<const EventId> ids, std::span<const std::int64_t> epochs,
                 ReleaseReason how) override;

 private:
  MemoryClaimDatabase& database_;
  std::string consumer_;
};

}  // namespace dovetail
