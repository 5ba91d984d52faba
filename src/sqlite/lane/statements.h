// The statements about readers, their leases and reports, for the shared rules of src/sql. A reader
// of a file has one lane.
#pragma once

#include "sql/lane.h"
#include "sql/relay_state.h"

namespace dovetail::sqlite {

const LaneStatements& lane_statements();
const RelayStateStatements& relay_state_statements();

}  // namespace dovetail::sqlite
