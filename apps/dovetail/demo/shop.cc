#include "demo/shop.h"

#include <signal.h>
#include <sqlite3.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string_view>
#include <thread>
#include <utility>

#include "core/handle.h"
#include "dovetail/sqlite.h"

namespace dovetail::shop {
namespace {

using Connection = Handle<sqlite3, sqlite3_close_v2>;
using Statement = Handle<sqlite3_stmt, sqlite3_finalize>;

// A busy or full file is worth a retry; anything else is a bug of the shop.
tl::unexpected<Error> sql_error(sqlite3* connection, int code) {
  const int primary = code & 0xFF;
  const bool later = primary == SQLITE_BUSY || primary == SQLITE_LOCKED || primary == SQLITE_FULL ||
                     primary == SQLITE_IOERR || primary == SQLITE_CANTOPEN;
  return fail(later ? Errc::unavailable : Errc::failed,
              std::string("shop: ") + sqlite3_errmsg(connection) + "; check the file");
}

Status execute(sqlite3* connection, const char* sql) {
  if (const int code = sqlite3_exec(connection, sql, nullptr, nullptr, nullptr);
      code != SQLITE_OK) {
    return sql_error(connection, code);
  }
  return {};
}

Result<Connection> open(const std::string& path, int flags) {
  sqlite3* raw = nullptr;
  const int code = sqlite3_open_v2(path.c_str(), &raw, flags | SQLITE_OPEN_NOMUTEX, nullptr);
  Connection connection(raw);
  if (code != SQLITE_OK) return sql_error(raw, code);
  sqlite3_busy_timeout(raw, 5000);
  return connection;
}

Result<Statement> prepare(sqlite3* connection, const char* sql) {
  sqlite3_stmt* raw = nullptr;
  if (const int code = sqlite3_prepare_v2(connection, sql, -1, &raw, nullptr); code != SQLITE_OK) {
    return sql_error(connection, code);
  }
  return Statement(raw);
}

Status run(sqlite3* connection, sqlite3_stmt* statement) {
  const int code = sqlite3_step(statement);
  sqlite3_reset(statement);
  if (code != SQLITE_DONE && code != SQLITE_ROW) return sql_error(connection, code);
  return {};
}

void bind_text(sqlite3_stmt* statement, int parameter, std::string_view text) {
  sqlite3_bind_text(statement, parameter, text.data(), static_cast<int>(text.size()),
                    SQLITE_TRANSIENT);
}

std::string product_name(std::size_t number) {
  static constexpr std::array kNames{"mug", "lamp",  "chair", "kettle",
                                     "rug", "clock", "vase",  "bench"};
  return number < kNames.size() ? kNames[number] : "item-" + std::to_string(number);
}

Status open_books(const std::string& database, const char* tables) {
  auto connection = open(database, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
  if (!connection) return fail(connection.error());
  DOVETAIL_TRY(sqlite::prepare_connection(connection->get()));
  DOVETAIL_TRY(sqlite::create_schema(connection->get()));
  return execute(connection->get(), tables);
}

// Places orders: the row in `orders` and its event commit together, or not at all.
class OrderDesk {
 public:
  static Result<OrderDesk> open_at(const OrderServiceOptions& options) {
    OrderDesk desk;
    auto connection = open(options.database, SQLITE_OPEN_READWRITE);
    if (!connection) return fail(connection.error());
    desk.connection_ = std::move(*connection);
    DOVETAIL_TRY(sqlite::prepare_connection(desk.connection_.get()));
    auto count = prepare(desk.connection_.get(),
                         "INSERT INTO products (name, orders) VALUES (?1, 1) "
                         "ON CONFLICT (name) DO UPDATE SET orders = orders + 1 RETURNING orders");
    if (!count) return fail(count.error());
    desk.count_ = std::move(*count);
    auto insert =
        prepare(desk.connection_.get(),
                "INSERT INTO orders (number, product, version, quantity) VALUES (?1, ?2, ?3, ?4)");
    if (!insert) return fail(insert.error());
    desk.insert_ = std::move(*insert);
    return desk;
  }

  Status place(const Order& order) {
    DOVETAIL_TRY(execute(connection_.get(), "BEGIN IMMEDIATE"));
    const Status placed = write(order);
    if (placed && !order.cancelled) {
      const Status committed = execute(connection_.get(), "COMMIT");
      if (committed) return {};
      sqlite3_exec(connection_.get(), "ROLLBACK", nullptr, nullptr, nullptr);
      return committed;
    }
    sqlite3_exec(connection_.get(), "ROLLBACK", nullptr, nullptr, nullptr);
    return placed;
  }

 private:
  Status write(const Order& order) {
    bind_text(count_.get(), 1, order.product);
    if (const int code = sqlite3_step(count_.get()); code != SQLITE_ROW) {
      sqlite3_reset(count_.get());
      return sql_error(connection_.get(), code);
    }
    const std::int64_t version = sqlite3_column_int64(count_.get(), 0);
    sqlite3_reset(count_.get());
    sqlite3_bind_int64(insert_.get(), 1, order.number);
    bind_text(insert_.get(), 2, order.product);
    sqlite3_bind_int64(insert_.get(), 3, version);
    sqlite3_bind_int64(insert_.get(), 4, order.quantity);
    DOVETAIL_TRY(run(connection_.get(), insert_.get()));

    NewEvent event;
    event.aggregate_type = "orders";
    event.aggregate_id = order.product;
    event.type = "OrderPlaced";
    event.payload = order.payload;
    event.aggregate_version = version;
    const auto id = sqlite::publish(connection_.get(), event);
    if (!id) return fail(id.error());
    return {};
  }

  Connection connection_;
  Statement count_;
  Statement insert_;
};

// The handler: moves the stock inside the given transaction.
class StockRoom {
 public:
  explicit StockRoom(std::string fix_file) : fix_file_(std::move(fix_file)) {}

  Status move(sqlite3* transaction, const Event& event) {
    auto read =
        prepare(transaction, "SELECT json_extract(?1, '$.order'), json_extract(?1, '$.quantity')");
    if (!read) return fail(read.error());
    bind_text(read->get(), 1, event.payload);
    if (const int code = sqlite3_step(read->get()); code != SQLITE_ROW)
      return sql_error(transaction, code);
    const std::int64_t order = sqlite3_column_int64(read->get(), 0);
    std::int64_t quantity = sqlite3_column_int64(read->get(), 1);
    if (sqlite3_column_type(read->get(), 1) == SQLITE_TEXT) {
      const bool fixed = ::access(fix_file_.c_str(), F_OK) == 0;
      const std::string_view words =
          reinterpret_cast<const char*>(sqlite3_column_text(read->get(), 1));
      if (!fixed && words == "deadly") std::abort();
      // Rejected at once: the event can never be applied.
      if (!fixed) return fail(Errc::rejected, "the quantity is not a number; check the handler");
      quantity = 3;
    }
    auto insert = prepare(transaction,
                          "INSERT INTO movements (order_number, product, version, quantity) "
                          "VALUES (?1, ?2, ?3, ?4)");
    if (!insert) return fail(insert.error());
    sqlite3_bind_int64(insert->get(), 1, order);
    bind_text(insert->get(), 2, event.aggregate_id);
    sqlite3_bind_int64(insert->get(), 3, event.aggregate_version);
    sqlite3_bind_int64(insert->get(), 4, quantity);
    DOVETAIL_TRY(run(transaction, insert->get()));
    auto take = prepare(transaction,
                        "INSERT INTO stock (product, taken) VALUES (?1, ?2) "
                        "ON CONFLICT (product) DO UPDATE SET taken = taken + excluded.taken");
    if (!take) return fail(take.error());
    bind_text(take->get(), 1, event.aggregate_id);
    sqlite3_bind_int64(take->get(), 2, quantity);
    return run(transaction, take->get());
  }

 private:
  std::string fix_file_;
};

Result<std::vector<Entry>> read_entries(sqlite3* connection, const char* sql) {
  auto select = prepare(connection, sql);
  if (!select) return fail(select.error());
  std::vector<Entry> entries;
  int code = 0;
  while ((code = sqlite3_step(select->get())) == SQLITE_ROW) {
    Entry entry;
    entry.order = sqlite3_column_int64(select->get(), 0);
    entry.product = reinterpret_cast<const char*>(sqlite3_column_text(select->get(), 1));
    entry.version = sqlite3_column_int64(select->get(), 2);
    entry.quantity = sqlite3_column_int64(select->get(), 3);
    entries.push_back(std::move(entry));
  }
  if (code != SQLITE_DONE) return sql_error(connection, code);
  return entries;
}

Result<std::int64_t> read_number(sqlite3* connection, const char* sql) {
  auto select = prepare(connection, sql);
  if (!select) return fail(select.error());
  if (const int code = sqlite3_step(select->get()); code != SQLITE_ROW)
    return sql_error(connection, code);
  return sqlite3_column_int64(select->get(), 0);
}

std::int64_t count(const std::string& database, const char* sql) {
  const auto connection = open(database, SQLITE_OPEN_READWRITE);
  if (!connection) return 0;
  return read_number(connection->get(), sql).value_or(0);
}

}  // namespace

Status open_order_books(const std::string& database) {
  return open_books(
      database,
      "CREATE TABLE IF NOT EXISTS products (name TEXT PRIMARY KEY, orders INTEGER NOT NULL);"
      "CREATE TABLE IF NOT EXISTS orders (number INTEGER PRIMARY KEY, product TEXT NOT NULL,"
      " version INTEGER NOT NULL, quantity INTEGER NOT NULL);");
}

// No unique index on purpose: a doubled effect must show and not be refused.
Status open_stock_books(const std::string& database) {
  return open_books(
      database,
      "CREATE TABLE IF NOT EXISTS movements (seq INTEGER PRIMARY KEY AUTOINCREMENT,"
      " order_number INTEGER, product TEXT NOT NULL, version INTEGER NOT NULL,"
      " quantity INTEGER NOT NULL);"
      "CREATE TABLE IF NOT EXISTS stock (product TEXT PRIMARY KEY, taken INTEGER NOT NULL);");
}

Status take_orders(const OrderServiceOptions& options,
                   const std::function<Status(const Order& order)>& place) {
  std::mt19937_64 random(options.seed);
  for (std::int64_t i = 0; i < options.orders && !options.stop.stop_requested(); ++i) {
    Order order;
    order.number = options.first_order + i;
    const bool is_deadly = order.number == options.deadly_order;
    const bool is_special = is_deadly || order.number == options.puzzling_order;
    order.product = product_name(random() % options.products);
    // Two products, so that neither waits behind the other.
    if (is_special) order.product = product_name(is_deadly ? 1 : 0);
    order.quantity = is_special ? 3 : 1 + static_cast<std::int64_t>(random() % 5);
    order.cancelled = !is_special && options.cancel_every > 0 && i % options.cancel_every == 4;
    std::string amount = std::to_string(order.quantity);
    if (is_special) amount = is_deadly ? "\"deadly\"" : "\"three\"";
    order.payload =
        R"({"order":)" + std::to_string(order.number) + R"(,"quantity":)" + amount + "}";
    while (true) {
      const Status placed = place(order);
      if (placed) break;
      if (placed.error().code != Errc::unavailable) return placed;
      if (options.stop.stop_requested()) return {};
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    if (options.pause.count() > 0) std::this_thread::sleep_for(options.pause);
  }
  return {};
}

Status run_order_service(const OrderServiceOptions& options) {
  auto desk = OrderDesk::open_at(options);
  if (!desk) return fail(desk.error());
  return take_orders(options, [&desk](const Order& order) { return desk->place(order); });
}

Status run_inventory_service(const InventoryServiceOptions& options, std::stop_token stop) {
  sqlite::ConsumerOptions consumer_options;
  consumer_options.database = options.database;
  consumer_options.name = options.consumer;
  consumer_options.attempts_max = options.attempts_max;
  consumer_options.retry_base = std::chrono::milliseconds(20);
  consumer_options.retry_cap = std::chrono::milliseconds(200);
  consumer_options.lease_term = options.lease_term;
  consumer_options.batch_events_max = options.batch_events_max;
  consumer_options.window_events_max = options.window_events_max;
  consumer_options.log = [](std::string_view line) {
    std::fprintf(stderr, "%.*s\n", static_cast<int>(line.size()), line.data());
  };
  StockRoom room(options.fix_file);
  auto consumer = sqlite::Consumer::open(
      consumer_options,
      [&room](sqlite3* transaction, const Event& event) { return room.move(transaction, event); });
  if (!consumer) return fail(consumer.error());
  return (*consumer)->run(stop);
}

int inventory_service_main(const InventoryServiceOptions& options) {
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGTERM);
  ::sigaddset(&signals, SIGINT);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::stop_source stop;
  std::jthread([&signals, &stop] {
    int signal = 0;
    ::sigwait(&signals, &signal);
    stop.request_stop();
  }).detach();
  const Status status = run_inventory_service(options, stop.get_token());
  if (!status) std::fprintf(stderr, "inventory service: %s\n", status.error().text.c_str());
  std::_Exit(status ? 0 : 1);  // The signal thread may still wait.
}

Status read_stock_books(const std::string& stock_database, Books& books) {
  const auto connection = open(stock_database, SQLITE_OPEN_READWRITE);
  if (!connection) return fail(connection.error());
  auto movements =
      read_entries(connection->get(),
                   "SELECT order_number, product, version, quantity FROM movements ORDER BY seq");
  if (!movements) return fail(movements.error());
  books.movements = std::move(*movements);
  const auto taken = read_number(connection->get(), "SELECT coalesce(sum(taken), 0) FROM stock");
  if (!taken) return fail(taken.error());
  books.stock_taken = *taken;
  return {};
}

Status read_order_books(const std::string& order_database, Books& books) {
  const auto connection = open(order_database, SQLITE_OPEN_READWRITE);
  if (!connection) return fail(connection.error());
  auto orders =
      read_entries(connection->get(), "SELECT number, product, version, quantity FROM orders");
  if (!orders) return fail(orders.error());
  books.orders = std::move(*orders);
  const auto ordered =
      read_number(connection->get(), "SELECT coalesce(sum(quantity), 0) FROM orders");
  if (!ordered) return fail(ordered.error());
  books.quantity_ordered = *ordered;
  return {};
}

Result<Books> read_books(const std::string& order_database, const std::string& stock_database) {
  Books books;
  DOVETAIL_TRY(read_order_books(order_database, books));
  DOVETAIL_TRY(read_stock_books(stock_database, books));
  return books;
}

std::int64_t count_orders(const std::string& database) {
  return count(database, "SELECT count(*) FROM orders");
}

std::int64_t count_movements(const std::string& database) {
  return count(database, "SELECT count(*) FROM movements");
}

}  // namespace dovetail::shop
