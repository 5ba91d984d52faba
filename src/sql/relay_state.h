// The states that relays report, as a database keeps them. They are for people: written without
// fsync, and a lost one does no harm.
#pragma once

#include <string>

#include "host/state_recorder.h"
#include "sql/lane.h"

namespace dovetail {

struct RelayStateStatements {
  // $1 relay, $2 lane, $3 epoch, $4 owner, $5 state, $6 microseconds since it began, $7 last error,
  // $8 microseconds until the next try (0: no next try), $9 microseconds for which the report is
  // valid without a lease.
  std::string write;
};

// Writes nothing if another process holds the lane's lease. The part of the owner before '#'
// names the process; each session has a lease of its own. Secrets are removed from the
// error.
Status write_relay_state(SqlSession& session, const LaneStatements& lanes,
                         const RelayStateStatements& sql, const SqlLane& lane,
                         const std::string& owner, const SpokenState& spoken, TimePoint now);

}  // namespace dovetail
