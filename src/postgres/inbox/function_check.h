// Whether a function of the consumer's database can handle events, before the first one comes.
#pragma once

#include <string_view>

#include "dovetail/result.h"
#include "postgres/connection/connection.h"

namespace dovetail::postgres {

// `function` is "book" or "shop.book", written as PostgreSQL keeps it: no quotes, case as it is.
// It must take one dovetail.event, or with `batch` one dovetail.event[], and the connection's role
// must be allowed to call it. rejected: the text says what is missing, and how to mend it.
Status check_function(Connection& connection, std::string_view function, bool batch);

}  // namespace dovetail::postgres
