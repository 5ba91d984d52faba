// No statement behind a page or a call of the API reads a whole table.
#include "host/host.h"
#include "postgres/mapped/table.h"
#include "postgres/operate/admin.h"
#include "postgres/operate/life.h"
#include "postgres/operate/search.h"
#include "postgres/schema/schema.h"
#include "postgres/testing/test_database.h"

namespace dovetail::postgres {
namespace {

constexpr std::int64_t kRows = 20'000;
constexpr std::int64_t kReadMax = kRows / 2;

WallTime second(int number) { return WallTime(std::chrono::seconds(number)); }

class PostgresPlans : public ::testing::Test {
 protected:
  PostgresPlans() {
    const std::string rows = " FROM generate_series(1, " + std::to_string(kRows) + ") AS i";
    // What comes later is pending; what comes now is behind the relay.
    must(application,
         "INSERT INTO dovetail.outbox (seq, aggregate_type, aggregate_id, type, payload, "
         "created_at) SELECT i, 'order', CASE WHEN i % 10 = 0 THEN 'rare' ELSE 'k' || i END, "
         "'Placed', '{}', 'epoch'::timestamptz + i * interval '1 s'" +
             rows);
    must(application,
         "INSERT INTO dovetail.relay_lane (relay, lane, lanes, window_start) SELECT name, 0, 1, "
         "pg_current_snapshot() FROM unnest(ARRAY['one', 'two']) AS name");
    must(application,
         "INSERT INTO dovetail.outbox (seq, aggregate_type, aggregate_id, type, payload) SELECT " +
             std::to_string(kRows) +
             " + i, 'order', 'k', 'Placed', '{}' FROM generate_series(1, 7) "
             "AS i");
    must(application, "INSERT INTO dovetail.consumer (name) VALUES ('stock')");
    must(application,
         "INSERT INTO dovetail.inbox (event_id, consumer_id) SELECT o.id, c.id FROM "
         "dovetail.outbox AS o, dovetail.consumer AS c");
    fill_parked(rows);
    must(application,
         "INSERT INTO dovetail.delayed (id, topic, aggregate_type, aggregate_id, type, "
         "content_type, headers, payload, aggregate_version, created_at, deliver_at) SELECT "
         "gen_random_uuid(), '', 'order', 'k' || i, 'Placed', 'text/plain', '', '{}', 0, now(), "
         "now() + i * interval '1 h'" +
             rows);
    must(application, "INSERT INTO dovetail.audit (what, subject) SELECT 'replay', i::text" + rows);
    must(application,
         "CREATE TABLE outbox_events (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), event_type "
         "text, payload jsonb, sent_at timestamptz); INSERT INTO outbox_events (event_type, "
         "payload, sent_at) SELECT 'Placed', '{}', CASE WHEN i <= 20 THEN NULL ELSE now() END" +
             rows + "; CREATE INDEX ON outbox_events (id) WHERE sent_at IS NULL");
    for (const char* table : {"dovetail.outbox", "dovetail.inbox", "dovetail.parked",
                              "dovetail.delayed", "dovetail.audit", "outbox_events"})
      must(application, std::string("VACUUM ANALYZE ") + table);
    // A session reports what it read up to a second later. What it read here would be taken for
    // what a call reads.
    must(application, "SELECT pg_stat_force_next_flush()");
  }
  // A long history, and at its end three events that are not finished.
  void fill_parked(const std::string& rows) {
    const std::string is_left = "i > " + std::to_string(kRows - 3);
    must(application,
         "INSERT INTO dovetail.parked (relay, id, position, topic, aggregate_type, aggregate_id, "
         "type, content_type, headers, payload, aggregate_version, created_at, state, at_head, "
         "attempts, reason, retry_at, finished_at) SELECT CASE WHEN i % 2 = 0 THEN 'one' ELSE "
         "'two' END, dovetail.uuid7(), i, '', 'order', 'k' || i, 'Placed', 'text/plain', '', '{}', "
         "0, now(), CASE WHEN " +
             is_left + " THEN 'parked' ELSE 'delivered' END, " + is_left +
             ", 5, 'refused', now(), CASE WHEN " + is_left + " THEN NULL ELSE now() END" + rows);
  }
  // Rows and entries of indexes that were read of the large tables, by those who have gone.
  std::int64_t read() {
    EXPECT_TRUE(eventually([&] {
      return number(application,
                    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND "
                    "backend_type = 'client backend' AND pid <> pg_backend_pid()") == 0;
    })) << "a session does not end";
    return number(application,
                  "SELECT (SELECT coalesce(sum(seq_tup_read), 0) FROM pg_stat_user_tables WHERE "
                  "relname ~ '^(outbox_default|outbox_2|outbox_events|inbox_default|inbox_2|parked|"
                  "delayed|audit)') + (SELECT coalesce(sum(idx_tup_read), 0) FROM "
                  "pg_stat_user_indexes)");
  }
  template <typename Call>
  void expect_few_rows(const std::string& what, Call call) {
    const std::int64_t before = read();
    call();
    EXPECT_LE(read() - before, kReadMax) << what;
  }
  EventRow event_at(std::int64_t position) {
    const auto found = search_events(url, {.before = position + 1, .limit = 1});
    EXPECT_TRUE(found) << text_of(found);
    return found->rows.at(0);
  }
  EventId first_id(const std::string& table) {
    return *EventId::parse(text(application, "SELECT id::text FROM " + table + " LIMIT 1"));
  }

  TestDatabase database;
  Connection application = database.connect();
  const std::string url = database.conninfo;
  const MappedRelays mapped = {{"m", *mapping_preset("sent_at", "outbox_events")}};
};

TEST_F(PostgresPlans, TheCountersOfTheServerCount) {
  const std::int64_t before = read();
  {
    Connection other = database.connect();
    must(other, "SELECT count(payload) FROM dovetail.outbox");
  }
  EXPECT_GE(read() - before, kRows);
}

TEST_F(PostgresPlans, SearchAndListsReadWhatTheyShow) {
  expect_few_rows("search by key", [&] {
    EXPECT_FALSE(search_events(url, {.key = "rare", .look_max = 100})->rows.empty());
  });
  expect_few_rows("search by time", [&] {
    EXPECT_FALSE(search_events(url, {.from = second(500), .until = second(600), .look_max = 100})
                     ->rows.empty());
  });
  expect_few_rows("pending events", [&] {
    EXPECT_EQ(list_events(url, {.state = EventState::pending})->size(), 14U);
  });
  expect_few_rows("parked events",
                  [&] { EXPECT_TRUE(list_events(url, {.state = EventState::parked})); });
  expect_few_rows("delivered events", [&] {
    EXPECT_GE(list_events(url, {.state = EventState::delivered})->size(), 100U);
  });
  expect_few_rows("parked list", [&] { EXPECT_EQ(list_parked(url, {})->size(), 3U); });
  expect_few_rows("parked heads of a relay", [&] {
    EXPECT_EQ(list_parked(url, {.relay = "one", .heads_only = true})->size(), 2U);
  });
  expect_few_rows("parked history",
                  [&] { EXPECT_EQ(list_parked(url, {.with_finished = true})->size(), 100U); });
  expect_few_rows("delayed events", [&] {
    EXPECT_EQ(list_events(url, {.state = EventState::delayed})->size(), 100U);
  });
  expect_few_rows("a later page of delayed events", [&] {
    EXPECT_EQ(list_events(url, {.state = EventState::delayed, .after = kRows - 7})->size(), 7U);
  });
  expect_few_rows("audit", [&] { EXPECT_EQ(list_audit(url, {})->size(), 100U); });
  expect_few_rows("audit of an event",
                  [&] { EXPECT_EQ(list_audit(url, {.subject = "7"})->size(), 1U); });
  expect_few_rows("older audit",
                  [&] { EXPECT_EQ(list_audit(url, {.before = 200})->size(), 100U); });
}

TEST_F(PostgresPlans, OneEventIsFoundByItsId) {
  const EventRow row = event_at(100);
  const EventId parked = first_id("dovetail.parked");
  const EventId delayed = first_id("dovetail.delayed");
  expect_few_rows("event",
                  [&] { EXPECT_EQ(list_events(url, {.id = row.id.to_string()})->size(), 2U); });
  expect_few_rows("delayed event",
                  [&] { EXPECT_EQ(list_events(url, {.id = delayed.to_string()})->size(), 1U); });
  expect_few_rows("parked event", [&] {
    EXPECT_EQ(list_parked(url, {.id = parked.to_string(), .with_finished = true})->size(), 1U);
  });
  for (const EventId& id : {row.id, parked, delayed})
    expect_few_rows("payload", [&] { EXPECT_TRUE(*payload_of(url, id)); });
  expect_few_rows("handlers", [&] { EXPECT_EQ(list_handlers(url, row.id)->size(), 1U); });
  life::RelayFacts facts;
  facts.name = "one";
  expect_few_rows("relay of an event", [&] { EXPECT_TRUE(fill_relay(url, row, facts)); });
  EXPECT_TRUE(facts.is_known);
  const EventId mapped_id = first_id("outbox_events");
  expect_few_rows("mapped event", [&] {
    EXPECT_EQ(list_mapped_events(url, "m", mapped.at("m"), {.id = mapped_id.to_string()})->size(),
              1U);
  });
  expect_few_rows("mapped payload",
                  [&] { EXPECT_TRUE(*mapped_payload_of(url, mapped.at("m"), mapped_id)); });
}

TEST_F(PostgresPlans, StatusReadsWhatIsPending) {
  const Result<StoreStatus> seen = status(url, mapped);
  ASSERT_TRUE(seen) << text_of(seen);
  EXPECT_EQ(seen->lanes.at(0).pending, 7U);
  EXPECT_EQ(seen->lanes.at(0).parked + seen->lanes.at(1).parked, 3U);
  EXPECT_EQ(seen->lanes.at(2).pending, 20U);
  EXPECT_EQ(seen->delayed->events, static_cast<std::uint64_t>(kRows));
  // Of delayed events up to 100,000 are counted, in the order in which they are due.
  must(application, "DELETE FROM dovetail.delayed WHERE deliver_at > now() + interval '10 h'");
  must(application, "VACUUM ANALYZE dovetail.delayed");
  // Without the mapped table: its owner made its indexes, and `dovetail doctor` misses them.
  expect_few_rows("status", [&] { EXPECT_TRUE(status(url, {})); });
}

// Over several pages, with a window that is read in part, and with a transaction that was open.
TEST_F(PostgresPlans, TheViewOfTheLagCountsWhatTheViewOfTheEventsCallsPending) {
  Connection late = database.connect();
  const auto insert = [](Connection& by, int rows) {
    must(
        by,
        "INSERT INTO dovetail.outbox (aggregate_type, aggregate_id, type, payload) SELECT 'order', "
        "'k' || i, 'Placed', '{}' FROM generate_series(1, " +
            std::to_string(rows) + ") AS i");
  };
  must(late, "BEGIN");
  insert(late, 130);
  insert(application, 1);
  must(application,
       "DELETE FROM dovetail.relay_lane; INSERT INTO dovetail.relay_lane (relay, lane, lanes, "
       "window_start) SELECT 'one', n, 3, pg_current_snapshot() FROM generate_series(0, 2) AS n");
  must(late, "COMMIT");
  insert(application, 1250);
  must(application,
       "UPDATE dovetail.relay_lane SET window_end = pg_current_snapshot(), window_seq = (SELECT "
       "last_value - 700 FROM dovetail.outbox_seq) WHERE lane = 1");
  insert(application, 40);
  constexpr std::string_view kByLane =
      "SELECT string_agg(lane || ' ' || pending, ', ' ORDER BY lane) FROM ";
  const std::string counted = text(application, std::string(kByLane) + "dovetail.lag");
  EXPECT_EQ(counted,
            text(application,
                 std::string(kByLane) +
                     "(SELECT dovetail.bucket(aggregate_type, aggregate_id, id) * 3 / 256 AS lane, "
                     "count(*) AS pending FROM dovetail.events WHERE state = 'pending' GROUP BY 1) "
                     "AS each"));
  EXPECT_EQ(number(application, "SELECT count(*) FROM dovetail.events WHERE state = 'pending'"),
            number(application, "SELECT sum(pending) FROM dovetail.lag"));
  EXPECT_GT(number(application, "SELECT min(pending) FROM dovetail.lag"), 200);
}

// Also for a login whose session has the settings that every session has.
TEST_F(PostgresPlans, TheViewOfTheLagReadsWhatIsPending) {
  must(application,
       "UPDATE dovetail.relay_lane SET lanes = 2 WHERE relay = 'two'; INSERT INTO "
       "dovetail.relay_lane (relay, lane, lanes, window_start) SELECT relay, 1, 2, window_start "
       "FROM dovetail.relay_lane WHERE relay = 'two'");
  expect_few_rows("view of the lag", [&] {
    Connection other = database.connect();
    EXPECT_EQ(text(other,
                   "SELECT string_agg(relay || ' ' || pending || ' ' || (oldest_at > now() - "
                   "interval '1 h')::text, ', ' ORDER BY relay, pending) FROM (SELECT relay, "
                   "sum(pending)::int AS pending, min(oldest_at) AS oldest_at FROM dovetail.lag "
                   "GROUP BY relay) AS each"),
              "one 7 true, two 7 true");
  });
}

}  // namespace
}  // namespace dovetail::postgres
