// The statements about lanes, their leases and reports, for the shared rules of
// src/sql.
#pragma once

#include <string>

#include "sql/lane.h"
#include "sql/relay_state.h"

namespace dovetail::postgres {

// Columns of dovetail.relay_lane, as LeaseHolder needs them.
extern const std::string kHolderColumns;

const LaneStatements& lane_statements();
const RelayStateStatements& relay_state_statements();

}  // namespace dovetail::postgres
