// The right to run one lane, as a row in a database.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "core/relay/lease.h"
#include "sql/lane.h"

namespace dovetail {

// Whether the clock that counts a lease can be set while a relay waits for it.
enum class LeaseClock : std::uint8_t {
  steady,  // it never steps, and all processes of the database share it
  set,     // a server's clock, which may be set while a relay waits: see LeaseWatch
};

// Our own clock, read before each request, tells when our lease ends: a tenth of the term earlier
// than for others. A lease whose owner is provably gone (see host/owner.h) is taken at once.
class SqlLease : public Lease {
 public:
  // `owner` is for people; every lease adds a part of its own, so two leases with one name differ.
  // `watch`: what we have seen of the holder so far. The references must outlive this.
  SqlLease(std::unique_ptr<SqlSession> session, const LaneStatements& sql, SqlLane lane,
           LeaseClock kind, Clock& clock, const std::string& owner, Duration term,
           LeaseWatch watch = {});

  Status acquire() override;
  Status renew() override;
  Status release() override { return release(false); }
  Status release_drained() override { return release(true); }
  Hold hold() const override { return hold_; }
  TimePoint deadline() const override { return deadline_; }
  TimePoint renew_at() const override { return renew_at_; }

  const std::string& owner() const { return owner_; }

 protected:
  void disconnect() { session_->close(); }

 private:
  Result<LeaseHolder> look();
  bool is_free(const LeaseHolder& holder);
  Result<bool> take(const LeaseHolder& holder);
  Status release(bool is_drained);
  void hold_from(TimePoint asked_at);
  Error held_by(const LeaseHolder& holder) const;

  std::unique_ptr<SqlSession> session_;
  const LaneStatements& sql_;
  SqlLane lane_;
  LeaseClock kind_;
  Clock& clock_;
  std::string owner_;
  Duration term_;
  LeaseWatch watch_;
  Hold hold_ = Hold::none;
  TimePoint deadline_{};
  TimePoint renew_at_{};
};

// The longest time for which the holder may still have the lane, for people. If the database's
// clock was set back, the lease seems to end far in the future, but nobody waits that long. `term`:
// that of the waiting relay.
std::chrono::seconds longest_wait(const LeaseHolder& holder, Duration term);

}  // namespace dovetail
