// Finds events without reading whole tables, and what an inbox knows about one.
#pragma once

#include <string>
#include <vector>

#include "core/operations.h"

namespace dovetail::postgres {

// Of the outbox, by commit numbers. The times of a search are found by bisection, because events
// carry their times in about this order; after a step of the clock it may begin too late.
Result<FoundEvents> search_events(const std::string& url, const EventSearch& search);

// One row for each consumer that knows the event: applied, tried, held or queued.
Result<std::vector<InboxRow>> inbox_of(const std::string& url, const EventId& id);

}  // namespace dovetail::postgres
