// The books of the inventory service, in PostgreSQL, and its handler.
#pragma once

#include <string>

#include "demo/shop.h"
#include "dovetail/postgres_consumer.h"

namespace dovetail::shop {

// `conninfo`: libpq's connection string of an empty database.
Status open_postgres_stock_books(const std::string& conninfo);

// Moves the stock and publishes that. A puzzling order is rejected, and a deadly one ends the
// process by a segmentation fault, until `fix_file` exists.
Status move_stock(postgres::Invocation& invocation, const Event& event,
                  const std::string& fix_file);

// The stock, and the number of events about movements.
Status read_postgres_stock_books(const std::string& conninfo, Books& books, std::int64_t& told);

// 0: they cannot be read now.
std::int64_t count_postgres_orders(const std::string& conninfo);
std::int64_t count_postgres_movements(const std::string& conninfo);
std::int64_t count_postgres_inbox(const std::string& conninfo);  // rows of its inbox

}  // namespace dovetail::shop
