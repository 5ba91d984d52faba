// What operators did to a file, and why.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "core/clock.h"
#include "core/operations.h"
#include "sqlite/connection/database.h"

namespace dovetail::sqlite {

// Inside the transaction of what was done. The user of this process did it; `number`, `at` and
// `who` are filled in here.
Status write_audit(Database& database, const AuditRow& row, Clock& clock);

}  // namespace dovetail::sqlite
