// A comparison of the outbox and the inbox of SQLite files.
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "core/inbox/forgotten.h"
#include "core/reconcile/comparison.h"
#include "kit/planted.h"
#include "sqlite/reconcile/inbox_scan.h"
#include "sqlite/reconcile/outbox_scan.h"
#include "sqlite/testing/test_file.h"

namespace dovetail::sqlite {
namespace {

using namespace std::chrono_literals;
using reconcile::findings_line;
using reconcile::Kind;
using reconcile::Outcome;
using reconcile::Rules;

const WallTime kAlways = WallTime{} + std::chrono::hours(24 * 365 * 900);

class Scans : public testing::Test {
 protected:
  void SetUp() override {
    run("INSERT INTO dovetail_consumer (id, name) VALUES (7, 'stock')");
    run("INSERT INTO dovetail_relay (relay, source, passed_seq) VALUES ('stock', 'outbox', 0)");
  }
  void run(const std::string& sql) {
    ASSERT_EQ(service.run(sql), SQLITE_OK) << sql << ": " << sqlite3_errmsg(service.connection);
  }
  // Every event is delivered and applied a second later.
  void fill(int events) {
    run("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < " +
        std::to_string(events) +
        ") INSERT INTO dovetail_outbox (aggregate_type, aggregate_id, type, payload) SELECT "
        "'order', i % 100, 'placed', CAST('{}' AS BLOB) FROM n");
    run("UPDATE dovetail_relay SET passed_seq = (SELECT max(seq) FROM dovetail_outbox)");
    run("INSERT INTO dovetail_inbox (consumer_id, event_id, applied_at, digest) SELECT 7, id, "
        "created_at + 1000000, " +
        std::to_string(payload_digest("{}")) + " FROM dovetail_outbox");
  }
  void plant(Kind kind, const std::string& sql, const std::string& receiver = "stock") {
    Result<Statement> statement = Statement::prepare(service.connection, sql);
    ASSERT_TRUE(statement) << text_of(statement);
    for (;;) {
      const Result<bool> row = statement->step();
      ASSERT_TRUE(row) << text_of(row);
      if (!*row) break;
      planted.push_back(findings_line(kind, receiver, statement->id(0)));
    }
  }
  Outcome compare(const std::string& relay = "stock") {
    auto outbox = scan_outbox(file.path, relay, WallTime{}, kAlways, system_clock());
    EXPECT_TRUE(outbox) << text_of(outbox);
    auto inbox = scan_inbox(file.path, "stock", {}, system_clock());
    EXPECT_TRUE(inbox) << text_of(inbox);
    if (!outbox || !inbox) return {};
    Rules rules;
    rules.late_after = 1min;
    return reconcile::compare_scans(**outbox, **inbox, rules);
  }

  TestFile file;
  Application service{file.path};
  std::vector<std::string> planted;
};

TEST_F(Scans, FindAHundredPlantedFaultsInTwentyThousandEventsAndNothingElse) {
  fill(20'000);
  const std::string some = "(SELECT event_id FROM dovetail_inbox ORDER BY event_id ";
  plant(Kind::missing,
        "DELETE FROM dovetail_inbox WHERE event_id IN " + some + "LIMIT 25) RETURNING event_id");
  plant(Kind::altered, "UPDATE dovetail_inbox SET digest = digest + 1 WHERE event_id IN " + some +
                           "LIMIT 25 OFFSET 9000) RETURNING event_id");
  plant(Kind::late,
        "UPDATE dovetail_inbox SET applied_at = applied_at + 3600000000 WHERE event_id IN " + some +
            "LIMIT 25 OFFSET 15000) RETURNING event_id");
  plant(Kind::extra,
        // Ids of version 5 come from messages without an id.
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000), made(id) "
        "AS MATERIALIZED (SELECT randomblob(16) FROM n) INSERT INTO dovetail_inbox (consumer_id, "
        "event_id, applied_at) SELECT 7, id, 1790000000000000 FROM made WHERE substr(hex(id), 13, "
        "1) <> '5' LIMIT 25 RETURNING event_id");
  const Outcome outcome = compare();
  EXPECT_EQ(planted.size(), 100U);
  EXPECT_EQ(reconcile::lines_of(outcome), reconcile::sorted(planted));
  EXPECT_EQ(outcome.counts.received, 19'975U);
}

TEST_F(Scans, EveryHandlerIsComparedByItself) {
  fill(3000);
  run("UPDATE dovetail_consumer SET name = 'stock.mail'; INSERT INTO dovetail_consumer (id, name) "
      "VALUES (8, 'stock.ledger'), (9, 'stock')");
  run("INSERT INTO dovetail_inbox (consumer_id, event_id, applied_at, digest) SELECT 8, event_id, "
      "applied_at, digest FROM dovetail_inbox");
  plant(Kind::missing,
        "DELETE FROM dovetail_inbox WHERE consumer_id = 8 AND event_id IN (SELECT event_id FROM "
        "dovetail_inbox WHERE consumer_id = 8 ORDER BY event_id LIMIT 5) RETURNING event_id",
        "stock.ledger");
  const Outcome outcome = compare();
  EXPECT_EQ(reconcile::lines_of(outcome), reconcile::sorted(planted));
  EXPECT_EQ(outcome.counts.received, 5995U);
}

TEST_F(Scans, WhatIsKeptBackIsNoFinding) {
  fill(6);
  run("DELETE FROM dovetail_inbox");
  run("UPDATE dovetail_relay SET passed_seq = 5");
  run("INSERT INTO dovetail_parked (relay, id, position, topic, aggregate_type, aggregate_id, "
      "type, "
      "content_type, headers, payload, aggregate_version, created_at, state, attempts, reason, "
      "parked_at, retry_at, finished_at) SELECT 'stock', id, seq, '', 'order', '1', 'placed', '', "
      "'', 'x', 0, 0, CASE seq WHEN 1 THEN 'parked' WHEN 2 THEN 'waiting' WHEN 3 THEN 'discarded' "
      "ELSE 'delivered' END, 1, '', 0, 0, CASE WHEN seq > 2 THEN 4000000000000000 ELSE 0 END FROM "
      "dovetail_outbox WHERE seq <= 4");
  plant(Kind::missing, "SELECT id FROM dovetail_outbox WHERE seq = 5");
  const Outcome outcome = compare();
  EXPECT_EQ(reconcile::lines_of(outcome), planted);
  EXPECT_EQ(outcome.counts.parked, 1U);
  EXPECT_EQ(outcome.counts.waiting, 3U);
  EXPECT_EQ(outcome.counts.discarded, 1U);
}

// The relay has filled the mailbox, and the consumer has not read it yet.
TEST_F(Scans, WhatIsInTheMailboxWaits) {
  fill(4);
  plant(Kind::missing,
        "DELETE FROM dovetail_inbox WHERE event_id = (SELECT id FROM dovetail_outbox WHERE seq = "
        "1) RETURNING event_id");
  run("DELETE FROM dovetail_inbox WHERE event_id = (SELECT id FROM dovetail_outbox WHERE seq = 4)");
  run("UPDATE dovetail_relay SET relay = 'orders-to-bus'; INSERT INTO dovetail_relay (relay, "
      "source, passed_seq) VALUES ('stock', 'mailbox', 3); INSERT INTO dovetail_mailbox (seq, id, "
      "topic, aggregate_type, aggregate_id, type, content_type, headers, payload, "
      "aggregate_version, created_at, received_at) SELECT seq, id, topic, aggregate_type, "
      "aggregate_id, type, content_type, headers, payload, aggregate_version, created_at, 0 FROM "
      "dovetail_outbox");
  const Outcome outcome = compare("orders-to-bus");
  EXPECT_EQ(reconcile::lines_of(outcome), planted);
  EXPECT_EQ(outcome.counts.waiting, 1U);
}

TEST_F(Scans, KnowWhatBothSidesRetain) {
  fill(3);
  run("UPDATE dovetail_outbox SET created_at = seq * 1000000");
  auto outbox = scan_outbox(file.path, "stock", WallTime{}, kAlways, system_clock());
  ASSERT_TRUE(outbox) << text_of(outbox);
  EXPECT_EQ((*outbox)->retained()->since, WallTime::min());
  run("DELETE FROM dovetail_outbox WHERE seq = 1");
  EXPECT_EQ((*outbox)->retained()->since, WallTime{2s});
  run("UPDATE dovetail_consumer SET forgotten_until = 5000000");
  auto inbox = scan_inbox(file.path, "stock", {"stock"}, system_clock());
  ASSERT_TRUE(inbox) << text_of(inbox);
  EXPECT_EQ(*(*inbox)->retained_since(), WallTime{5s});
}

// The application can write a checkpoint, and delete, between two pages.
TEST_F(Scans, HoldNoSnapshotBetweenPages) {
  fill(3000);
  auto outbox = scan_outbox(file.path, "stock", WallTime{}, kAlways, system_clock());
  ASSERT_TRUE(outbox) << text_of(outbox);
  ASSERT_TRUE((*outbox)->events().next());
  run("UPDATE dovetail_relay SET owner = 'somebody'");
  EXPECT_EQ(service.text("PRAGMA wal_checkpoint(TRUNCATE)"), "0");
}

TEST_F(Scans, RefuseAConsumerThatTheFileDoesNotKnow) {
  const auto inbox = scan_inbox(file.path, "nobody", {}, system_clock());
  ASSERT_FALSE(inbox);
  EXPECT_EQ(inbox.error().code, Errc::rejected);
}

}  // namespace
}  // namespace dovetail::sqlite
