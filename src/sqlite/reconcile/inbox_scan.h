// The inbox of a consumer in a SQLite file, for a comparison.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/clock.h"
#include "core/reconcile/rows.h"
#include "dovetail/result.h"

namespace dovetail::sqlite {

// `handlers`: the names of its inbox rows, such as "stock.mail"; empty: all that the file knows.
// rejected: the file does not know the consumer.
Result<std::unique_ptr<reconcile::ReceiverScan>> scan_inbox(
    const std::string& path, const std::string& consumer, const std::vector<std::string>& handlers,
    Clock& clock);

}  // namespace dovetail::sqlite
