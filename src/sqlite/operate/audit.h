// Actions of operators on a file, with their reasons.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "core/clock.h"
#include "core/operations.h"
#include "sqlite/connection/database.h"

namespace dovetail::sqlite {

// The user of this process.
std::string user_name();

// Call it in the transaction of the action. It fills in `number`, `at` and `who` (the user of this
// process).
Status write_audit(Database& database, const AuditRow& row, Clock& clock);

}  // namespace dovetail::sqlite
