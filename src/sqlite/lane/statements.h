// The statements about readers, their leases, parked events and reports, for the shared rules of
// src/sql. A reader of a file has one lane.
#pragma once

#include "sql/first_start.h"
#include "sql/lane.h"
#include "sql/parking.h"
#include "sql/relay_state.h"

namespace dovetail::sqlite {

const FirstStartStatements& first_start_statements();
const LaneStatements& lane_statements();
// They name the indexes, because without statistics the planner may choose one that walks over a
// whole key.
const ParkingStatements& parking_statements();
const RelayStateStatements& relay_state_statements();

}  // namespace dovetail::sqlite
