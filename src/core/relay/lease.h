// The right to run one lane, held by one relay at a time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/clock.h"
#include "dovetail/result.h"

namespace dovetail {

// One thread at a time. The epoch rises at every acquisition, also by the same owner; every write
// of an owner carries its epoch and is refused when a later one exists.
class Lease {
 public:
  virtual ~Lease() = default;

  // unavailable: somebody else holds it, and the text says who and until when.
  virtual Status acquire() = 0;
  // stopped: it was lost.
  virtual Status renew() = 0;
  // Lets the next relay start at once. Harmless when the lease was lost already.
  virtual Status release() = 0;

  // Nothing may be published from here on; counted from before the last renewal was asked for.
  virtual TimePoint deadline() const = 0;
  // When to renew: after a third of the term.
  virtual TimePoint renew_at() const = 0;
};

// For a source that needs no owner: a broker's consumer group decides, or there is only one reader.
class NoLease final : public Lease {
 public:
  Status acquire() override { return {}; }
  Status renew() override { return {}; }
  Status release() override { return {}; }
  TimePoint deadline() const override { return TimePoint::max(); }
  TimePoint renew_at() const override { return TimePoint::max(); }
};

// Every write carries the epoch of its writer's lease. They count from 1, so that 0, of one who has
// not acquired his lease or has released it, is refused as any other that is not current.
inline constexpr std::int64_t kNoLeaseNow = 0;
// Of one who needs no lease: nothing is fenced.
inline constexpr std::int64_t kUnfenced = -1;

// What a lease store keeps for one lane, and the three decisions about it. Shared by every store,
// so that the rule exists once. `now` and `expires` are of the store's clock.
struct LeaseRow {
  std::string owner{};
  std::uint64_t epoch = 0;
  TimePoint expires{};
};

bool lease_is_free(const LeaseRow& row, TimePoint now);
// Whether a write that carries `epoch` is the current owner's.
bool epoch_is_current(const LeaseRow& row, std::uint64_t epoch);

// Whether the lease of another may be taken, where the store's clock may be set while one waits: an
// hour back, and its end would be an hour away; an hour ahead, and it would have ended under a
// living holder. So one who waits counts by his own clock, which never steps, for how long the
// lease was not renewed. Only who has seen nothing of its holder believes the store's clock. One
// thread.
class LeaseWatch {
 public:
  // `sign` is what the store says now, and another one after every renewal; `has_run_out` is by the
  // store's clock; `term` is the holder's; `now` is from after the store was asked. The holder
  // stops sending well before his term is over, counted from before his last renewal.
  bool is_free(std::string_view sign, bool has_run_out, Duration term, TimePoint now);

 private:
  std::string sign_{};
  TimePoint since_{};
  bool has_seen_life_ = false;  // the sign changed while we looked
};

}  // namespace dovetail
