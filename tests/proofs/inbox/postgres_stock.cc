#include "proofs/inbox/postgres_stock.h"

#include <signal.h>
#include <unistd.h>

#include <cstdlib>

#include "postgres/connection/connection.h"
#include "postgres/schema/schema.h"

namespace dovetail::shop {
namespace {

using postgres::Connection;
using postgres::Rows;

// From an order's payload, which take_orders() makes.
std::string_view value_of(std::string_view payload, std::string_view name) {
  const std::size_t at = payload.find(name);
  if (at == std::string_view::npos) return {};
  const std::string_view value = payload.substr(at + name.size());
  return value.substr(0, value.find_first_of(",}"));
}

std::int64_t count(const std::string& conninfo, const char* sql) {
  Result<Connection> connection = Connection::open(conninfo);
  if (!connection) return 0;
  const Result<Rows> rows = connection->query(sql);
  return rows ? rows->int8(0, 0) : 0;
}

}  // namespace

// No unique constraint, on purpose: a doubled effect must show, not fail.
Status open_postgres_stock_books(const std::string& conninfo) {
  Result<Connection> connection = Connection::open(conninfo);
  if (!connection) return fail(connection.error());
  DOVETAIL_TRY(postgres::create_schema(*connection));
  return connection->execute(
      "CREATE TABLE stock (product text PRIMARY KEY, taken bigint NOT NULL);"
      "CREATE TABLE movements (seq bigint GENERATED ALWAYS AS IDENTITY,"
      " order_number bigint NOT NULL, product text NOT NULL, version bigint NOT NULL,"
      " quantity bigint NOT NULL)");
}

Status move_stock(postgres::Invocation& invocation, const Event& event,
                  const std::string& fix_file) {
  const std::string order(value_of(event.payload, "\"order\":"));
  std::string quantity(value_of(event.payload, "\"quantity\":"));
  if (quantity.starts_with('"')) {
    const bool fixed = ::access(fix_file.c_str(), F_OK) == 0;
    if (!fixed && quantity == "\"deadly\"") {
      ::signal(SIGSEGV, SIG_DFL);
      ::raise(SIGSEGV);
    }
    if (!fixed) return fail(Errc::failed, "the quantity is not a number; check the handler");
    quantity = "3";
  }
  const std::string product(event.aggregate_id);
  // Locks the product first, so that its movements are numbered in commit order.
  DOVETAIL_TRY(
      invocation.queue("INSERT INTO stock AS s (product, taken) VALUES ($1, $2) "
                       "ON CONFLICT (product) DO UPDATE SET taken = s.taken + excluded.taken",
                       {product, quantity}));
  DOVETAIL_TRY(
      invocation.queue("INSERT INTO movements (order_number, product, version, quantity) "
                       "VALUES ($1, $2, $3, $4)",
                       {order, product, event.aggregate_version, quantity}));
  NewEvent moved;
  moved.aggregate_type = "stock";
  moved.aggregate_id = product;
  moved.type = "StockMoved";
  moved.payload = order;
  const Result<EventId> published = invocation.publish(moved);
  if (!published) return fail(published.error());
  return {};
}

Status read_postgres_stock_books(const std::string& conninfo, Books& books, std::int64_t& told) {
  Result<Connection> connection = Connection::open(conninfo);
  if (!connection) return fail(connection.error());
  const Result<Rows> rows = connection->query(
      "SELECT order_number, product, version, quantity FROM movements ORDER BY seq");
  if (!rows) return fail(rows.error());
  for (std::size_t row = 0; row < rows->size(); ++row) {
    books.movements.push_back({.order = rows->int8(row, 0),
                               .product = std::string(rows->text(row, 1)),
                               .version = rows->int8(row, 2),
                               .quantity = rows->int8(row, 3)});
  }
  const Result<Rows> sums = connection->query(
      "SELECT (SELECT coalesce(sum(taken), 0)::bigint FROM stock),"
      " (SELECT count(*) FROM dovetail.outbox WHERE type = 'StockMoved')");
  if (!sums) return fail(sums.error());
  books.stock_taken = sums->int8(0, 0);
  told = sums->int8(0, 1);
  return {};
}

std::int64_t count_postgres_orders(const std::string& conninfo) {
  return count(conninfo, "SELECT count(*) FROM orders");
}

std::int64_t count_postgres_movements(const std::string& conninfo) {
  return count(conninfo, "SELECT count(*) FROM movements");
}

std::int64_t count_postgres_inbox(const std::string& conninfo) {
  return count(conninfo, "SELECT count(*) FROM dovetail.inbox");
}

}  // namespace dovetail::shop
