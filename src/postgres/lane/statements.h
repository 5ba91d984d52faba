// The statements about lanes, their leases and what relays say, for the rules that every database
// shares.
#pragma once

#include <string>

#include "sql/lane.h"
#include "sql/relay_state.h"

namespace dovetail::postgres {

// Columns of dovetail.relay_lane: those of LeaseHolder.
extern const std::string kHolderColumns;

const LaneStatements& lane_statements();
const RelayStateStatements& relay_state_statements();

}  // namespace dovetail::postgres
