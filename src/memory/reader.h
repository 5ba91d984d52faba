// The state of one reader of a log: its progress, its lease and its parked events. They
// are together, as in a database, so that every write can be checked against the owner's
// epoch.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "core/relay/lease.h"
#include "core/relay/parking.h"
#include "host/host.h"
#include "memory/stored_event.h"

namespace dovetail {

// One row of a parking store.
struct ParkedEvent {
  StoredEvent event;
  ParkState state = ParkState::parked;
  std::uint32_t attempts = 0;
  WallTime retry_at{};
  std::string reason{};
  std::uint32_t replays = 0;  // requested by an operator
  bool discarded = false;     // discarded by an operator, kept as history
};

// The rules of a parking store, over rows in memory. For one thread.
class ParkedRows {
 public:
  // A request for an existing event updates it, with three exceptions. A discarded
  // event stays discarded. An event that waits for an operator keeps waiting, because
  // a request that would let it retry comes from a second read. If the row has an
  // earlier position, the request is about a later copy of the same event, and the row
  // stays.
  void park(std::span<const ParkRequest> requests, WallTime now);
  void blocked_keys(std::vector<OrderKey>& out, std::size_t keys_max) const;
  void blocked_among(std::span<const OrderKey> keys, std::vector<OrderKey>& out) const;
  // Takes only events for which `mine` is true, if several readers share the rows.
  void take_due(
      Batch& out, std::vector<std::uint32_t>& attempts, const Limits& limits, WallTime now,
      const std::function<bool(const StoredEvent&)>& mine = [](const StoredEvent&) {
        return true;
      }) const;
  void delivered(std::span<const EventId> ids);

  // For operators.
  bool replay(const EventId& id, WallTime now);
  bool discard(const EventId& id, std::string reason);
  void hurry(WallTime now);
  const std::map<EventId, ParkedEvent>& rows() const { return rows_; }

 private:
  void keep(const ParkRequest& request, WallTime now);

  std::map<EventId, ParkedEvent> rows_;
};

// Shared by the source, the lease and the parking of a reader, and by the next owners. Any
// thread.
class MemoryReader {
 public:
  // `clock` is the store's clock, which decides what is due.
  explicit MemoryReader(Clock& clock = system_clock()) : clock_(clock) {}

  // Calls `write` if `epoch` is the current owner's or kUnfenced.
  template <class Write>
  Status fenced(std::int64_t epoch, Write write) {
    std::lock_guard lock(mutex_);
    if (epoch != kUnfenced && !epoch_is_current(lease_, static_cast<std::uint64_t>(epoch)))
      return fail(Errc::stopped, "another relay owns this reader; check for a second process");
    write(*this);
    return {};
  }

  std::int64_t settled() const;
  std::vector<ParkedEvent> parked() const;
  // Makes waiting events due now.
  void hurry();
  // False: no such event is parked.
  bool replay(const EventId& id, WallTime now);
  bool discard(const EventId& id, std::string reason);

 private:
  friend class MemoryLease;
  friend class MemoryParking;
  friend class MemorySource;

  Clock& clock_;
  mutable std::mutex mutex_;
  LeaseRow lease_;
  std::int64_t settled_ = 0;
  ParkedRows parked_;
};

// One thread at a time.
class MemoryLease final : public Lease {
 public:
  MemoryLease(MemoryReader& reader, std::string owner, Duration term, Clock& clock);

  Status acquire() override;
  Status renew() override;
  Status release() override;
  TimePoint deadline() const override { return asked_at_ + term_ - term_ / 8; }
  TimePoint renew_at() const override { return asked_at_ + term_ / 3; }

  // Of the last acquisition; kNoLeaseNow before it.
  std::int64_t epoch() const { return epoch_; }

 private:
  MemoryReader& reader_;
  std::string owner_;
  Duration term_;
  Clock& clock_;
  TimePoint asked_at_{};
  std::int64_t epoch_ = kNoLeaseNow;
};

// One thread at a time.
class MemoryParking final : public Parking {
 public:
  // Without a lease, writes are not checked.
  explicit MemoryParking(MemoryReader& reader, const MemoryLease* lease = nullptr)
      : reader_(reader), lease_(lease) {}

  Status open() override { return {}; }
  Status blocked_keys(std::vector<OrderKey>& out, std::size_t keys_max) override;
  Status blocked_among(std::span<const OrderKey> keys, std::vector<OrderKey>& out) override;
  Status park(std::span<const ParkRequest> requests) override;
  Status take_due(Batch& out, std::vector<std::uint32_t>& attempts, const Limits& limits) override;
  Status delivered(std::span<const EventId> ids) override;

 private:
  std::int64_t epoch() const { return lease_ == nullptr ? kUnfenced : lease_->epoch(); }

  MemoryReader& reader_;
  const MemoryLease* lease_;
};

}  // namespace dovetail
