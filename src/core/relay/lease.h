// The right to run one lane. One relay holds it at a time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/clock.h"
#include "core/relay/hold.h"
#include "dovetail/result.h"

namespace dovetail {

// One thread at a time. Each acquisition raises the epoch, even by the same owner. Every write of
// an owner carries its epoch; a write with an old epoch is refused.
class Lease {
 public:
  virtual ~Lease() = default;

  // unavailable: another owner holds it; the text says which one and until when.
  virtual Status acquire() = 0;
  // stopped: the lease is lost.
  virtual Status renew() = 0;
  // Lets the next relay start at once. Harmless if the lease is lost already.
  virtual Status release() = 0;
  // The same, and records that the lane is drained, unless the order has changed.
  virtual Status release_drained() { return release(); }

  // What an operator has ordered, as acquire() and renew() found it. If it stops the relay,
  // acquire() fails with unavailable.
  virtual Hold hold() const { return Hold::none; }

  // Nothing may be published after this time. Counted from before the last renewal was sent.
  virtual TimePoint deadline() const = 0;
  // When to renew: after a third of the term.
  virtual TimePoint renew_at() const = 0;
};

// For a source without an owner: a broker's consumer group, or a single reader.
class NoLease final : public Lease {
 public:
  Status acquire() override { return {}; }
  Status renew() override { return {}; }
  Status release() override { return {}; }
  TimePoint deadline() const override { return TimePoint::max(); }
  TimePoint renew_at() const override { return TimePoint::max(); }
};

// Every write carries the epoch of its lease. Epochs count from 1. 0 means "no lease now" and is
// refused like any epoch that is not current.
inline constexpr std::int64_t kNoLeaseNow = 0;
// For a writer that needs no lease: its writes are not checked.
inline constexpr std::int64_t kUnfenced = -1;

// The lease row of one lane, and the three decisions about it, in one place for every store. `now`
// and `expires` are times of the store's clock.
struct LeaseRow {
  std::string owner{};
  std::uint64_t epoch = 0;
  TimePoint expires{};
};

bool lease_is_free(const LeaseRow& row, TimePoint now);
// Whether `epoch` belongs to the current owner.
bool epoch_is_current(const LeaseRow& row, std::uint64_t epoch);

// Decides whether another owner's lease may be taken when the store's clock can be set meanwhile.
// If that clock goes back an hour, the lease seems to last an hour more. If it goes ahead an hour,
// the lease of a living owner seems over. So we measure with our own steady clock how long the
// lease was not renewed. The store's clock counts only if we have not seen the owner yet. For one
// thread.
class LeaseWatch {
 public:
  // `sign` changes with every renewal. `has_run_out` is by the store's clock. `term` is the
  // holder's. `now` was read after the store answered. The holder stops sending well before its
  // term is over, counted from before its last renewal.
  bool is_free(std::string_view sign, bool has_run_out, Duration term, TimePoint now);

 private:
  std::string sign_{};
  TimePoint since_{};
  bool has_seen_life_ = false;  // the sign changed while we watched
};

}  // namespace dovetail
