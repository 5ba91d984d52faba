// A stock service on PostgreSQL that hears of orders through Kafka or RabbitMQ, and moves stock
// once for each, whatever is redelivered and whenever it is killed.
//
//   postgres_stock CONNINFO kafka HOST:PORT TOPIC
//   postgres_stock CONNINFO rabbitmq HOST:PORT QUEUE
#include <pthread.h>
#include <signal.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>

#include "dovetail/kafka.h"
#include "dovetail/postgres_consumer.h"
#include "dovetail/rabbitmq.h"

namespace {

using dovetail::Event;
using dovetail::NewEvent;
using dovetail::Origin;
using dovetail::Result;
using dovetail::Status;
using dovetail::postgres::Consumer;
using dovetail::postgres::Invocation;
using dovetail::postgres::Param;

// Runs inside the transaction that also holds the inbox row of this event: all of it commits, or
// nothing. The statements are sent without waiting for their answers, so that a batch of orders
// costs few round trips; if one of them fails, the order is tried again alone, and parked in the
// end.
Status move_stock(Invocation& invocation, const Event& order) {
  DOVETAIL_TRY(invocation.queue(
      "WITH moved AS (INSERT INTO movement (order_id, product, quantity, by) "
      "SELECT $1::uuid, p ->> 'product', (p ->> 'quantity')::int, 'C++' "
      "FROM CAST(convert_from($2, 'UTF8') AS jsonb) AS p RETURNING product, quantity) "
      "INSERT INTO stock (product, on_hand) SELECT product, -quantity FROM moved "
      "ON CONFLICT (product) DO UPDATE SET on_hand = stock.on_hand + excluded.on_hand",
      {order.aggregate_id, Param::bytes(order.payload)}));

  // What others are to hear of it goes into the same transaction. So would a mail: the service
  // that sends it listens to this event.
  NewEvent moved;
  moved.aggregate_type = "stock";
  moved.aggregate_id = order.aggregate_id;
  moved.type = "StockMoved";
  moved.payload = order.payload;
  const auto id = invocation.publish(moved);
  return id ? Status{} : dovetail::fail(id.error());
}

Result<Origin> origin_of(std::string_view broker, const std::string& place, const char* name) {
  if (broker == "kafka") {
    dovetail::kafka::ReadOptions options;
    options.brokers = place;
    options.topics = {name};
    options.group = "stock";
    return dovetail::kafka::origin(options);
  }
  dovetail::rabbitmq::ReadOptions options;
  const std::size_t colon = place.rfind(':');
  options.host = place.substr(0, colon);
  if (colon != std::string::npos) {
    options.port = static_cast<std::uint16_t>(std::atoi(place.c_str() + colon + 1));
  }
  options.queues = {name};
  return dovetail::rabbitmq::origin(options);
}

// Asks to stop at SIGINT or SIGTERM: what is under way is finished before. SIGKILL is as safe; some
// events then come again, and are recognised.
void stop_at_signal(const sigset_t& signals, std::stop_source& stop, const std::stop_token& done) {
  const timespec moment{.tv_sec = 0, .tv_nsec = 100'000'000};
  while (!done.stop_requested()) {
    if (sigtimedwait(&signals, nullptr, &moment) > 0) stop.request_stop();
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view broker = argc == 5 ? argv[2] : "";
  if (broker != "kafka" && broker != "rabbitmq") {
    std::fprintf(stderr, "usage: postgres_stock CONNINFO kafka|rabbitmq HOST:PORT TOPIC|QUEUE\n");
    return 2;
  }
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);  // of every thread that starts from here on

  const Result<Origin> origin = origin_of(broker, argv[3], argv[4]);
  if (!origin) {
    std::fprintf(stderr, "postgres_stock: %s\n", origin.error().text.c_str());
    return 2;
  }
  dovetail::postgres::ConsumerOptions options;
  options.database = argv[1];
  options.name = "stock";
  options.origin = *origin;
  options.log = [](std::string_view line) {
    std::fprintf(stderr, "%.*s\n", static_cast<int>(line.size()), line.data());
  };
  dovetail::postgres::NamedHandler handler;
  handler.types = {"OrderPlaced"};
  handler.each = move_stock;
  auto consumer = Consumer::open(options, {handler});
  if (!consumer) {
    std::fprintf(stderr, "postgres_stock: %s\n", consumer.error().text.c_str());
    return 1;
  }
  std::stop_source stop;
  std::jthread watcher([&](const std::stop_token& done) { stop_at_signal(signals, stop, done); });
  const Status status = (*consumer)->run(stop.get_token());
  if (!status) std::fprintf(stderr, "postgres_stock: %s\n", status.error().text.c_str());
  const dovetail::postgres::ConsumerCounts counts = (*consumer)->counts();
  std::printf("stock moved for %llu orders, %llu duplicates left alone\n",
              static_cast<unsigned long long>(counts.applied),
              static_cast<unsigned long long>(counts.duplicates));
  return status ? 0 : 1;
}
