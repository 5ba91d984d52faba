// Whether the clock can be trusted before something is deleted because of its age.
#pragma once

#include <string>

#include "core/inbox/clock_mark.h"
#include "sqlite/connection/database.h"

namespace dovetail::sqlite {

// unavailable: the clock was set not long ago, so that what is old cannot be told from what is not.
// Keeps in the file what the next look needs.
Status check_clock(Database& database, const std::string& boot, const ClockMark& now);

}  // namespace dovetail::sqlite
