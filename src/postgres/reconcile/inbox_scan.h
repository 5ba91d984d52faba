// The inbox of a consumer in PostgreSQL, for a comparison.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/reconcile/rows.h"
#include "dovetail/result.h"

namespace dovetail::postgres {

// `handlers`: the names of its inbox rows, such as "stock.ledger"; empty: all that the database
// knows. rejected: the database does not know the consumer.
Result<std::unique_ptr<reconcile::ReceiverScan>> scan_inbox(
    const std::string& conninfo, const std::string& consumer,
    const std::vector<std::string>& handlers);

// The statement for one page, for a test of its plan.
std::string_view inbox_page_sql();

}  // namespace dovetail::postgres
