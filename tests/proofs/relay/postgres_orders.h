// The order service of the shop with its books in PostgreSQL. It survives the loss of its
// connection and of the server: an order whose fate is unknown is placed again, with the same event
// id.
#pragma once

#include <string>

#include "demo/shop.h"

namespace dovetail::shop {

// Makes its tables, and dovetail's schema.
Status open_postgres_order_books(const std::string& conninfo);

// `options.database` is the conninfo.
Status run_postgres_order_service(const OrderServiceOptions& options);

// Only what the order service knows.
Status read_postgres_order_books(const std::string& conninfo, Books& books);

}  // namespace dovetail::shop
