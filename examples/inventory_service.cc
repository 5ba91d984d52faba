// A service that moves stock for each order, once, whatever is redelivered and whenever it is
// killed.
//
//   inventory_service inventory.db [--until-quiet]
#include <sqlite3.h>

#include <chrono>
#include <cstdio>
#include <stop_token>
#include <string>
#include <thread>

#include "dovetail/sqlite.h"

namespace {

// The handler gets the transaction that also holds the inbox row of this event. What it writes
// commits with that row; it must not commit by itself. An error rolls all of it back, and the event
// comes again later.
dovetail::Status move_stock(sqlite3* transaction, const dovetail::Event& event) {
  if (event.type != "OrderPlaced") return {};  // not for us: done
  sqlite3_stmt* statement = nullptr;
  sqlite3_prepare_v2(transaction,
                     "INSERT INTO stock (product, on_hand) "
                     "VALUES (json_extract(?1, '$.product'), -json_extract(?1, '$.quantity')) "
                     "ON CONFLICT (product) DO UPDATE SET on_hand = on_hand + excluded.on_hand",
                     -1, &statement, nullptr);
  sqlite3_bind_text(statement, 1, event.payload.data(), static_cast<int>(event.payload.size()),
                    SQLITE_STATIC);
  const int code = sqlite3_step(statement);
  sqlite3_finalize(statement);
  if (code != SQLITE_DONE) {
    // A failed attempt. When attempts_max of them have failed while other events pass, the event
    // is parked.
    return dovetail::fail(dovetail::Errc::failed, sqlite3_errmsg(transaction));
  }
  return {};
}

bool make_tables(const char* file) {
  sqlite3* db = nullptr;
  bool made = sqlite3_open(file, &db) == SQLITE_OK && dovetail::sqlite::prepare_connection(db) &&
              dovetail::sqlite::create_schema(db) &&
              sqlite3_exec(db,
                           "CREATE TABLE IF NOT EXISTS stock (product TEXT PRIMARY KEY, "
                           "on_hand INTEGER NOT NULL)",
                           nullptr, nullptr, nullptr) == SQLITE_OK;
  sqlite3_close(db);
  return made;
}

// For scripts: asks to stop when nothing new came for a second.
void stop_when_quiet(const dovetail::sqlite::Consumer& consumer, std::stop_source& stop) {
  std::uint64_t last = 0;
  do {
    last = consumer.counts().applied;
    std::this_thread::sleep_for(std::chrono::seconds(1));
  } while (consumer.counts().applied != last);
  stop.request_stop();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || !make_tables(argv[1])) {
    std::fprintf(stderr, "usage: inventory_service FILE [--until-quiet]\n");
    return 2;
  }
  dovetail::sqlite::ConsumerOptions options;
  options.database = argv[1];
  options.name = "inventory";
  options.log = [](std::string_view line) {
    std::fprintf(stderr, "%.*s\n", static_cast<int>(line.size()), line.data());
  };
  auto consumer = dovetail::sqlite::Consumer::open(options, move_stock);
  if (!consumer) {
    std::fprintf(stderr, "inventory_service: %s\n", consumer.error().text.c_str());
    return 1;
  }
  std::stop_source stop;
  std::jthread watcher;
  if (argc > 2) watcher = std::jthread([&] { stop_when_quiet(**consumer, stop); });
  // Without --until-quiet it runs until it is killed, which is safe at any moment.
  const dovetail::Status status = (*consumer)->run(stop.get_token());
  if (!status) std::fprintf(stderr, "inventory_service: %s\n", status.error().text.c_str());
  const dovetail::sqlite::ConsumerCounts counts = (*consumer)->counts();
  std::printf("stock moved for %llu events, %llu duplicates left alone\n",
              static_cast<unsigned long long>(counts.applied),
              static_cast<unsigned long long>(counts.duplicates));
  return status ? 0 : 1;
}
