// The shop's order service with its books in PostgreSQL. It survives a lost connection
// and a lost server: it repeats an order with an unknown outcome, with the same event
// id.
#pragma once

#include <string>

#include "demo/shop.h"

namespace dovetail::shop {

// Creates its tables and dovetail's schema.
Status open_postgres_order_books(const std::string& conninfo);

// `options.database` is the conninfo.
Status run_postgres_order_service(const OrderServiceOptions& options);

// Only what the order service knows.
Status read_postgres_order_books(const std::string& conninfo, Books& books);

}  // namespace dovetail::shop
