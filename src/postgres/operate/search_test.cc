#include "postgres/operate/search.h"

#include "host/host.h"
#include "postgres/operate/admin.h"
#include "postgres/operate/life.h"
#include "postgres/schema/schema.h"
#include "postgres/testing/test_database.h"

namespace dovetail::postgres {
namespace {

using namespace std::chrono_literals;

WallTime second(int number) { return WallTime(std::chrono::seconds(number)); }

class PostgresSearch : public ::testing::Test {
 protected:
  PostgresSearch() {
    const Status made = create_schema(application);
    EXPECT_TRUE(made) << text_of(made);
  }
  // Events 1 to `count`, one each second from 1970 on; every tenth is of the key "rare".
  void fill(int count) {
    must(application,
         "INSERT INTO dovetail.outbox (seq, aggregate_type, aggregate_id, type, payload, "
         "created_at) SELECT i, 'order', CASE WHEN i % 10 = 0 THEN 'rare' ELSE 'k' || i END, "
         "'Placed', '{}', 'epoch'::timestamptz + i * interval '1 s' FROM generate_series(1, " +
             std::to_string(count) + ") AS i");
    must(application, "ANALYZE dovetail.outbox");
    must(application, "INSERT INTO dovetail.relay_lane (relay, lane, lanes) VALUES ('one', 0, 1)");
  }
  FoundEvents search(const EventSearch& wanted) {
    Result<FoundEvents> found = search_events(url, wanted);
    EXPECT_TRUE(found) << text_of(found);
    return found ? *found : FoundEvents();
  }
  static std::vector<std::int64_t> positions(const FoundEvents& found) {
    std::vector<std::int64_t> all;
    for (const EventRow& row : found.rows) all.push_back(row.position);
    return all;
  }

  TestDatabase database;
  Connection application = database.connect();
  const std::string url = database.conninfo;
};

TEST_F(PostgresSearch, GivesTheNewestFirst) {
  fill(30);
  const FoundEvents found = search({.limit = 2});
  EXPECT_EQ(positions(found), (std::vector<std::int64_t>{30, 29}));
  EXPECT_EQ(found.rows.at(0).relay, "one");
  EXPECT_EQ(found.rows.at(0).state, EventState::pending);
  EXPECT_EQ(found.next, 29);
  EXPECT_EQ(positions(search({.before = found.next, .limit = 2})),
            (std::vector<std::int64_t>{28, 27}));
  EXPECT_TRUE(search({.state = EventState::delivered}).rows.empty());
}

TEST_F(PostgresSearch, FindsAWordAsKeyTypeOrTopic) {
  fill(30);
  EXPECT_EQ(positions(search({.word = "k29", .limit = 100})), (std::vector<std::int64_t>{29}));
  EXPECT_EQ(positions(search({.word = "order/rare", .limit = 100})),
            (std::vector<std::int64_t>{30, 20, 10}));
  EXPECT_EQ(positions(search({.word = "Placed", .limit = 100})).size(), 30U);
  EXPECT_TRUE(positions(search({.word = "Pl", .limit = 100})).empty());
}

TEST_F(PostgresSearch, LooksAtSoManyEventsAndSaysWhereToGoOn) {
  fill(95);
  EventSearch wanted{.key = "rare", .limit = 100, .look_max = 10};
  std::vector<std::int64_t> all;
  int calls = 0;
  while (true) {
    const FoundEvents found = search(wanted);
    ++calls;
    for (const std::int64_t one : positions(found)) all.push_back(one);
    if (found.next == 0) break;
    EXPECT_EQ(found.looked_back_to, second(static_cast<int>(found.next)));
    wanted.before = found.next;
  }
  EXPECT_EQ(all, (std::vector<std::int64_t>{90, 80, 70, 60, 50, 40, 30, 20, 10}));
  EXPECT_EQ(calls, 10);
}

TEST_F(PostgresSearch, FindsATimeFromBothSides) {
  fill(1000);
  for (const std::size_t look_max : {10U, 1000U}) {
    const FoundEvents found =
        search({.from = second(500), .until = second(503), .look_max = look_max});
    EXPECT_EQ(positions(found), (std::vector<std::int64_t>{502, 501, 500}));
    EXPECT_EQ(found.next, 0);
  }
  EXPECT_TRUE(search({.until = second(1)}).rows.empty());
  EXPECT_TRUE(search({.from = second(2000)}).rows.empty());
}

TEST_F(PostgresSearch, AnEmptyOutboxHasNothingAndEnds) {
  EXPECT_TRUE(search({.until = second(1)}).rows.empty());
  EXPECT_EQ(search({}).next, 0);
}

TEST_F(PostgresSearch, TellsWhatAnInboxKnows) {
  const EventId applied = new_event_id();
  const EventId failed = new_event_id();
  must(application, "INSERT INTO dovetail.consumer (name) VALUES ('mail'), ('stock')");
  must(application, "INSERT INTO dovetail.inbox (event_id, consumer_id, applied_at) SELECT '" +
                        applied.to_string() +
                        "', id, 'epoch'::timestamptz + interval '7 s' FROM dovetail.consumer WHERE "
                        "name = 'stock'");
  must(application, "INSERT INTO dovetail.attempt (event_id, consumer_id, attempts) SELECT '" +
                        failed.to_string() + "', id, 3 FROM dovetail.consumer WHERE name = 'mail'");
  const auto known = list_handlers(url, applied);
  ASSERT_TRUE(known) << text_of(known);
  ASSERT_EQ(known->size(), 1U);
  EXPECT_EQ(known->front().name, "stock");
  EXPECT_EQ(known->front().applied_at, second(7));
  const auto tried = list_handlers(url, failed);
  ASSERT_TRUE(tried) << text_of(tried);
  ASSERT_EQ(tried->size(), 1U);
  EXPECT_EQ(tried->front().attempts, 3U);
  EXPECT_FALSE(tried->front().applied_at);
  EXPECT_TRUE(list_handlers(url, new_event_id())->empty());
}

TEST_F(PostgresSearch, TheAuditPagesAndTakesWhatIsRecorded) {
  fill(3);
  std::vector<EventId> ids;
  for (const EventRow& row : search({.limit = 3}).rows) {
    ids.push_back(row.id);
    const Status noted = note_reveal(url, row.id, "asked");
    ASSERT_TRUE(noted) << text_of(noted);
  }
  ASSERT_EQ(ids.size(), 3U);
  const auto newest = list_audit(url, {.limit = 2});
  ASSERT_TRUE(newest) << text_of(newest);
  ASSERT_EQ(newest->size(), 2U);
  EXPECT_EQ(newest->front().subject, ids[2].to_string());
  const auto rest = list_audit(url, {.before = newest->back().number, .limit = 2});
  ASSERT_EQ(rest->size(), 1U);
  EXPECT_EQ(rest->front().subject, ids[0].to_string());
  EXPECT_EQ(rest->front().reason, "asked");
  EXPECT_TRUE(failed_with(note_reveal(url, new_event_id(), "forged"), Errc::rejected));
}

TEST_F(PostgresSearch, TheAuditIsFilteredByWhatAndByWho) {
  must(application,
       "INSERT INTO dovetail.audit (who, what, reason) VALUES ('daemon', 'reveal', 'olga by the "
       "console: asked'), ('daemon', 'replay', 'olga2 by the console: asked'), ('olga', 'replay', "
       "'by hand'), ('vera', 'replay', 'ask olga by the console: no')");
  const auto found = [&](const AuditFilter& filter) {
    std::string list;
    const auto rows = list_audit(url, filter);
    EXPECT_TRUE(rows) << text_of(rows);
    for (const AuditRow& row : *rows) list += row.who + " " + row.what + " ";
    return list;
  };
  EXPECT_EQ(found({.who = "olga"}), "olga replay daemon reveal ");
  EXPECT_EQ(found({.what = "replay"}), "vera replay olga replay daemon replay ");
  EXPECT_EQ(found({.what = "replay", .who = "olga"}), "olga replay ");
}

TEST_F(PostgresSearch, TheLastRefusalsAreKept) {
  must(application,
       "INSERT INTO dovetail.audit (what, subject) SELECT CASE WHEN n % 6 = 0 THEN 'replay' ELSE "
       "'refused' END, n::text FROM generate_series(1, 1200) AS n");
  const Status noted = note_refusal(url, "POST /x", 7, "vera by the console: refused");
  ASSERT_TRUE(noted) << text_of(noted);
  EXPECT_EQ(text(application,
                 "SELECT string_agg(what || ' ' || rows, ', ' ORDER BY what) FROM "
                 "(SELECT what, count(*) AS rows FROM dovetail.audit GROUP BY what) "
                 "AS each"),
            "refused 1000, replay 200");
  const auto last = list_audit(url, {.what = "refused", .who = "vera"});
  ASSERT_TRUE(last) << text_of(last);
  ASSERT_EQ(last->size(), 1U);
  EXPECT_EQ(last->front().subject, "POST /x");
  EXPECT_EQ(last->front().events, 7U);
  EXPECT_TRUE(failed_with(note_refusal(url, "POST /x", 1, " "), Errc::rejected)) << "by whom";
}

}  // namespace
}  // namespace dovetail::postgres
