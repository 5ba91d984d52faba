// The outbox of a SQLite file, as one of its relays sees it, for a comparison.
#pragma once

#include <memory>
#include <string>

#include "core/clock.h"
#include "core/reconcile/rows.h"
#include "dovetail/result.h"

namespace dovetail::sqlite {

// The payloads of events that were written in [from, to) are digested.
Result<std::unique_ptr<reconcile::OutboxScan>> scan_outbox(const std::string& path,
                                                           const std::string& relay, WallTime from,
                                                           WallTime to, Clock& clock);

}  // namespace dovetail::sqlite
