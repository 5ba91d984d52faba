// An order service with an event loop: many orders are on their way at once, on one connection, and
// nothing waits for the server. Each order and its event commit together, or not at all.
//
//   postgres_async_orders CONNINFO PRODUCT QUANTITY ORDER-ID...
#include <libpq-fe.h>
#include <poll.h>

#include <cstddef>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "dovetail/postgres_async.h"

namespace {

using dovetail::Errc;
using dovetail::Status;

Status lost(PGconn* db) { return dovetail::fail(Errc::in_doubt, PQerrorMessage(db)); }

struct Order {
  std::string id;
  Status outcome{};
};

// Queues one order: between two syncs, a pipeline is one transaction.
Status queue(PGconn* db, const Order& order, const char* product, const char* quantity) {
  const char* const values[] = {order.id.c_str(), product, quantity};
  if (PQsendQueryParams(db,
                        "INSERT INTO orders (id, product, quantity) VALUES ($1, $2, $3) ON "
                        "CONFLICT DO NOTHING",
                        3, nullptr, values, nullptr, nullptr, 0) != 1)
    return lost(db);
  const auto event_id = dovetail::EventId::parse(order.id);
  if (!event_id) return dovetail::fail(event_id.error());
  dovetail::NewEvent placed;
  placed.aggregate_type = "orders";
  placed.aggregate_id = order.id;
  placed.type = "OrderPlaced";
  placed.payload = "{}";
  placed.id = *event_id;  // an order that is sent again adds nothing
  if (const auto id = dovetail::postgres::enqueue_publish(db, placed); !id)
    return dovetail::fail(id.error());
  return PQpipelineSync(db) == 1 ? Status{} : lost(db);
}

// Reads what has come, without waiting. The sync after an order ends it: without an error before
// it, the order is committed.
void read_answers(PGconn* db, std::vector<Order>& orders, std::size_t& done) {
  while (done < orders.size() && PQisBusy(db) == 0) {
    const std::unique_ptr<PGresult, decltype(&PQclear)> result(PQgetResult(db), PQclear);
    if (result == nullptr) continue;  // the end of one statement
    if (PQresultStatus(result.get()) == PGRES_PIPELINE_SYNC) {
      ++done;
      continue;
    }
    const Status answer = dovetail::postgres::publish_outcome(db, result.get());
    if (!answer && orders[done].outcome) orders[done].outcome = answer;
  }
}

// The loop. In a real one, the socket is one of many.
Status serve(PGconn* db, std::vector<Order>& orders) {
  std::size_t done = 0;
  while (done < orders.size()) {
    const int unsent = PQflush(db);
    pollfd socket{PQsocket(db), static_cast<short>(POLLIN | (unsent == 1 ? POLLOUT : 0)), 0};
    if (unsent < 0 || ::poll(&socket, 1, 30'000) < 1 || PQconsumeInput(db) != 1) return lost(db);
    read_answers(db, orders, done);
  }
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) {
    std::fprintf(stderr, "usage: postgres_async_orders CONNINFO PRODUCT QUANTITY ORDER-ID...\n");
    return 2;
  }
  const std::unique_ptr<PGconn, decltype(&PQfinish)> connection(PQconnectdb(argv[1]), PQfinish);
  PGconn* const db = connection.get();
  if (PQstatus(db) != CONNECTION_OK || PQsetnonblocking(db, 1) != 0 ||
      PQenterPipelineMode(db) != 1) {
    std::fprintf(stderr, "postgres_async_orders: %s", PQerrorMessage(db));
    return 1;
  }
  std::vector<Order> orders;
  Status status;
  for (int i = 4; i < argc && status; ++i) {
    orders.push_back({argv[i]});
    status = queue(db, orders.back(), argv[2], argv[3]);
  }
  if (status) status = serve(db, orders);
  if (!status) {
    std::fprintf(stderr, "postgres_async_orders: %s\n", status.error().text.c_str());
    return 1;
  }
  bool is_all = true;
  for (const Order& order : orders) {
    is_all = is_all && order.outcome;
    std::printf("%s: %s\n", order.id.c_str(),
                order.outcome ? "placed" : order.outcome.error().text.c_str());
  }
  return is_all ? 0 : 1;
}
