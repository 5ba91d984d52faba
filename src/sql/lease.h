// The right to run one lane, as a row in a database.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "core/relay/lease.h"
#include "sql/lane.h"

namespace dovetail {

// What there is to know of the clock that leases are counted by.
enum class LeaseClock : std::uint8_t {
  steady,  // it never steps, and all processes that share the database have the same one
  set,     // a server's, which may be set while one waits: see LeaseWatch
};

// Our own clock, from before we asked, says when the lease ends for us, a tenth of the term earlier
// than for others. One whose owner is provably gone (see host/owner.h) is taken at once.
class SqlLease : public Lease {
 public:
  // `owner` is for people; every lease adds a part of its own, so that two with one name are told
  // apart. `watch`: what was seen of its holder before. The references outlive this.
  SqlLease(std::unique_ptr<SqlSession> session, const LaneStatements& sql, SqlLane lane,
           LeaseClock kind, Clock& clock, const std::string& owner, Duration term,
           LeaseWatch watch = {});

  Status acquire() override;
  Status renew() override;
  Status release() override;
  TimePoint deadline() const override { return deadline_; }
  TimePoint renew_at() const override { return renew_at_; }

  const std::string& owner() const { return owner_; }

 protected:
  void disconnect() { session_->close(); }

 private:
  Result<LeaseHolder> look();
  bool is_free(const LeaseHolder& holder);
  Result<bool> take(const LeaseHolder& holder);
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
  TimePoint deadline_{};
  TimePoint renew_at_{};
};

// How long a holder may still have the lane, for people. The database's clock may have been set
// back, and then the end of the lease is far away: nobody waits so long. `term`: of the one who
// waits.
std::chrono::seconds longest_wait(const LeaseHolder& holder, Duration term);

}  // namespace dovetail
