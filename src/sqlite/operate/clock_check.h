// Checks that the clock can be trusted before rows are deleted by age.
#pragma once

#include <string>

#include "core/inbox/clock_mark.h"
#include "sqlite/connection/database.h"

namespace dovetail::sqlite {

// unavailable: the clock was set recently, so ages are unknown. Keeps in the file what the next
// check needs.
Status check_clock(Database& database, const std::string& boot, const ClockMark& now);

}  // namespace dovetail::sqlite
