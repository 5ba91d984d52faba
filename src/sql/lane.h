// One lane of a relay: its row in the database, which says who holds it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/clock.h"
#include "core/relay/lease.h"
#include "dovetail/result.h"
#include "sql/session.h"

namespace dovetail {

// What the rules need of a lane. Lease, source and parking of a lane share it; the database's own
// reader keeps it, and outlives this.
struct SqlLane {
  const std::string& relay;
  const std::string& target;  // where its events go; empty: not said
  std::int64_t& epoch;        // of the lease, when there is one. Every write carries it
  std::uint32_t lane = 0;
  std::uint32_t lanes = 1;

  // The parameters $1 and $2 of every statement about it.
  SqlParams params() const { return SqlParams().text(relay).integer(lane); }
};

// $1 relay, $2 lane.
struct LaneStatements {
  // The columns of LeaseHolder, in their order: text, integer, boolean, microseconds, microseconds,
  // text, text.
  std::string holder;
  // Takes the lane, if its row still has this sign. Adds 1 to the epoch. $3 owner, $4 the term in
  // microseconds, $5 sign, $6 target (empty: not said), which must be that of the row. Changes one
  // row, or none.
  std::string take;
  // $3 epoch, $4 the term in microseconds. Changes one row, or none: another has taken it over.
  std::string renew;
  // $3 epoch. Nobody holds it then.
  std::string release;
  // The epoch. Inside a transaction it stays the same until the end of that.
  std::string epoch;
};

// Who holds a lane, as one sees him who waits for it.
struct LeaseHolder {
  std::string owner{};  // empty: nobody
  std::int64_t epoch = 0;
  bool has_run_out = false;  // by the database's clock
  Duration term{};           // 0: it did not say
  Duration left{};           // until the lease runs out, by the database's clock
  std::string sign{};        // changes with every write of a holder
  std::string target{};      // of the relay; empty: not known yet
};
inline constexpr std::size_t kHolderColumnCount = 7;
LeaseHolder holder_in(const SqlRows& rows, std::size_t row);
// None: the row is gone.
Result<std::optional<LeaseHolder>> read_holder(SqlSession& session, const LaneStatements& sql,
                                               const SqlLane& lane);

// What an owner is called without what tells two sessions of one process apart.
std::string_view process_of(std::string_view owner);

// For people: relay "orders", or lane 3 of it.
std::string shown_lane(const SqlLane& lane);
// stopped, when the lane has another owner. Inside a transaction
// it stays ours until the end of that.
Status check_epoch(SqlSession& session, const LaneStatements& sql, const SqlLane& lane);
Error taken_over(const SqlLane& lane);

}  // namespace dovetail
