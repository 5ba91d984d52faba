// An order service on PostgreSQL: what it changes and what it publishes commit together, or not at
// all.
//
//   postgres_orders CONNINFO place ORDER-ID PRODUCT QUANTITY
//   postgres_orders CONNINFO ship
//
// ORDER-ID is a UUID that the customer's side chose. Without an answer it sends the order again: it
// counts once.
#include <libpq-fe.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <vector>

#include "dovetail/postgres.h"

namespace {

using dovetail::Errc;
using dovetail::NewEvent;
using dovetail::Result;
using dovetail::Status;
using Rows = std::shared_ptr<PGresult>;

Result<Rows> execute(PGconn* db, const char* sql, std::initializer_list<const char*> values = {}) {
  const Rows rows(PQexecParams(db, sql, static_cast<int>(values.size()), nullptr, values.begin(),
                               nullptr, nullptr, 0),
                  PQclear);
  const ExecStatusType status = PQresultStatus(rows.get());
  if (status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK) return rows;
  // A lost connection leaves open whether the statement took effect. An order has its own id, so
  // sending it again is the answer to that.
  return dovetail::fail(PQstatus(db) == CONNECTION_OK ? Errc::rejected : Errc::in_doubt,
                        PQerrorMessage(db));
}

// Your own way to run a transaction. Dovetail needs no more than that one is open.
template <class Work>
Status in_transaction(PGconn* db, Work work) {
  DOVETAIL_TRY(execute(db, "BEGIN"));
  if (const Status done = work(); !done) {
    (void)execute(db, "ROLLBACK");
    return done;
  }
  DOVETAIL_TRY(execute(db, "COMMIT"));
  return {};
}

NewEvent event_of(const char* order_id, const char* type, const char* payload) {
  NewEvent event;
  event.aggregate_type = "orders";
  event.aggregate_id = order_id;  // the key: events of one order keep their order
  event.type = type;
  event.payload = payload;
  return event;
}

// Comes last here to show that nothing of an order stays behind when it is refused, neither its row
// nor its events.
Status check_stock(PGconn* db, const char* product) {
  const auto enough =
      execute(db, "SELECT sum(quantity) <= 100 FROM orders WHERE product = $1", {product});
  if (!enough) return dovetail::fail(enough.error());
  if (*PQgetvalue(enough->get(), 0, 0) == 't') return {};
  return dovetail::fail(Errc::rejected, "only 100 of a product can be ordered");
}

Status place_order(PGconn* db, const char* id, const char* product, const char* quantity) {
  const auto event_id = dovetail::EventId::parse(id);
  if (!event_id) return dovetail::fail(event_id.error());
  return in_transaction(db, [&]() -> Status {
    // The order first, its events afterwards: it locks its row, and along a key events go out in
    // the order of these locks.
    const auto order = execute(
        db,
        "INSERT INTO orders (id, product, quantity) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING "
        "RETURNING jsonb_build_object('product', product, 'quantity', quantity)",
        {id, product, quantity});
    if (!order) return dovetail::fail(order.error());
    if (PQntuples(order->get()) == 0) return {};  // placed before, and so are its events

    const dovetail::Header headers[] = {
        {"traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}};
    const char* payload = PQgetvalue(order->get(), 0, 0);
    NewEvent placed = event_of(id, "OrderPlaced", payload);
    placed.id = *event_id;
    placed.headers = headers;
    DOVETAIL_TRY(dovetail::postgres::publish(db, placed));

    // Goes out tomorrow, whatever has become of us by then. Who receives it looks whether the order
    // is still open.
    const auto tomorrow = std::chrono::time_point_cast<std::chrono::microseconds>(
        std::chrono::system_clock::now() + std::chrono::hours(24));
    DOVETAIL_TRY(dovetail::postgres::publish_at(db, event_of(id, "OrderDue", payload), tomorrow));
    return check_stock(db, product);
  });
}

// Ships what is open. The events of all orders go in one statement; what was shipped before changes
// nothing, and so publishes nothing.
Status ship_orders(PGconn* db) {
  return in_transaction(db, [&]() -> Status {
    const auto orders =
        execute(db, "UPDATE orders SET shipped = true WHERE NOT shipped RETURNING id");
    if (!orders) return dovetail::fail(orders.error());
    std::vector<NewEvent> shipped;
    for (int row = 0; row < PQntuples(orders->get()); ++row) {
      shipped.push_back(event_of(PQgetvalue(orders->get(), row, 0), "OrderShipped", "{}"));
    }
    DOVETAIL_TRY(dovetail::postgres::publish(db, shipped));
    return {};
  });
}

}  // namespace

int main(int argc, char** argv) {
  const bool places = argc == 6 && std::strcmp(argv[2], "place") == 0;
  const bool ships = argc == 3 && std::strcmp(argv[2], "ship") == 0;
  if (!places && !ships) {
    std::fprintf(stderr,
                 "usage: postgres_orders CONNINFO place ORDER-ID PRODUCT QUANTITY | ship\n");
    return 2;
  }
  const std::unique_ptr<PGconn, decltype(&PQfinish)> db(PQconnectdb(argv[1]), PQfinish);
  if (PQstatus(db.get()) != CONNECTION_OK) {
    std::fprintf(stderr, "postgres_orders: %s", PQerrorMessage(db.get()));
    return 1;
  }
  const Status status =
      places ? place_order(db.get(), argv[3], argv[4], argv[5]) : ship_orders(db.get());
  if (!status) {
    std::fprintf(stderr, "postgres_orders: %s\n", status.error().text.c_str());
    return 1;
  }
  std::printf("%s\n", places ? "the order is placed" : "all orders are shipped");
}
