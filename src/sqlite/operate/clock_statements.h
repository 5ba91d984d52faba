// The marks of the clock, for the shared rules of src/sql.
#pragma once

#include "sql/retention.h"

namespace dovetail::sqlite {

const ClockStatements& clock_statements();

}  // namespace dovetail::sqlite
