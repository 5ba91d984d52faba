#include "proofs/relay/postgres_orders.h"

#include <utility>

#include "dovetail/postgres.h"
#include "host/host.h"
#include "postgres/connection/connection.h"
#include "postgres/schema/schema.h"

namespace dovetail::shop {
namespace {

using postgres::Connection;
using postgres::Params;
using postgres::Rows;
using postgres::Transaction;

class OrderDesk {
 public:
  explicit OrderDesk(std::string conninfo) : conninfo_(std::move(conninfo)) {}

  Status place(const Order& order) {
    if (order.number != number_) {
      number_ = order.number;
      id_ = new_event_id();
    }
    const Status placed = try_to_place(order);
    // It is unknown whether it committed; a retry with the same id shows it.
    if (!placed && placed.error().code == Errc::in_doubt)
      return fail(Errc::unavailable, placed.error().text);
    return placed;
  }

 private:
  Status try_to_place(const Order& order) {
    if (!connection_) {
      Result<Connection> opened = Connection::open(conninfo_);
      if (!opened) return fail(opened.error());
      connection_ = std::move(*opened);
    }
    Result<Transaction> transaction = Transaction::begin(connection_);
    if (!transaction) return fail(transaction.error());
    const Result<Rows> known =
        connection_.query("SELECT 1 FROM orders WHERE number = $1", Params().int8(order.number));
    if (!known) return fail(known.error());
    if (!known->empty()) return {};  // an earlier try had committed
    // Locks the product, so that its orders have an order.
    const Result<Rows> counted = connection_.query(
        "INSERT INTO products AS p (name, orders) VALUES ($1, 1) "
        "ON CONFLICT (name) DO UPDATE SET orders = p.orders + 1 RETURNING orders",
        Params().text(order.product));
    if (!counted) return fail(counted.error());
    const std::int64_t version = counted->int8(0, 0);
    const Result<Rows> inserted = connection_.query(
        "INSERT INTO orders (number, product, version, quantity) VALUES ($1, $2, $3, $4)",
        Params().int8(order.number).text(order.product).int8(version).int8(order.quantity));
    if (!inserted) return fail(inserted.error());
    if (order.number % 7 == 0) {
      DOVETAIL_TRY(connection_.execute("SAVEPOINT mistake"));
      DOVETAIL_TRY(tell(order, version, new_event_id()));
      DOVETAIL_TRY(connection_.execute("ROLLBACK TO mistake"));
    }
    DOVETAIL_TRY(tell(order, version, id_));
    if (order.cancelled) return {};  // the end of the scope rolls it back
    return transaction->commit();
  }

  Status tell(const Order& order, std::int64_t version, const EventId& id) {
    NewEvent event;
    event.id = id;
    event.aggregate_type = "orders";
    event.aggregate_id = order.product;
    event.type = "OrderPlaced";
    event.payload = order.payload;
    event.aggregate_version = version;
    const Result<EventId> published = postgres::publish(connection_.get(), event);
    if (!published) return fail(published.error());
    return {};
  }

  std::string conninfo_;
  Connection connection_;
  std::int64_t number_ = 0;
  EventId id_{};
};

}  // namespace

Status open_postgres_order_books(const std::string& conninfo) {
  Result<Connection> connection = Connection::open(conninfo);
  if (!connection) return fail(connection.error());
  DOVETAIL_TRY(postgres::create_schema(*connection));
  return connection->execute(
      "CREATE TABLE products (name text PRIMARY KEY, orders bigint NOT NULL);"
      "CREATE TABLE orders (number bigint PRIMARY KEY, product text NOT NULL,"
      " version bigint NOT NULL, quantity bigint NOT NULL)");
}

Status run_postgres_order_service(const OrderServiceOptions& options) {
  OrderDesk desk(options.database);
  return take_orders(options, [&desk](const Order& order) { return desk.place(order); });
}

Status read_postgres_order_books(const std::string& conninfo, Books& books) {
  Result<Connection> connection = Connection::open(conninfo);
  if (!connection) return fail(connection.error());
  const Result<Rows> rows =
      connection->query("SELECT number, product, version, quantity FROM orders");
  if (!rows) return fail(rows.error());
  for (std::size_t row = 0; row < rows->size(); ++row) {
    books.orders.push_back({.order = rows->int8(row, 0),
                            .product = std::string(rows->text(row, 1)),
                            .version = rows->int8(row, 2),
                            .quantity = rows->int8(row, 3)});
    books.quantity_ordered += rows->int8(row, 3);
  }
  return {};
}

}  // namespace dovetail::shop
