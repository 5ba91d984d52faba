// The row of one lane in the database. It says who holds the lane.
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

// What the shared rules know about a lane. Its lease, source and parking share one SqlLane; the
// database's own reader owns it and outlives this.
struct SqlLane {
  const std::string& relay;
  const std::string& target;  // where its events go; empty: unknown
  std::int64_t& epoch;        // of the current lease; every write carries it
  std::uint32_t lane = 0;
  std::uint32_t lanes = 1;

  // $1 and $2 of every statement about the lane.
  SqlParams params() const { return SqlParams().text(relay).integer(lane); }
};

// $1 relay, $2 lane.
struct LaneStatements {
  // Returns the columns of LeaseHolder in their order: text, integer, boolean, microseconds,
  // microseconds, text, text, text, text, text.
  std::string holder;
  // Takes the lane if its sign is still the same and no operator's order stops it, and adds 1 to
  // the epoch. $3 owner, $4 term in microseconds, $5 sign, $6 target (empty: unknown), which must
  // match the row. Returns one row with the operator's order, or none.
  std::string take;
  // $3 epoch, $4 term in microseconds. Returns one row with the operator's order, or none if
  // another owner has the lane.
  std::string renew;
  // $3 epoch, $4 whether the lane is drained if it drains. Afterwards nobody holds it.
  std::string release;
  // Returns the epoch. Within a transaction it cannot change until the transaction ends.
  std::string epoch;
};

// The holder of a lane, as a waiting relay sees it.
struct LeaseHolder {
  std::string owner{};  // empty: nobody
  std::int64_t epoch = 0;
  bool has_run_out = false;  // by the database's clock
  Duration term{};           // 0: unknown
  Duration left{};           // until the lease runs out, by the database's clock
  std::string sign{};        // changes with every write of the holder
  std::string target{};      // of the relay; empty: unknown
  Hold hold = Hold::none;    // an operator's order
  std::string hold_by{};
  std::string hold_reason{};
};
inline constexpr std::size_t kHolderColumnCount = 10;
LeaseHolder holder_in(const SqlRows& rows, std::size_t row);
// Empty: the row is gone.
Result<std::optional<LeaseHolder>> read_holder(SqlSession& session, const LaneStatements& sql,
                                               const SqlLane& lane);

// The owner without the part that tells two sessions of one process apart.
std::string_view process_of(std::string_view owner);

// For people: who has paused or drained the lane's relay, and why.
Error held_by_operator(const SqlLane& lane, const LeaseHolder& holder);

// For people: relay "orders", or lane 3 of it.
std::string shown_lane(const SqlLane& lane);
// stopped: the lane has another owner. Within a transaction the lane stays ours until the
// transaction ends.
Status check_epoch(SqlSession& session, const LaneStatements& sql, const SqlLane& lane);
Error taken_over(const SqlLane& lane);

}  // namespace dovetail
