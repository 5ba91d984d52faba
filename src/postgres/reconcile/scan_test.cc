// A comparison of an outbox and an inbox on a real server.
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "core/reconcile/comparison.h"
#include "kit/claims.h"
#include "kit/planted.h"
#include "postgres/reconcile/inbox_scan.h"
#include "postgres/reconcile/outbox_scan.h"
#include "postgres/testing/test_database.h"

namespace dovetail::postgres {
namespace {

using namespace std::chrono_literals;
using reconcile::findings_line;
using reconcile::Kind;
using reconcile::Outcome;
using reconcile::Rules;

const WallTime kAlways = WallTime{} + std::chrono::hours(24 * 365 * 900);

class Scans : public testing::Test {
 protected:
  // Everything is delivered, by one relay of two lanes, and applied a second later.
  void fill(int events) {
    must(connection,
         "INSERT INTO dovetail.outbox (aggregate_type, aggregate_id, type, payload) SELECT "
         "'order', (i % 100)::text, 'placed', convert_to('{\"n\": ' || i || '}', 'UTF8') FROM "
         "generate_series(1, " +
             std::to_string(events) +
             ") AS i; INSERT INTO dovetail.consumer (name) VALUES ('stock')");
    pass_all();
    must(
        connection,
        "INSERT INTO dovetail.inbox (event_id, consumer_id, applied_at, digest) SELECT o.id, c.id, "
        "o.created_at + interval '1 second', ('x' || left(encode(sha256(o.payload), 'hex'), "
        "16))::bit(64)::int8 FROM dovetail.outbox AS o, dovetail.consumer AS c");
  }
  void pass_all() {
    must(connection,
         "INSERT INTO dovetail.relay_lane (relay, lane, lanes, window_start) SELECT 'stock', lane, "
         "2, pg_current_snapshot() FROM generate_series(0, 1) AS lane ON CONFLICT (relay, lane) DO "
         "UPDATE SET window_start = excluded.window_start");
  }
  // The lines of these rows of the inbox or the outbox, which `sql` returns as ids.
  void plant(Kind kind, const std::string& sql) {
    const Result<Rows> rows = connection.query(sql);
    ASSERT_TRUE(rows) << text_of(rows);
    for (std::size_t i = 0; i < rows->size(); ++i)
      planted.push_back(findings_line(kind, "stock", rows->uuid(i, 0)));
  }
  Outcome compare(const std::string& relay = "stock") {
    auto outbox = scan_outbox(database.conninfo, relay, WallTime{}, kAlways);
    EXPECT_TRUE(outbox) << text_of(outbox);
    auto inbox = scan_inbox(database.conninfo, "stock", {});
    EXPECT_TRUE(inbox) << text_of(inbox);
    if (!outbox || !inbox) return {};
    Rules rules;
    rules.late_after = 1min;
    return reconcile::compare_scans(**outbox, **inbox, rules);
  }

  TestDatabase database;
  Connection connection = database.connect();
  std::vector<std::string> planted;
};

TEST_F(Scans, FindAHundredPlantedFaultsAndNothingElse) {
  const int events = live::is_long() ? 1'000'000 : 20'000;
  fill(events);
  const std::string some = "(SELECT event_id FROM dovetail.inbox ORDER BY md5(event_id::text) ";
  plant(Kind::missing,
        "DELETE FROM dovetail.inbox WHERE event_id IN " + some + "LIMIT 25) RETURNING event_id");
  plant(Kind::altered, "UPDATE dovetail.inbox SET digest = digest + 1 WHERE event_id IN " + some +
                           "OFFSET 100 LIMIT 25) RETURNING event_id");
  plant(Kind::late,
        "UPDATE dovetail.inbox SET applied_at = applied_at + interval '1 hour' WHERE "
        "event_id IN " +
            some + "OFFSET 200 LIMIT 25) RETURNING event_id");
  plant(Kind::extra,
        "INSERT INTO dovetail.inbox (event_id, consumer_id, digest) SELECT dovetail.uuid7(), 1, i "
        "FROM generate_series(1, 25) AS i RETURNING event_id");
  // Other consumers' rows and what no relay has read yet are no findings.
  must(connection,
       "INSERT INTO dovetail.inbox (event_id, consumer_id) SELECT dovetail.uuid7(), 99 FROM "
       "generate_series(1, 5000)");
  must(connection,
       "INSERT INTO dovetail.outbox (aggregate_type, type, payload) SELECT 'order', 'placed', "
       "'new' FROM generate_series(1, 30)");
  const std::int64_t before_kib = live::memory_kib("VmRSS");
  const auto began = std::chrono::steady_clock::now();
  const Outcome outcome = compare();
  const double took_ms = live::milliseconds(std::chrono::steady_clock::now() - began);
  const std::int64_t more_kib = live::memory_kib("VmHWM") - before_kib;
  EXPECT_EQ(planted.size(), 100U);
  live::claim(reconcile::lines_of(outcome) == reconcile::sorted(planted),
              "reconcile finds each of %zu planted faults in %d events, nothing else, in %.0f ms",
              planted.size(), events, took_ms);
  live::claim(more_kib < 16 << 10 || !live::kMemoryIsOurs,
              "reconcile of %d events takes %lld KiB of memory", events,
              static_cast<long long>(more_kib));
  EXPECT_EQ(outcome.counts.events, static_cast<std::uint64_t>(events) + 30);
  EXPECT_EQ(outcome.counts.waiting, 30U);
  EXPECT_EQ(outcome.counts.received, static_cast<std::uint64_t>(events) - 25);
}

TEST_F(Scans, WhatIsKeptBackIsNoFinding) {
  fill(10);
  must(
      connection,
      "CREATE TEMP TABLE held AS SELECT o.id, row_number() OVER (ORDER BY o.seq) AS n FROM "
      "dovetail.outbox AS o LIMIT 4; DELETE FROM dovetail.inbox WHERE event_id IN (SELECT id FROM "
      "held); INSERT INTO dovetail.parked (relay, id, position, topic, aggregate_type, "
      "aggregate_id, type, content_type, headers, payload, aggregate_version, created_at, state, "
      "attempts, reason, retry_at, finished_at) SELECT 'stock', h.id, h.n, '', 'order', '1', "
      "'placed', '', '', 'x', 0, now(), CASE h.n WHEN 1 THEN 'parked' WHEN 2 THEN 'waiting' WHEN 3 "
      "THEN 'discarded' ELSE 'delivered' END, 1, '', now(), CASE WHEN h.n > 2 THEN now() + "
      "interval '1 hour' END FROM held AS h");
  must(connection,
       "SELECT dovetail.publish('order', '1', 'placed', '{}'::jsonb, deliver_at => now() + "
       "interval '1 day')");
  const Outcome outcome = compare();
  EXPECT_EQ(reconcile::lines_of(outcome), std::vector<std::string>{});
  EXPECT_EQ(outcome.counts.parked, 1U);
  // One waits; another was parked when the comparison began, and was delivered since.
  EXPECT_EQ(outcome.counts.waiting, 2U);
  EXPECT_EQ(outcome.counts.discarded, 1U);
  EXPECT_EQ(outcome.counts.delayed, 1U);
}

// How far the relay is counts as of the beginning.
TEST_F(Scans, WhatIsPublishedMeanwhileIsNoFinding) {
  fill(5000);
  auto outbox = scan_outbox(database.conninfo, "stock", WallTime{}, kAlways);
  ASSERT_TRUE(outbox) << text_of(outbox);
  must(connection,
       "INSERT INTO dovetail.outbox (aggregate_type, type, payload) VALUES ('order', 'placed', "
       "'a'), ('order', 'placed', 'b'); ");
  pass_all();
  // The consumer has one of them, and one that the scan has passed already.
  must(connection,
       "INSERT INTO dovetail.inbox (event_id, consumer_id) SELECT id, 1 FROM dovetail.outbox WHERE "
       "payload = 'a'");
  ASSERT_TRUE((*outbox)->events().next());
  must(connection,
       "WITH early AS (INSERT INTO dovetail.outbox (id, aggregate_type, type, payload) VALUES "
       "('00000000-0000-7000-8000-000000000001', 'order', 'placed', 'c') RETURNING id) INSERT INTO "
       "dovetail.inbox (event_id, consumer_id) SELECT id, 1 FROM early");
  auto inbox = scan_inbox(database.conninfo, "stock", {"stock"});
  ASSERT_TRUE(inbox) << text_of(inbox);
  // The first event was taken above, so the inbox has one more than the outbox.
  const Outcome outcome = reconcile::compare_scans(**outbox, **inbox, {});
  EXPECT_EQ(reconcile::lines_of(outcome), std::vector<std::string>{});
  EXPECT_EQ(outcome.counts.waiting, 1U);
  EXPECT_EQ(outcome.counts.newer, 2U);
}

TEST_F(Scans, ARelayThatNeverRanHasPassedNothing) {
  fill(3);
  must(connection, "DELETE FROM dovetail.inbox");
  const Outcome outcome = compare("other");
  EXPECT_EQ(outcome.counts.waiting, 3U);
  EXPECT_EQ(outcome.counts.findings(), 0U);
}

TEST_F(Scans, KnowWhatBothSidesRetain) {
  fill(3);
  must(connection,
       "UPDATE dovetail.inbox_state SET forgotten_before = now(), exact_before = now(); UPDATE "
       "dovetail.consumer SET forgotten_until = '2026-01-01T00:00:00Z'");
  must(connection,
       "CREATE TABLE dovetail.outbox_first PARTITION OF dovetail.outbox FOR VALUES FROM "
       "('019b0000-0000-0000-0000-000000000000') TO ('019b0100-0000-0000-0000-000000000000')");
  auto outbox = scan_outbox(database.conninfo, "stock", WallTime{}, kAlways);
  ASSERT_TRUE(outbox) << text_of(outbox);
  const auto retained = (*outbox)->retained();
  ASSERT_TRUE(retained) << text_of(retained);
  EXPECT_EQ(retained->since, WallTime(std::chrono::milliseconds(0x019b00000000)));
  auto inbox = scan_inbox(database.conninfo, "stock", {});
  ASSERT_TRUE(inbox) << text_of(inbox);
  const auto since = (*inbox)->retained_since();
  ASSERT_TRUE(since) << text_of(since);
  EXPECT_EQ(*since, WallTime(std::chrono::seconds(1'767'225'600)));
}

// A page walks the primary key on from its place. A plan that reads or sorts the rest of the table
// would take as long for each page as for all.
TEST_F(Scans, NoPageReadsTheRestOfATable) {
  fill(20'000);
  must(connection, "ANALYZE dovetail.outbox, dovetail.inbox");
  const std::vector<std::int32_t> lane = {0};
  const std::vector<std::string_view> snapshot = {"1:1:"};
  const std::vector<std::int64_t> seq = {0};
  const auto plan_of = [&](std::string_view sql, const Params& params) {
    const Result<Rows> plan = connection.query("EXPLAIN " + std::string(sql), params);
    EXPECT_TRUE(plan) << text_of(plan);
    std::string text;
    for (std::size_t i = 0; plan && i < plan->size(); ++i)
      text += std::string(plan->text(i, 0)) + "\n";
    return text;
  };
  const std::string outbox = plan_of(outbox_page_sql(), Params()
                                                            .uuid(EventId{})
                                                            .int4_array(lane)
                                                            .int4_array(lane)
                                                            .text_array(snapshot)
                                                            .text_array(snapshot)
                                                            .int8_array(seq)
                                                            .timestamptz(WallTime{})
                                                            .timestamptz(kAlways)
                                                            .int8(2000));
  EXPECT_NE(outbox.find("Index Scan using outbox_default_pkey"), std::string::npos) << outbox;
  const std::string inbox = plan_of(inbox_page_sql(), Params().uuid(EventId{}).int4(0).int8(2000));
  EXPECT_NE(inbox.find("using inbox_default_pkey"), std::string::npos) << inbox;
  EXPECT_EQ(inbox.find("Sort  "), std::string::npos) << inbox;
  EXPECT_EQ(inbox.find("Bitmap"), std::string::npos) << inbox;
}

TEST_F(Scans, RefuseWhatTheDatabaseDoesNotKnow) {
  const auto inbox = scan_inbox(database.conninfo, "nobody", {});
  ASSERT_FALSE(inbox);
  EXPECT_EQ(inbox.error().code, Errc::rejected);
  EXPECT_NE(inbox.error().text.find("\"nobody\""), std::string::npos);
  must(connection,
       "INSERT INTO dovetail.relay_lane (relay, lane, lanes, source) VALUES ('own', 0, 1, "
       "'mapped')");
  const auto outbox = scan_outbox(database.conninfo, "own", WallTime{}, kAlways);
  ASSERT_FALSE(outbox);
  EXPECT_NE(outbox.error().text.find("does not read the outbox"), std::string::npos);
}

}  // namespace
}  // namespace dovetail::postgres
