// A separate program, built against the installed library only: publishes one event in its own
// transaction, rolls another one back, and lets a consumer apply the first.
#include <sqlite3.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <stop_token>
#include <string>
#include <thread>

#include "dovetail/sqlite.h"
#include "dovetail/testing.h"

namespace {

void require(bool condition, const char* what, const std::string& why = {}) {
  if (condition) return;
  std::fprintf(stderr, "%s: %s\n", what, why.c_str());
  std::exit(1);
}

template <class T>
T must(dovetail::Result<T> result, const char* what) {
  require(result.has_value(), what, result ? "" : result.error().text);
  return std::move(*result);
}

void must(const dovetail::Status& status, const char* what) {
  require(status.has_value(), what, status ? "" : status.error().text);
}

void execute(sqlite3* database, const char* sql) {
  require(sqlite3_exec(database, sql, nullptr, nullptr, nullptr) == SQLITE_OK, sql,
          sqlite3_errmsg(database));
}

// Waits for the first effect, at most 30 s.
void consume_one(const std::string& path) {
  dovetail::sqlite::ConsumerOptions options;
  options.database = path;
  options.name = "outside";
  options.from = path;
  std::stop_source stop;
  auto consumer = must(
      dovetail::sqlite::Consumer::open(options,
                                       [](sqlite3* transaction, const dovetail::Event& event) {
                                         require(event.payload == R"({"total":42})", "payload");
                                         execute(transaction, "INSERT INTO seen VALUES (1)");
                                         return dovetail::Status{};
                                       }),
      "open the consumer");
  std::jthread watcher([&] {
    for (int i = 0; i < 3000 && consumer->counts().applied == 0; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    stop.request_stop();
  });
  must(consumer->run(stop.get_token()), "run the consumer");
  require(consumer->counts().applied == 1, "one event is applied");
}

// The installed doubles, as a unit test of a handler uses them.
void test_the_handler() {
  bool works = true;
  dovetail::test::Consumer consumer([&](const dovetail::Event&) -> dovetail::Status {
    if (works) return {};
    return dovetail::fail(dovetail::Errc::failed, "not this time");
  });
  dovetail::NewEvent event{
      .aggregate_type = "order", .aggregate_id = "7", .type = "OrderPlaced", .payload = "{}"};
  using dovetail::test::Fate;
  event.id = must(dovetail::EventId::parse("01890000-0000-7000-8000-000000000001"), "the id");
  require(must(consumer.deliver(event), "deliver").fate == Fate::applied, "it is applied");
  require(must(consumer.deliver(event), "again").fate == Fate::duplicate, "it is a duplicate");
  works = false;
  event.id.reset();
  require(must(consumer.deliver(event), "fail").fate == Fate::failed, "it failed");

  dovetail::test::Relay relay;
  must(relay.publish(event), "publish in memory");
  must(relay.run(), "run the relay in memory");
  require(relay.received().size() == 1, "it is received");
}

}  // namespace

int main(int argc, char** argv) {
  require(argc == 2, "usage: outside FILE");
  test_the_handler();
  sqlite3* database = nullptr;
  require(sqlite3_open(argv[1], &database) == SQLITE_OK, "open the file");
  must(dovetail::sqlite::prepare_connection(database), "prepare the connection");
  must(dovetail::sqlite::create_schema(database), "create the tables");
  execute(database, "CREATE TABLE seen(n INTEGER)");

  const dovetail::NewEvent event{.aggregate_type = "order",
                                 .aggregate_id = "7",
                                 .type = "OrderPlaced",
                                 .payload = R"({"total":42})"};
  execute(database, "BEGIN IMMEDIATE");
  must(dovetail::sqlite::publish(database, event), "publish what is undone");
  execute(database, "ROLLBACK");
  execute(database, "BEGIN IMMEDIATE");
  const auto id = must(dovetail::sqlite::publish(database, event), "publish");
  execute(database, "COMMIT");

  consume_one(argv[1]);
  sqlite3_close(database);
  std::printf("%s\n", id.to_string().c_str());
}
