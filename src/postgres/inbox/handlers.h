// Functions of the consumer's database as handlers inside its transaction.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "postgres/inbox/inbox_store.h"

namespace dovetail::postgres {

// `function` is its name as the catalog has it, perhaps with its schema and a dot before it; it
// takes one dovetail.event, or with `batch` a dovetail.event[] in order. What it returns is
// dropped. All events of a batch go in one statement. An exception is a failed attempt, unless its
// SQLSTATE is DTREJ (never: park the event) or DTNOW (not now: costs no attempt).
// rejected: such a name cannot be.
Result<TransactionHandler> sql_function(std::string name, std::vector<std::string> types,
                                        std::string_view function, bool batch);

}  // namespace dovetail::postgres
