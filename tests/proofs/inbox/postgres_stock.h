// The books of the inventory service, in PostgreSQL, and its handler.
#pragma once

#include <string>

#include "demo/shop.h"
#include "dovetail/postgres_consumer.h"

namespace dovetail::shop {

// `conninfo` as libpq takes it, of a database that is empty.
Status open_postgres_stock_books(const std::string& conninfo);

// Moves the stock, and publishes that it did. An order that puzzles the handler is refused, one
// that is deadly ends the process by a segmentation fault, as long as `fix_file` does not exist.
Status move_stock(postgres::Invocation& invocation, const Event& event,
                  const std::string& fix_file);

// What the stock is, and how many events tell of a movement.
Status read_postgres_stock_books(const std::string& conninfo, Books& books, std::int64_t& told);

// 0: they cannot be read now.
std::int64_t count_postgres_orders(const std::string& conninfo);
std::int64_t count_postgres_movements(const std::string& conninfo);
std::int64_t count_postgres_inbox(const std::string& conninfo);  // what it remembers

}  // namespace dovetail::shop
