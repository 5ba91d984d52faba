// Finds events without reading whole tables.
#pragma once

#include <string>
#include <vector>

#include "core/operations.h"

namespace dovetail::sqlite {

// Of the outbox or the mailbox, by their numbers. The times of a search are found by bisection,
// because events carry their times in about this order; after a step of the clock it may begin too
// late.
Result<FoundEvents> search_events(const std::string& path, const EventSearch& search);

}  // namespace dovetail::sqlite
