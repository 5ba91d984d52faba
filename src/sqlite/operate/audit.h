// Writes what an operator did to the audit of a file.
#pragma once

#include "core/clock.h"
#include "core/operations.h"
#include "sqlite/connection/database.h"

namespace dovetail::sqlite {

// For actions that are not rules of src/sql yet. Call it in the transaction of the action. It fills
// in `number`, `at` and `who` (the user of this process).
Status write_audit(Database& database, const AuditRow& row, Clock& clock);

}  // namespace dovetail::sqlite
