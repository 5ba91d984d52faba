// No statement behind a page or a call of the API reads a whole table.
#include <sqlite3.h>

#include <map>

#include "host/host.h"
#include "sqlite/operate/admin.h"
#include "sqlite/operate/life.h"
#include "sqlite/operate/search.h"
#include "sqlite/testing/test_file.h"

namespace dovetail::sqlite {
namespace {

constexpr int kRows = 30'000;
// Of SQLite's machine, which takes at least four for each row that it looks at.
constexpr int kStepsMax = 60'000;

// The most steps of each statement, of every connection that is opened meanwhile.
std::map<std::string, int> steps_of;

int note_steps(unsigned, void*, void* statement, void*) {
  auto* const done = static_cast<sqlite3_stmt*>(statement);
  int& most = steps_of[sqlite3_sql(done)];
  most = std::max(most, sqlite3_stmt_status(done, SQLITE_STMTSTATUS_VM_STEP, 1));
  return 0;
}

int watch_connection(sqlite3* connection, char**, const void*) {
  return sqlite3_trace_v2(connection, SQLITE_TRACE_PROFILE, note_steps, nullptr);
}

class SqlitePlans : public ::testing::Test {
 protected:
  SqlitePlans() {
    application.run("INSERT INTO dovetail_consumer (name) VALUES ('stock')");
    application.run(
        "INSERT INTO dovetail_relay (relay, source, passed_seq) VALUES ('one', "
        "'outbox', 29995), ('two', 'outbox', 30000)");
  }
  ~SqlitePlans() override { sqlite3_reset_auto_extension(); }

  // `insert` ends before its SELECT list, which may name i, from 1 to `count`.
  void fill(const std::string& insert, const std::string& values, int count = kRows) {
    ASSERT_EQ(application.run(insert +
                              " WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n "
                              "WHERE i < " +
                              std::to_string(count) + ") SELECT " + values + " FROM n"),
              SQLITE_OK);
  }
  void fill_outbox(int count = kRows) {
    fill(
        "INSERT INTO dovetail_outbox (id, aggregate_type, aggregate_id, type, payload, created_at)",
        "CAST('outbox' || (1000000000 + i) AS BLOB), 'order', CASE WHEN i % 10 = 0 THEN 'rare' "
        "ELSE 'k' || i END, 'Placed', '{}', i * 1000000",
        count);
  }
  void fill_inbox(int count = kRows) {
    fill("INSERT INTO dovetail_inbox (consumer_id, event_id, applied_at)",
         "1, CAST('outbox' || (1000000000 + i) AS BLOB), i", count);
  }
  // A long history, and at its end three events that are not finished.
  void fill_parked() {
    fill(
        "INSERT INTO dovetail_parked (relay, id, position, topic, aggregate_type, aggregate_id, "
        "type, content_type, headers, payload, aggregate_version, created_at, state, at_head, "
        "attempts, reason, parked_at, retry_at, finished_at)",
        "CASE WHEN i % 2 = 0 THEN 'one' ELSE 'two' END, CAST('parked' || (1000000000 + i) AS "
        "BLOB), i, '', 'order', 'k' || i, 'Placed', 'text/plain', '', '{}', 0, i, CASE WHEN i > " +
            std::to_string(kRows - 3) + " THEN 'parked' ELSE 'delivered' END, i > " +
            std::to_string(kRows - 3) + ", 5, 'refused', i, i, CASE WHEN i > " +
            std::to_string(kRows - 3) + " THEN 0 ELSE i END");
  }
  static EventId id_of(std::string_view text) {
    EventId id;
    EXPECT_EQ(text.size(), id.bytes.size());
    std::copy(text.begin(), text.end(), reinterpret_cast<char*>(id.bytes.data()));
    return id;
  }
  static void watch() {
    steps_of.clear();
    ASSERT_EQ(sqlite3_auto_extension(reinterpret_cast<void (*)()>(watch_connection)), SQLITE_OK);
  }
  // Counting all rows of a table is one step, which walks over all its pages.
  bool counts_a_table(const std::string& sql) {
    sqlite3_stmt* explain = nullptr;
    bool counts = false;
    EXPECT_EQ(sqlite3_prepare_v2(application.connection, ("EXPLAIN " + sql).c_str(), -1, &explain,
                                 nullptr),
              SQLITE_OK)
        << sql;
    while (sqlite3_step(explain) == SQLITE_ROW)
      counts =
          counts ||
          std::string(reinterpret_cast<const char*>(sqlite3_column_text(explain, 1))) == "Count";
    sqlite3_finalize(explain);
    return counts;
  }

  TestFile file;
  Application application{file.path};
  SystemClock& clock = system_clock();
};

TEST_F(SqlitePlans, NoStatementReadsAWholeTable) {
  fill_outbox();
  fill_inbox();
  fill_parked();
  fill("INSERT INTO dovetail_audit (at, who, what, relay, subject, events, reason)",
       "i, 'op', 'replay', 'one', i, 1, 'asked'");
  const EventId id = id_of("outbox1000000050");
  const EventId parked = id_of("parked1000000051");
  watch();
  EXPECT_FALSE(search_events(file.path, {.key = "rare", .look_max = 100})->rows.empty());
  EXPECT_FALSE(search_events(file.path, {.from = from_stored(500 * 1'000'000),
                                         .until = from_stored(600 * 1'000'000),
                                         .look_max = 100})
                   ->rows.empty());
  EXPECT_EQ(list_events(file.path, {.id = id.to_string()})->size(), 2U);
  EXPECT_EQ(list_events(file.path, {.state = EventState::pending})->size(), 5U);
  EXPECT_TRUE(list_events(file.path, {.state = EventState::parked}));
  EXPECT_EQ(list_events(file.path, {.state = EventState::delivered})->size(), 100U);
  EXPECT_EQ(list_parked(file.path, {.id = parked.to_string(), .with_finished = true})->size(), 1U);
  EXPECT_EQ(list_parked(file.path, {})->size(), 3U);
  EXPECT_EQ(list_parked(file.path, {.relay = "one", .heads_only = true})->size(), 2U);
  EXPECT_EQ(list_parked(file.path, {.with_finished = true})->size(), 100U);
  EXPECT_EQ(list_audit(file.path, {})->size(), 100U);
  EXPECT_EQ(list_audit(file.path, {.before = 200})->size(), 100U);
  EXPECT_TRUE(list_audit(file.path, {.subject = id.to_string()}));
  EXPECT_TRUE(*payload_of(file.path, id));
  EXPECT_TRUE(*payload_of(file.path, parked));
  EXPECT_EQ(list_handlers(file.path, id, clock)->size(), 1U);
  EXPECT_GE(steps_of.size(), 12U);
  for (const auto& [sql, steps] : steps_of) {
    EXPECT_LE(steps, kStepsMax) << sql;
    EXPECT_FALSE(counts_a_table(sql)) << sql;
  }
}

TEST_F(SqlitePlans, StatusEstimatesWhatIsTooLargeToCount) {
  fill_outbox(150'000);
  application.run("DELETE FROM dovetail_outbox WHERE seq <= 1000");
  fill_inbox(150'000);
  application.run("UPDATE dovetail_consumer SET applied = 150000, created_at = 1");
  watch();
  const Result<StoreStatus> large = status(file.path, clock);
  ASSERT_TRUE(large) << text_of(large);
  EXPECT_TRUE(large->are_rows_estimated);
  EXPECT_EQ(large->outbox_rows, 149'000U);
  EXPECT_EQ(large->inbox_rows, 150'000U);
  EXPECT_EQ(large->mailbox_rows, 0U);
  life::RelayFacts facts;
  facts.name = "one";
  EXPECT_TRUE(fill_relay(file.path, {}, facts, clock));
  EXPECT_TRUE(facts.is_known);
  EXPECT_GE(steps_of.size(), 8U);
  for (const auto& [sql, steps] : steps_of) EXPECT_FALSE(counts_a_table(sql)) << sql;
}

// A consumer applied evenly for two hours, and what is older than one hour was pruned.
TEST_F(SqlitePlans, TheEstimateOfAnInboxKnowsThatOldRowsWerePruned) {
  const std::int64_t hour = 3'600'000'000;
  const std::int64_t now = to_stored(clock.wall());
  fill("INSERT INTO dovetail_inbox (consumer_id, event_id, applied_at)",
       "1, CAST('outbox' || (1000000000 + i) AS BLOB), " + std::to_string(now - hour) + " + i",
       101'000);
  application.run("UPDATE dovetail_consumer SET applied = 400000, created_at = " +
                  std::to_string(now - 2 * hour));
  const Result<StoreStatus> seen = status(file.path, clock);
  ASSERT_TRUE(seen) << text_of(seen);
  EXPECT_TRUE(seen->are_rows_estimated);
  EXPECT_NEAR(static_cast<double>(seen->inbox_rows), 200'000, 20'000);
}

TEST_F(SqlitePlans, StatusCountsWhatIsSmall) {
  fill_outbox(7);
  const Result<StoreStatus> small = status(file.path, clock);
  ASSERT_TRUE(small) << text_of(small);
  EXPECT_FALSE(small->are_rows_estimated);
  EXPECT_EQ(small->outbox_rows, 7U);
}

}  // namespace
}  // namespace dovetail::sqlite
