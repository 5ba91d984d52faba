// A PostgreSQL outbox, as one of its relays sees it, for a comparison.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "core/reconcile/rows.h"
#include "dovetail/result.h"

namespace dovetail::postgres {

// The payloads of events that were written in [from, to) are digested by the server; of others only
// the names are read. rejected: the relay reads another table.
Result<std::unique_ptr<reconcile::OutboxScan>> scan_outbox(const std::string& conninfo,
                                                           const std::string& relay, WallTime from,
                                                           WallTime to);

// The statement for one page, for a test of its plan.
std::string_view outbox_page_sql();

}  // namespace dovetail::postgres
