// The statements about lanes, their leases, parked events and reports, for the shared rules of
// src/sql.
#pragma once

#include <string>

#include "sql/first_start.h"
#include "sql/lane.h"
#include "sql/parking.h"
#include "sql/relay_state.h"

namespace dovetail::postgres {

// Columns of dovetail.relay_lane, as LeaseHolder needs them.
extern const std::string kHolderColumns;

const FirstStartStatements& first_start_statements();
const LaneStatements& lane_statements();
// `of_mapped_table`: a discarded event was published anew if its row was marked as discarded and is
// pending again.
const ParkingStatements& parking_statements(bool of_mapped_table);
const RelayStateStatements& relay_state_statements();

}  // namespace dovetail::postgres
