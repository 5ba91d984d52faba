// A service that takes orders and publishes an event with each: order and event commit together, or
// not at all.
//
//   order_service orders.db
#include <sqlite3.h>

#include <cstdio>
#include <string>

#include "dovetail/sqlite.h"

namespace {

bool insert_order(sqlite3* db, const std::string& product, int quantity) {
  sqlite3_stmt* statement = nullptr;
  sqlite3_prepare_v2(db, "INSERT INTO orders (product, quantity) VALUES (?1, ?2)", -1, &statement,
                     nullptr);
  sqlite3_bind_text(statement, 1, product.c_str(), -1, SQLITE_STATIC);
  sqlite3_bind_int(statement, 2, quantity);
  const int code = sqlite3_step(statement);
  sqlite3_finalize(statement);
  return code == SQLITE_DONE;
}

// Your own code, in your own transaction. Dovetail adds the one call to publish().
dovetail::Status place_order(sqlite3* db, const std::string& product, int quantity) {
  sqlite3_exec(db, "BEGIN IMMEDIATE", nullptr, nullptr, nullptr);
  if (!insert_order(db, product, quantity)) {
    sqlite3_exec(db, "ROLLBACK", nullptr, nullptr, nullptr);
    return dovetail::fail(dovetail::Errc::unavailable, sqlite3_errmsg(db));
  }

  const std::string payload =
      R"({"product": ")" + product + R"(", "quantity": )" + std::to_string(quantity) + "}";
  dovetail::NewEvent event;
  event.aggregate_type = "orders";
  event.aggregate_id = product;  // events of one product keep their order
  event.type = "OrderPlaced";
  event.payload = payload;
  const auto id = dovetail::sqlite::publish(db, event);
  if (!id) {
    sqlite3_exec(db, "ROLLBACK", nullptr, nullptr, nullptr);
    return dovetail::fail(id.error());
  }

  if (sqlite3_exec(db, "COMMIT", nullptr, nullptr, nullptr) != SQLITE_OK) {
    sqlite3_exec(db, "ROLLBACK", nullptr, nullptr, nullptr);
    return dovetail::fail(dovetail::Errc::failed, sqlite3_errmsg(db));
  }
  std::printf("order %lld: %d x %s, event %s\n", sqlite3_last_insert_rowid(db), quantity,
              product.c_str(), id->to_string().c_str());
  return {};
}

dovetail::Status run(sqlite3* db) {
  // Once for each connection, and once at each start.
  DOVETAIL_TRY(dovetail::sqlite::prepare_connection(db));
  DOVETAIL_TRY(dovetail::sqlite::create_schema(db));
  sqlite3_exec(db,
               "CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, product TEXT, "
               "quantity INTEGER)",
               nullptr, nullptr, nullptr);
  DOVETAIL_TRY(place_order(db, "mug", 2));
  DOVETAIL_TRY(place_order(db, "lamp", 1));
  return place_order(db, "mug", 3);
}

}  // namespace

int main(int argc, char** argv) {
  sqlite3* db = nullptr;
  if (argc != 2 || sqlite3_open(argv[1], &db) != SQLITE_OK) {
    std::fprintf(stderr, "usage: order_service FILE\n");
    return 2;
  }
  const dovetail::Status status = run(db);
  if (!status) std::fprintf(stderr, "order_service: %s\n", status.error().text.c_str());
  sqlite3_close(db);
  return status ? 0 : 1;
}
