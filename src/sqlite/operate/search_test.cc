#include "sqlite/operate/search.h"

#include <sqlite3.h>

#include <map>

#include "host/host.h"
#include "sqlite/operate/admin.h"
#include "sqlite/testing/test_file.h"

namespace dovetail::sqlite {
namespace {

using namespace std::chrono_literals;

constexpr std::int64_t kSecond = 1'000'000;

std::string hex(const EventId& id) {
  std::string text = id.to_string();
  std::erase(text, '-');
  return text;
}

class SqliteSearch : public ::testing::Test {
 protected:
  // Events 1 to `count`, one each second from 1970 on; every tenth is of the key "rare".
  void fill(int count) {
    application.run(
        "INSERT INTO dovetail_outbox (aggregate_type, aggregate_id, type, payload, created_at) "
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < " +
        std::to_string(count) +
        ") SELECT 'order', CASE WHEN i % 10 = 0 THEN 'rare' ELSE 'k' || i END, 'Placed', '{}', i * "
        "1000000 FROM n");
    application.run(
        "INSERT INTO dovetail_relay (relay, source, passed_seq) VALUES ('one', 'outbox', " +
        std::to_string(count - 5) + "), ('two', 'outbox', 0)");
  }
  FoundEvents search(const EventSearch& wanted) {
    Result<FoundEvents> found = search_events(file.path, wanted);
    EXPECT_TRUE(found) << text_of(found);
    return found ? *found : FoundEvents();
  }
  static std::vector<std::int64_t> positions(const FoundEvents& found) {
    std::vector<std::int64_t> all;
    for (const EventRow& row : found.rows)
      if (all.empty() || all.back() != row.position) all.push_back(row.position);
    return all;
  }

  TestFile file;
  Application application{file.path};
};

TEST_F(SqliteSearch, GivesTheNewestFirstWithEveryRelayOfAnEvent) {
  fill(30);
  const FoundEvents found = search({.limit = 4});
  ASSERT_EQ(found.rows.size(), 4U);
  EXPECT_EQ(positions(found), (std::vector<std::int64_t>{30, 29}));
  EXPECT_EQ(found.rows[0].relay, "one");
  EXPECT_EQ(found.rows[0].state, EventState::pending);
  EXPECT_EQ(found.next, 29);
  EXPECT_EQ(positions(search({.before = found.next, .limit = 4})),
            (std::vector<std::int64_t>{28, 27}));
  EXPECT_EQ(search({.state = EventState::delivered, .relay = "one", .limit = 100}).rows.size(),
            25U);
}

TEST_F(SqliteSearch, FindsAWordAsKeyTypeOrTopic) {
  fill(30);
  EXPECT_EQ(positions(search({.relay = "one", .word = "k29", .limit = 100})),
            (std::vector<std::int64_t>{29}));
  EXPECT_EQ(positions(search({.relay = "one", .word = "order/rare", .limit = 100})),
            (std::vector<std::int64_t>{30, 20, 10}));
  EXPECT_EQ(positions(search({.relay = "one", .word = "Placed", .limit = 100})).size(), 30U);
  EXPECT_TRUE(positions(search({.relay = "one", .word = "Pl", .limit = 100})).empty());
}

TEST_F(SqliteSearch, LooksAtSoManyEventsAndSaysWhereToGoOn) {
  fill(95);
  EventSearch wanted{.key = "rare", .limit = 100, .look_max = 10};
  std::vector<std::int64_t> all;
  int calls = 0;
  while (true) {
    const FoundEvents found = search(wanted);
    ++calls;
    for (const std::int64_t one : positions(found)) all.push_back(one);
    if (found.next == 0) break;
    EXPECT_EQ(found.looked_back_to, from_stored(found.next * kSecond));
    wanted.before = found.next;
  }
  EXPECT_EQ(all, (std::vector<std::int64_t>{90, 80, 70, 60, 50, 40, 30, 20, 10}));
  EXPECT_EQ(calls, 10);
}

TEST_F(SqliteSearch, FindsATimeFromBothSides) {
  fill(1000);
  for (const std::size_t look_max : {10U, 1000U}) {
    const FoundEvents found = search({.relay = "one",
                                      .from = from_stored(500 * kSecond),
                                      .until = from_stored(503 * kSecond),
                                      .look_max = look_max});
    EXPECT_EQ(positions(found), (std::vector<std::int64_t>{502, 501, 500}));
    EXPECT_EQ(found.next, 0);
  }
  EXPECT_TRUE(search({.until = from_stored(1 * kSecond)}).rows.empty());
  EXPECT_TRUE(search({.from = from_stored(2000 * kSecond)}).rows.empty());
}

TEST_F(SqliteSearch, AnEmptyOutboxHasNothingAndEnds) {
  EXPECT_TRUE(search({.until = from_stored(kSecond)}).rows.empty());
  EXPECT_EQ(search({}).next, 0);
}

TEST_F(SqliteSearch, TellsWhatAnInboxKnows) {
  const EventId applied = new_event_id();
  const EventId failed = new_event_id();
  application.run("INSERT INTO dovetail_consumer (name) VALUES ('stock'), ('mail')");
  application.run("INSERT INTO dovetail_inbox (consumer_id, event_id, applied_at) VALUES (1, x'" +
                  hex(applied) + "', 7000000)");
  application.run(
      "INSERT INTO dovetail_attempt (consumer_id, event_id, attempts, updated_at) VALUES (2, x'" +
      hex(failed) + "', 3, 1)");
  const auto known = inbox_of(file.path, applied, system_clock());
  ASSERT_TRUE(known) << text_of(known);
  ASSERT_EQ(known->size(), 1U);
  EXPECT_EQ(known->front().consumer, "stock");
  EXPECT_EQ(known->front().applied_at, from_stored(7 * kSecond));
  const auto tried = inbox_of(file.path, failed, system_clock());
  ASSERT_TRUE(tried) << text_of(tried);
  ASSERT_EQ(tried->size(), 1U);
  EXPECT_EQ(tried->front().consumer, "mail");
  EXPECT_EQ(tried->front().attempts, 3U);
  EXPECT_FALSE(tried->front().applied_at);
  EXPECT_TRUE(inbox_of(file.path, new_event_id(), system_clock())->empty());
}

// Steps of full scans, by statement, of every connection that is opened meanwhile.
std::map<std::string, int> scanned;

int note_scan(unsigned, void*, void* statement, void*) {
  auto* const done = static_cast<sqlite3_stmt*>(statement);
  scanned[sqlite3_sql(done)] += sqlite3_stmt_status(done, SQLITE_STMTSTATUS_FULLSCAN_STEP, 0);
  return 0;
}

int watch_connection(sqlite3* connection, char**, const void*) {
  return sqlite3_trace_v2(connection, SQLITE_TRACE_PROFILE, note_scan, nullptr);
}

TEST_F(SqliteSearch, NoQueryScansTheOutbox) {
  fill(5000);
  const EventId id = search({.before = 100, .limit = 1}).rows.at(0).id;
  application.run(
      "INSERT INTO dovetail_audit (at, who, what, subject, reason) SELECT 1, 'x', 'y', seq, '' "
      "FROM dovetail_outbox");
  scanned.clear();
  ASSERT_EQ(sqlite3_auto_extension(reinterpret_cast<void (*)()>(watch_connection)), SQLITE_OK);
  (void)search({.key = "rare", .look_max = 100});
  (void)search(
      {.from = from_stored(500 * kSecond), .until = from_stored(600 * kSecond), .look_max = 100});
  EXPECT_TRUE(list_events(file.path, {.id = id.to_string()}));
  EXPECT_TRUE(list_parked(file.path, {.id = id.to_string(), .with_finished = true}));
  EXPECT_TRUE(payload_of(file.path, id));
  EXPECT_TRUE(list_audit(file.path, {.subject = id.to_string()}));
  EXPECT_TRUE(inbox_of(file.path, id, system_clock()));
  sqlite3_reset_auto_extension();
  EXPECT_GE(scanned.size(), 6U);
  // Each call reads the catalogue, which has some fifty rows.
  for (const auto& [sql, steps] : scanned) EXPECT_LE(steps, 500) << sql;
}

}  // namespace
}  // namespace dovetail::sqlite
