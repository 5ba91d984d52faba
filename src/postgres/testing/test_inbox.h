// An inbox on a real server, with a table for the effects of handlers.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "host/host.h"
#include "postgres/inbox/inbox_store.h"
#include "postgres/schema/schema.h"
#include "postgres/testing/test_database.h"

namespace dovetail::postgres {

inline Status count_one(Invocation& invocation, const Event& event) {
  return invocation.queue("INSERT INTO effect (n, id) VALUES (1, $1)", {event.id});
}

class InboxTest : public testing::Test {
 protected:
  // One database for all tests, emptied for each: making one takes most of a second.
  static void SetUpTestSuite() {
    shared() = std::make_unique<TestDatabase>();
    Connection maker = shared()->connect();
    const Status made = create_schema(maker);
    ASSERT_TRUE(made) << text_of(made);
  }
  static void TearDownTestSuite() { shared().reset(); }
  InboxTest() : database(*shared()), connection(database.connect()) {
    must(connection,
         "TRUNCATE dovetail.inbox, dovetail.attempt, dovetail.consumer_session, dovetail.consumer, "
         "dovetail.outbox, dovetail.applied_version, dovetail.unapplied; "
         "UPDATE dovetail.inbox_state SET forgotten_before = '-infinity', exact_before = "
         "'-infinity'; "
         "DROP SCHEMA public CASCADE; CREATE SCHEMA public; GRANT ALL ON SCHEMA public TO public; "
         "CREATE TABLE effect (n int, id uuid)");
  }
  static std::unique_ptr<TestDatabase>& shared() {
    static std::unique_ptr<TestDatabase> database;
    return database;
  }

  InboxStoreOptions options(Handler handler, std::uint32_t lane = 0) {
    InboxStoreOptions options;
    options.conninfo = database.conninfo;
    options.consumer = "stock";
    options.lane = lane;
    options.handlers.push_back(cpp_handler("stock", {}, std::move(handler)));
    return options;
  }
  std::unique_ptr<PostgresInboxStore> store_with(Handler handler, bool clean = true,
                                                 std::uint32_t lane = 0) {
    return opened(options(std::move(handler), lane), clean);
  }
  static std::unique_ptr<PostgresInboxStore> opened(InboxStoreOptions options, bool clean = true) {
    auto store = std::make_unique<PostgresInboxStore>(std::move(options));
    const Result<bool> is_clean = store->open();
    EXPECT_TRUE(is_clean) << text_of(is_clean);
    EXPECT_EQ(is_clean.value_or(!clean), clean);
    return store;
  }
  const Event* event(std::string_view type = "placed", std::string_view key = "17") {
    Event& made = events.emplace_back();
    made.id = new_event_id();
    made.aggregate_type = "order";
    made.aggregate_id = key;
    made.key_hash = 17;
    made.type = type;
    made.content_type = "application/json";
    made.payload = "{}";
    made.created_at = system_clock().wall();
    return &made;
  }
  static std::vector<Arrival> insert(InboxStore& store, Events batch) {
    std::vector<Arrival> arrivals(batch.size());
    const Status begun = store.begin();
    EXPECT_TRUE(begun) << text_of(begun);
    const Status inserted = store.insert(batch, arrivals);
    EXPECT_TRUE(inserted) << text_of(inserted);
    return arrivals;
  }
  // Begins, inserts, and applies events that are first.
  static Status apply(InboxStore& store, const std::vector<const Event*>& batch) {
    const std::vector<Arrival> arrivals = insert(store, batch);
    std::vector<const Event*> firsts;
    for (std::size_t i = 0; i < batch.size(); ++i)
      if (arrivals[i] == Arrival::first) firsts.push_back(batch[i]);
    return store.apply(firsts);
  }
  std::int64_t effects() { return number(connection, "SELECT count(*) FROM effect"); }
  std::int64_t inbox() { return number(connection, "SELECT count(*) FROM dovetail.inbox"); }

  TestDatabase& database;
  Connection connection;
  std::deque<Event> events;
};

}  // namespace dovetail::postgres
