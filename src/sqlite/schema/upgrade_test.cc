// Files of older versions, with events, parked events, a running lease and claims, are upgraded in
// place.
#include <fstream>
#include <iterator>

#include "dovetail/sqlite.h"
#include "host/host.h"
#include "sqlite/operate/admin.h"
#include "sqlite/testing/test_file.h"

namespace dovetail::sqlite {
namespace {

// In the words of version 5: of four events two are delivered, one is parked, one is pending.
std::string work() {
  const std::string lease_expires =
      std::to_string((system_clock().now() + std::chrono::hours(1)).time_since_epoch().count());
  return "INSERT INTO dovetail_outbox (aggregate_type, aggregate_id, type, payload) VALUES "
         "('order', '1', 'placed', '1'), ('order', '2', 'placed', '2'), ('order', '3', 'placed', "
         "'3'), ('order', '4', 'placed', '4');"
         "INSERT INTO dovetail_reader (name, stream, settled, owner, epoch, lease_expires, "
         "lease_boot, settled_total, parked_total) VALUES ('shop', 'outbox', 3, 'host:1#2', 7, " +
         lease_expires + ", '" + boot_id() +
         "', 3, 1), ('from-bus', 'outside', 0, '', 0, 0, '', 9, 0), ('in', 'mailbox', 0, '', 0, 0, "
         "'', 0, 0);"
         "INSERT INTO dovetail_parked (reader, id, position, topic, aggregate_type, aggregate_id, "
         "type, content_type, headers, payload, aggregate_version, created_at, state, at_head, "
         "attempts, reason, parked_at, retry_at) SELECT 'shop', id, seq, topic, aggregate_type, "
         "aggregate_id, type, content_type, headers, payload, aggregate_version, created_at, "
         "'parked', 1, 15, 'refused', 1, 1 FROM dovetail_outbox WHERE seq = 2;"
         "INSERT INTO dovetail_consumer (id, name, applied) VALUES (1, 'stock', 1);"
         "INSERT INTO dovetail_inbox (consumer_id, event_id, applied_at) VALUES (1, "
         "randomblob(16), 1);"
         "INSERT INTO dovetail_claim (consumer_id, event_id, epoch, attempts, lease_expires, "
         "lease_boot, updated_at) VALUES (1, randomblob(16), 3, 1, " +
         lease_expires + ", '" + boot_id() +
         "', 1);"
         "CREATE VIEW of_the_service AS SELECT reader AS name FROM dovetail_parked";
}

class SqliteUpgrade : public testing::TestWithParam<int> {
 protected:
  SqliteUpgrade() {
    for (int version = 1; version <= GetParam(); ++version) {
      std::ifstream script(DOVETAIL_SQLITE_FOLDER "/schema/v" + std::to_string(version) + ".sql");
      const std::string sql((std::istreambuf_iterator<char>(script)), {});
      EXPECT_EQ(application.run(sql), SQLITE_OK) << sqlite3_errmsg(application.connection);
    }
    EXPECT_EQ(application.run(work()), SQLITE_OK) << sqlite3_errmsg(application.connection);
    const Status updated = create_schema(application.connection);
    EXPECT_TRUE(updated) << text_of(updated);
  }

  TestFile file;
  std::string path = file.directory() + "/old.db";
  Application application{path};
};

TEST_P(SqliteUpgrade, KeepsRelaysWithTheirLeasesProgressAndCounts) {
  EXPECT_EQ(
      application.text("SELECT group_concat(relay || ' ' || source || ' ' || passed_seq || ' ' "
                       "|| owner || ' ' || epoch || ' ' || delivered_total, ', ') FROM (SELECT "
                       "* FROM dovetail_relay ORDER BY relay)"),
      "from-bus broker 0  0 9, in mailbox 0  0 0, shop outbox 3 host:1#2 7 2");
  const Result<StoreStatus> seen = status(path, system_clock());
  ASSERT_TRUE(seen) << text_of(seen);
  const RelayStatus& shop = seen->relays.back();
  EXPECT_EQ(shop.pending, 1U);
  EXPECT_EQ(shop.parked, 1U);
  EXPECT_GT(shop.lease_left, std::chrono::minutes(50)) << "the lease still runs";
}

TEST_P(SqliteUpgrade, KeepsParkedEventsAndClaims) {
  EXPECT_EQ(application.text("SELECT group_concat(state) FROM (SELECT * FROM dovetail_events WHERE "
                             "relay = 'shop' ORDER BY seq)"),
            "delivered,parked,delivered,pending");
  EXPECT_EQ(application.text("SELECT relay || state || replays FROM dovetail_parked"),
            "shopparked0");
  application.run("UPDATE dovetail_parked SET state = 'waiting'");
  EXPECT_EQ(application.number("SELECT replays FROM dovetail_parked"), 1);
  EXPECT_EQ(application.number("SELECT count(*) FROM dovetail_claim WHERE epoch = 3"), 1);
  EXPECT_EQ(application.number("SELECT count(*) FROM dovetail_inbox"), 1);
  EXPECT_EQ(application.text("SELECT name FROM of_the_service"), "shop")
      << "views of others follow";
}

INSTANTIATE_TEST_SUITE_P(FromVersion, SqliteUpgrade, testing::Values(5, 7),
                         [](const auto& version) { return std::to_string(version.param); });

// In the words of version 8.
TEST(SqliteUpgradeFrom, Version8KeepsRelaysAndHoldsNone) {
  TestFile file;
  Application application(file.directory() + "/old.db");
  for (int version = 1; version <= 8; ++version) {
    std::ifstream script(DOVETAIL_SQLITE_FOLDER "/schema/v" + std::to_string(version) + ".sql");
    const std::string sql((std::istreambuf_iterator<char>(script)), {});
    ASSERT_EQ(application.run(sql), SQLITE_OK) << sqlite3_errmsg(application.connection);
  }
  ASSERT_EQ(application.run("INSERT INTO dovetail_relay (relay, source, passed_seq, owner, epoch, "
                            "delivered_total) VALUES ('shop', 'outbox', 3, 'host:1#2', 7, 5)"),
            SQLITE_OK);
  const Status updated = create_schema(application.connection);
  ASSERT_TRUE(updated) << text_of(updated);
  EXPECT_EQ(application.text("SELECT relay || '|' || passed_seq || '|' || owner || '|' || epoch "
                             "|| '|' || delivered_total || '|' || skipped_total || '|' || hold "
                             "FROM dovetail_relay"),
            "shop|3|host:1#2|7|5|0|");
}

}  // namespace
}  // namespace dovetail::sqlite
