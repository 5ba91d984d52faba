// Short functions to fill a queue and work on it, for tests.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "host/host.h"
#include "postgres/schema/schema.h"
#include "postgres/testing/test_database.h"
#include "postgres/work/queue.h"

namespace dovetail::postgres {

// Making a database takes longer than such a test, so the tests of a suite share one and find it
// empty.
class QueueTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    shared_ = std::make_unique<TestDatabase>();
    Connection connection = shared_->connect();
    ASSERT_TRUE(create_schema(connection));
    must(connection, "CREATE TABLE effect (id uuid, worker int)");
  }
  static void TearDownTestSuite() { shared_.reset(); }

  QueueTest() : database_(*shared_), owner_(database_.connect()) {
    must(owner_,
         "TRUNCATE effect, dovetail.queue, dovetail.claim, dovetail.inbox, dovetail.parked, "
         "dovetail.audit, dovetail.consumer; UPDATE dovetail.inbox_state SET forgotten_before = "
         "'-infinity'");
  }
  std::int64_t effects() { return number(owner_, "SELECT count(*) FROM effect"); }

  static inline std::unique_ptr<TestDatabase> shared_;
  TestDatabase& database_;
  Connection owner_;
};

struct Line {
  std::string key{};  // its type is "order"; empty: no key
  std::string type{};
  EventId id = new_event_id();
};

// Fills the queue in one transaction, in this order.
inline void fill(Connection& connection, const std::string& consumer, std::vector<Line> lines) {
  std::deque<Event> events;
  std::vector<const Event*> pointers;
  for (const Line& line : lines) {
    Event& event = events.emplace_back();
    event.id = line.id;
    event.topic = "orders";
    event.aggregate_type = "order";
    event.aggregate_id = line.key;
    event.type = line.type;
    event.content_type = "application/json";
    event.payload = "{}";
    pointers.push_back(&event);
  }
  const Result<Rows> done = connection.query(kEnqueue, enqueue_params(consumer, pointers));
  ASSERT_TRUE(done) << text_of(done);
  ASSERT_EQ(done->int8(0, 0), static_cast<std::int64_t>(lines.size()));
}

struct Received {
  EventId id{};
  std::int64_t epoch = 0;
  std::int32_t attempts = 0;
  std::string key{};
  std::string type{};
};

inline Result<std::vector<Received>> receive(Connection& connection, const std::string& consumer,
                                             int events_max = 1, const std::string& lease = "1 h",
                                             int attempts_max = 3) {
  const Result<Rows> rows = connection.query(
      "SELECT id, epoch, attempts, aggregate_id, type FROM dovetail.receive($1, $2, $3, $4)",
      Params().text(consumer).int4(events_max).unknown(lease).int4(attempts_max));
  if (!rows) return fail(rows.error());
  std::vector<Received> received;
  for (std::size_t row = 0; row < rows->size(); ++row)
    received.push_back(Received{rows->uuid(row, 0), rows->int8(row, 1), rows->int4(row, 2),
                                std::string(rows->text(row, 3)), std::string(rows->text(row, 4))});
  return received;
}

// The types of the received events: "a b c".
inline std::string types(const Result<std::vector<Received>>& received) {
  if (!received) return received.error().text;
  std::string text;
  for (const Received& one : *received) text += (text.empty() ? "" : " ") + one.type;
  return text;
}

// Calls complete, release or fail, without further arguments.
inline Status settle(Connection& connection, const std::string& function,
                     const std::string& consumer, const Received& one) {
  const Result<Rows> done = connection.query("SELECT dovetail." + function + "($1, $2, $3)",
                                             Params().text(consumer).uuid(one.id).int8(one.epoch));
  if (!done) return fail(done.error());
  return {};
}

}  // namespace dovetail::postgres
