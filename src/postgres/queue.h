// The inbox as a queue: a handler that lays events by in the consumer's database, where services in
// any language take them with dovetail.receive().
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/sink.h"
#include "postgres/connection.h"

namespace dovetail::postgres {

// Lays events by, inside the transaction of their inbox rows: one statement for all of a batch.
// `consumer` must outlive the parameters.
inline constexpr std::string_view kEnqueue =
    "SELECT dovetail.enqueue($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)";
Params enqueue_params(std::string_view consumer, Events events);

}  // namespace dovetail::postgres
