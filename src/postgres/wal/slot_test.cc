#include "postgres/wal/slot.h"

#include "postgres/testing/test_version.h"
#include "postgres/testing/test_wal.h"

namespace dovetail::postgres {
namespace {

TEST(WalSlotName, IsTheSameAtEveryStartAndItsOwnInEachDatabase) {
  EXPECT_EQ(slot_name("orders", "shop"), slot_name("orders", "shop"));
  EXPECT_NE(slot_name("orders", "shop"), slot_name("orders", "shop2"));
  EXPECT_NE(slot_name("orders", "shop"), slot_name("orders2", "shop"));
  EXPECT_NE(slot_name("orders-1", "shop"), slot_name("orders_1", "shop"));
  EXPECT_NE(slot_name("a", "bc"), slot_name("ab", "c"));
  EXPECT_TRUE(slot_name("orders", "shop").starts_with("dovetail_orders_"));
}

TEST(WalSlotName, IsOneThatTheServerTakes) {
  for (const std::string& relay :
       {std::string("Orders.To-Kafka \"x\" \xc3\xa9"), std::string(200, 'x'), std::string()}) {
    for (const std::string& name : {slot_name(relay, "Shop"), temporary_slot_name(relay, "Shop")}) {
      EXPECT_LE(name.size(), 63U);
      EXPECT_EQ(name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_"), std::string::npos);
    }
  }
}

TEST(WalSlotName, OfAStreamIsNeverUsedTwice) {
  EXPECT_NE(temporary_slot_name("orders", "shop"), temporary_slot_name("orders", "shop"));
}

class WalSlotTest : public OnOutbox {
 protected:
  std::string why(const std::string& publication = std::string(kOutboxPublication)) {
    const auto found = why_not_streamed(connection, publication);
    EXPECT_TRUE(found) << text_of(found);
    return found && *found ? **found : "";
  }
  const std::string slot = slot_name(OnOutbox::slot, database.name);
};

TEST_F(WalSlotTest, IsFoundWithWhatWasConfirmedAndDropped) {
  Replication replication = open_replication(database.conninfo);
  const CreatedSlot made = make_slot(replication, slot, false);
  replication.close();
  EXPECT_TRUE(eventually([&] { return !(*find_slot(connection, slot))->active; }));
  const SlotState state = **find_slot(connection, slot);
  EXPECT_EQ(state.name, slot);
  EXPECT_EQ(state.database, database.name);
  EXPECT_EQ(state.plugin, "pgoutput");
  EXPECT_FALSE(state.temporary);
  EXPECT_FALSE(state.synced);
  EXPECT_EQ(state.wal_status, "reserved");
  EXPECT_EQ(state.confirmed, made.start);
  EXPECT_EQ(state.safe_bytes, -1);

  const auto all = list_slots(connection);
  ASSERT_TRUE(all) << text_of(all);
  EXPECT_EQ(std::count_if(all->begin(), all->end(),
                          [&](const SlotState& each) { return each.name == slot; }),
            1);
  EXPECT_TRUE(drop_slot(connection, slot));
  EXPECT_FALSE(*find_slot(connection, slot));
  EXPECT_TRUE(drop_slot(connection, slot)) << "nothing to drop is well, too";
}

TEST_F(WalSlotTest, TellsHowMuchOfTheLogItHolds) {
  Replication replication = open_replication(database.conninfo);
  make_slot(replication, slot, true);
  must(connection, "CREATE TABLE noise AS SELECT repeat('x', 1000) FROM generate_series(1, 2000)");
  EXPECT_GT((*find_slot(connection, slot))->retained_bytes, 1 << 20);
}

TEST_F(WalSlotTest, ThePublicationOfTheSchemaWillDo) { EXPECT_EQ(why(), ""); }

TEST_F(WalSlotTest, EachFaultOfAPublicationIsNamed) {
  EXPECT_TRUE(contains(why("missing"), "is not there"));
  must(connection, "CREATE TABLE plain (id int PRIMARY KEY, payload text)");
  must(connection, "CREATE PUBLICATION deletes FOR TABLE plain WITH (publish = 'delete')");
  EXPECT_TRUE(contains(why("deletes"), "no inserts"));
  must(connection, "CREATE PUBLICATION empty");
  EXPECT_TRUE(contains(why("empty"), "has no table"));
  must(connection, "CREATE PUBLICATION leaves FOR TABLE dovetail.outbox");
  EXPECT_TRUE(contains(why("leaves"), "publish_via_partition_root"));
  must(connection, "CREATE PUBLICATION good FOR TABLE plain");
  EXPECT_EQ(why("good"), "");
}

// From PostgreSQL 16 on the server returns a publication's current columns, whatever the
// statement's snapshot shows.
TEST_F(WalSlotTest, AColumnThatIsDroppedMeanwhileIsNotTakenForOneThatIsLeftOut) {
  Connection other = database.connect();
  must(other, "ALTER TABLE dovetail.outbox ADD COLUMN note text");
  must(connection, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class");
  must(other, "ALTER TABLE dovetail.outbox DROP COLUMN note");
  EXPECT_EQ(why(), "");
  must(connection, "COMMIT");
}

TEST_F(WalSlotTest, APublicationOfSomeRowsOrColumnsIsNamed) {
  if (is_before(connection, 15)) GTEST_SKIP() << "PostgreSQL 15 brought such publications";
  must(connection, "CREATE TABLE partial (id int PRIMARY KEY, payload text)");
  must(connection, "CREATE PUBLICATION some_rows FOR TABLE partial WHERE (id > 5)");
  EXPECT_TRUE(contains(why("some_rows"), "filter for rows"));
  must(connection, "CREATE PUBLICATION some_columns FOR TABLE partial (id)");
  EXPECT_TRUE(contains(why("some_columns"), "leaves out columns"));
}

}  // namespace
}  // namespace dovetail::postgres
