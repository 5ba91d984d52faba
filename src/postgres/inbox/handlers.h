// SQL functions of the consumer's database as handlers inside its transaction.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "postgres/inbox/inbox_store.h"

namespace dovetail::postgres {

// `function` is its name in the catalogue's spelling, with or without schema. It takes one
// dovetail.event, or with `batch` a dovetail.event[] in order. Its result is ignored. All events
// of a batch go in one statement. An exception is a failed attempt, except for SQLSTATE DTREJ
// (never: park the event) and DTNOW (not now: costs no attempt). rejected: this cannot be a
// name.
Result<TransactionHandler> sql_function(std::string name, std::vector<std::string> types,
                                        std::string_view function, bool batch);

}  // namespace dovetail::postgres
