// Checks that a function of the consumer's database can handle events, before the first event.
#pragma once

#include <string_view>

#include "dovetail/result.h"
#include "postgres/connection/connection.h"

namespace dovetail::postgres {

// `function` is "book" or "shop.book" in the catalogue's spelling, without quotes. It must take one
// dovetail.event, or with `batch` one dovetail.event[], and the connection's role must have the
// right to call it. rejected: the text says what is missing, and the remedy.
Status check_function(Connection& connection, std::string_view function, bool batch);

}  // namespace dovetail::postgres
