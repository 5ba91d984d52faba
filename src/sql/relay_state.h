// What relays say about themselves, as a database keeps it. For people: nobody waits for the disk,
// and nothing is lost with it.
#pragma once

#include <string>

#include "host/state_recorder.h"
#include "sql/lane.h"

namespace dovetail {

struct RelayStateStatements {
  // $1 relay, $2 lane, $3 epoch, $4 owner, $5 state, $6 how many microseconds ago it began, $7 the
  // last error, $8 microseconds until the next try (0: there is nothing to try), $9 microseconds
  // for which it holds without a lease.
  std::string write;
};

// Writes nothing when another process holds the lane's lease. A process is known by what stands
// before the '#' of its owner, since each session has a lease of its own. Secrets in the error are
// left out.
Status write_relay_state(SqlSession& session, const LaneStatements& lanes,
                         const RelayStateStatements& sql, const SqlLane& lane,
                         const std::string& owner, const SpokenState& spoken, TimePoint now);

}  // namespace dovetail
