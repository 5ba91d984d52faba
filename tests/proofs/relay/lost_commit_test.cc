// The answer to COMMIT is lost: the application cannot know whether it committed, and repeats it
// with the same event id. At the end there is one event for each order. More:
//   DOVETAIL_LOST_COMMITS=1000 proof_relay_lost_commit_test
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <cstdlib>

#include "dovetail/postgres.h"
#include "host/host.h"
#include "postgres/schema/schema.h"
#include "postgres/testing/test_database.h"

namespace dovetail::postgres {
namespace {

using namespace std::chrono_literals;

// A fault of fault_proxy.py, and whether the transaction has committed anyway.
struct LostCommit {
  const char* fault;
  bool committed;
};
constexpr std::array kFaults = {LostCommit{"commit-lost", false}, LostCommit{"reply-lost", true},
                                LostCommit{"reply-silent", true}};

std::int64_t orders_wanted() {
  const char* given = std::getenv("DOVETAIL_LOST_COMMITS");
  return given == nullptr ? 100 : std::atoll(given);
}

// What an application does: its own row and its event in one transaction. If the row exists, an
// earlier try has committed.
Status place_order(const std::string& conninfo, std::int64_t number, const EventId& id,
                   std::chrono::milliseconds commit_limit) {
  Result<Connection> connection = Connection::open(conninfo);
  if (!connection) return fail(connection.error());
  Result<Transaction> transaction = Transaction::begin(*connection);
  if (!transaction) return fail(transaction.error());
  const Result<Rows> row = connection->query(
      "INSERT INTO orders (number, event) VALUES ($1, $2) ON CONFLICT (number) DO NOTHING",
      Params().int8(number).uuid(id));
  if (!row) return fail(row.error());
  NewEvent event;
  event.id = id;
  event.aggregate_type = "order";
  event.aggregate_id = "a key";
  event.type = "placed";
  event.payload = "{}";
  event.aggregate_version = number;
  const Result<EventId> published = publish(connection->get(), event);
  if (!published) return fail(published.error());
  connection->set_timeout(commit_limit);
  return transaction->commit();
}

class PostgresLostCommit : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(proxy_.missing, "");
    ASSERT_TRUE(create_schema(direct_));
    must(direct_, "CREATE TABLE orders (number bigint PRIMARY KEY, event uuid NOT NULL)");
  }
  std::string through_proxy(const char* fault) const {
    return servers::with_database(proxy_.conninfo, database_.name) + " application_name=" + fault;
  }
  std::int64_t rows_of(std::int64_t order) {
    return number(direct_, "SELECT count(*) FROM orders WHERE number = " + std::to_string(order));
  }

  const servers::Server proxy_ = servers::find("proxy");
  TestDatabase database_;
  Connection direct_ = database_.connect();
};

TEST_F(PostgresLostCommit, OrdersAndEventsMatchOneToOneWhenTheApplicationTriesAgain) {
  const std::int64_t wanted = orders_wanted();
  Random random(7);
  std::array<int, kFaults.size()> doubts{};
  for (std::int64_t order = 1; order <= wanted; ++order) {
    const EventId id = new_event_id();
    while (true) {
      // Silence is noticed only after a time limit, so it is the rarest fault.
      const std::size_t fault = random.chance(0.03) ? 2 : random.below(2);
      const bool is_lost = random.chance(0.68);
      const bool was_there = rows_of(order) == 1;
      const bool is_silent = is_lost && fault == 2;
      const Status placed = place_order(through_proxy(is_lost ? kFaults[fault].fault : "none"),
                                        order, id, is_silent ? 200ms : 60s);
      if (placed) {
        ASSERT_FALSE(is_lost);
        break;
      }
      ASSERT_TRUE(is_lost) << placed.error().text;
      ASSERT_EQ(placed.error().code, Errc::in_doubt) << placed.error().text;
      // A server that stalled may commit after its client gave up.
      if (is_silent) {
        ASSERT_TRUE(eventually([&] { return rows_of(order) == 1; }));
      }
      ASSERT_EQ(rows_of(order) == 1, was_there || kFaults[fault].committed) << kFaults[fault].fault;
      ++doubts[fault];
    }
  }
  EXPECT_EQ(number(direct_, "SELECT count(*) FROM orders"), wanted);
  EXPECT_EQ(number(direct_, "SELECT count(*) FROM dovetail.outbox"), wanted);
  EXPECT_EQ(number(direct_,
                   "SELECT count(*) FROM orders AS o JOIN dovetail.outbox AS e ON e.id = o.event "
                   "AND e.aggregate_version = o.number"),
            wanted);
  for (const int count : doubts) EXPECT_GT(count, 0) << "the test is blind there";
  std::printf("%lld orders, %d commits in doubt (%d not committed, %d committed, %d silent)\n",
              static_cast<long long>(wanted), doubts[0] + doubts[1] + doubts[2], doubts[0],
              doubts[1], doubts[2]);
}

}  // namespace
}  // namespace dovetail::postgres
