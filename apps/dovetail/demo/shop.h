// A shop of two services, for the demo and the crash test: one takes orders, the other moves stock.
// Each has its own SQLite file, and they share nothing but events. They use Dovetail like any
// application: through dovetail/sqlite.h.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "demo/books.h"
#include "dovetail/result.h"

namespace dovetail::shop {

struct OrderServiceOptions {
  std::string database;
  std::int64_t first_order = 1;  // number of its first order
  std::int64_t orders = 1000;
  std::size_t products = 8;
  std::chrono::microseconds pause{0};  // between two orders
  std::int64_t cancel_every = 10;      // each n-th customer cancels: a rollback
  std::int64_t puzzling_order = 0;     // its event says "three" instead of a number
  std::int64_t deadly_order = 0;       // its event makes the handler kill the process
  std::uint64_t seed = 1;
  std::stop_token stop{};  // no more orders
};

// Creates the tables of each service. Safe to call again.
Status open_order_books(const std::string& database);
Status open_stock_books(const std::string& database);

// Places all orders, then returns. After an interruption the placed orders stay; a new call starts
// anew.
Status run_order_service(const OrderServiceOptions& options);

// One customer's order.
struct Order {
  std::int64_t number = 0;
  std::string product;
  std::int64_t quantity = 0;
  bool cancelled = false;  // to be rolled back
  std::string payload{};   // of its event
};
// The same for a service with other books: makes up the orders, and repeats `place` for each while
// that is unavailable.
Status take_orders(const OrderServiceOptions& options,
                   const std::function<Status(const Order& order)>& place);

struct InventoryServiceOptions {
  std::string database;
  std::string consumer = "inventory";
  std::string fix_file;  // once it exists, the handler can read what puzzled or killed it
  std::chrono::milliseconds lease_term{10'000};
  std::uint32_t attempts_max = 3;
  std::size_t batch_events_max = 1000;
  std::size_t window_events_max = 8000;
};

// Moves stock for every event of the mailbox, until stopped.
Status run_inventory_service(const InventoryServiceOptions& options, std::stop_token stop);
// The same as a program: runs until SIGTERM or SIGINT. Returns the exit code.
int inventory_service_main(const InventoryServiceOptions& options);

struct Books {
  std::vector<Entry> orders;
  std::vector<Entry> movements;  // in the order of time
  std::int64_t quantity_ordered = 0;
  std::int64_t stock_taken = 0;  // from the stock table, which the handler also writes
};
Result<Books> read_books(const std::string& order_database, const std::string& stock_database);
// The books of one service.
Status read_order_books(const std::string& order_database, Books& books);
Status read_stock_books(const std::string& stock_database, Books& books);

// For a progress display; 0 if the table cannot be read now.
std::int64_t count_orders(const std::string& order_database);
std::int64_t count_movements(const std::string& stock_database);

}  // namespace dovetail::shop
