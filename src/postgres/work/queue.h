// The inbox as a queue: a handler that lays events by in the consumer's database, where services in
// any language take them with dovetail.receive().
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/relay/sink.h"
#include "postgres/connection/connection.h"
#include "postgres/inbox/inbox_store.h"

namespace dovetail::postgres {

// One statement for all events of a batch. An event whose parts PostgreSQL cannot hold (headers
// that are no JSON, text that is not UTF-8) fails here, and not in the worker that receives it.
TransactionHandler queue_handler(std::string name, std::vector<std::string> types);

// What it sends, inside the transaction of the inbox rows.
// `consumer` must outlive the parameters.
inline constexpr std::string_view kEnqueue =
    "SELECT dovetail.enqueue($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)";
Params enqueue_params(std::string_view consumer, Events events);

}  // namespace dovetail::postgres
