#include "postgres/operate/admin_slots.h"

#include <algorithm>
#include <memory>

#include "postgres/lane/reader.h"
#include "postgres/schema/schema.h"
#include "postgres/testing/test_database.h"

namespace dovetail::postgres {
namespace {

// One database for all: making it is what takes time.
class WalSlots : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    shared = std::make_unique<TestDatabase>();
    Connection connection = shared->connect();
    const Status made = create_schema(connection);
    ASSERT_TRUE(made) << text_of(made);
  }
  static void TearDownTestSuite() { shared.reset(); }
  ~WalSlots() override {
    application.close();
    Connection connection = database.connect();
    // A temporary one is active until its session has ended.
    EXPECT_TRUE(eventually([&] {
      must(connection,
           "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = "
           "current_database() AND NOT active AND NOT temporary");
      return number(connection,
                    "SELECT count(*) FROM pg_replication_slots WHERE database = "
                    "current_database()") == 0;
    }));
    if (number(connection, "SELECT count(*) FROM pg_namespace WHERE nspname = 'dovetail'") == 0)
      return;
    must(connection, "DELETE FROM dovetail.relay_lane; DELETE FROM dovetail.audit");
  }
  void make_slot(const std::string& name, bool temporary = false) {
    must(application, "SELECT pg_create_logical_replication_slot('" + name + "', 'pgoutput', " +
                          (temporary ? "true" : "false") + ")");
  }
  void make_relay(const std::string& relay, const std::string& slot = "") {
    ASSERT_TRUE(ensure_relay(application, {.relay = relay}));
    must(application,
         "UPDATE dovetail.relay_lane SET slot = '" + slot + "' WHERE relay = '" + relay + "'");
  }
  // Slots belong to the cluster, and other tests have theirs there.
  std::vector<WalSlot> here() {
    auto slots = list_wal_slots(database.conninfo);
    EXPECT_TRUE(slots) << text_of(slots);
    if (!slots) return {};
    std::erase_if(*slots, [](const WalSlot& slot) { return !slot.is_here; });
    return std::move(*slots);
  }
  std::string own(const std::string& relay) const { return slot_name(relay, database.name); }
  Status drop(const std::string& name, bool force = false) {
    return drop_wal_slot(database.conninfo, name, force);
  }

  static std::unique_ptr<TestDatabase> shared;
  const TestDatabase& database = *shared;
  Connection application = database.connect();
};
std::unique_ptr<TestDatabase> WalSlots::shared;

TEST_F(WalSlots, AreListedWithTheRelayThatReadsThroughThem) {
  make_relay("shop", own("shop"));
  make_relay("quick");
  make_slot(own("shop"));
  make_slot(own("quick") + "_0a0b0c0d", true);
  make_slot(own("gone"));
  const std::vector<WalSlot> slots = here();
  ASSERT_EQ(slots.size(), 3U);
  const auto of = [&](const std::string& name) {
    return *std::find_if(slots.begin(), slots.end(),
                         [&](const WalSlot& slot) { return slot.name == name; });
  };
  EXPECT_EQ(of(own("shop")).relay, "shop");
  EXPECT_FALSE(of(own("shop")).temporary);
  EXPECT_EQ(of(own("quick") + "_0a0b0c0d").relay, "quick");
  EXPECT_TRUE(of(own("quick") + "_0a0b0c0d").active);
  EXPECT_EQ(of(own("gone")).relay, "");
}

TEST_F(WalSlots, ThatWereTakenOverAreListedByWhatTheRelayWroteDown) {
  const std::string theirs = "debezium_" + database.name;
  make_relay("shop", theirs);
  make_slot(theirs);
  make_slot("foreign_" + database.name);
  const std::vector<WalSlot> slots = here();
  ASSERT_EQ(slots.size(), 1U);
  EXPECT_EQ(slots[0].name, theirs);
  EXPECT_EQ(slots[0].relay, "shop");
}

TEST_F(WalSlots, OfNobodyAreDroppedAndThatIsWrittenDown) {
  make_slot(own("gone"));
  const Status dropped = drop(own("gone"));
  ASSERT_TRUE(dropped) << text_of(dropped);
  EXPECT_TRUE(here().empty());
  EXPECT_EQ(text(application, "SELECT who || ' ' || what || ' ' || subject FROM dovetail.audit"),
            "postgres drop slot " + own("gone"));
}

TEST_F(WalSlots, ThatARelayWillLookForAreDroppedOnlyByForce) {
  make_relay("shop", own("shop"));
  make_slot(own("shop"));
  const Status refused = drop(own("shop"));
  EXPECT_TRUE(failed_with(refused, Errc::rejected));
  EXPECT_TRUE(contains(text_of(refused), "--force")) << text_of(refused);
  EXPECT_EQ(here().size(), 1U);
  EXPECT_TRUE(drop(own("shop"), true));
  EXPECT_TRUE(here().empty());
}

TEST_F(WalSlots, OfAnotherDatabaseAreDroppedOnlyByForce) {
  make_slot(own("gone"));
  const std::string elsewhere = servers::with_database(database.conninfo, "postgres");
  const Status refused = drop_wal_slot(elsewhere, own("gone"), false);
  EXPECT_TRUE(failed_with(refused, Errc::rejected));
  EXPECT_TRUE(contains(text_of(refused), database.name)) << text_of(refused);
  EXPECT_EQ(here().size(), 1U);
  EXPECT_TRUE(drop_wal_slot(elsewhere, own("gone"), true));
  EXPECT_TRUE(here().empty());
}

TEST_F(WalSlots, ThatAreNotOursAreNeverDropped) {
  make_slot("foreign_" + database.name);
  EXPECT_TRUE(failed_with(drop("foreign_" + database.name, true), Errc::rejected));
  EXPECT_TRUE(failed_with(drop(own("nobody"), true), Errc::rejected));
  EXPECT_EQ(number(application,
                   "SELECT count(*) FROM pg_replication_slots WHERE slot_name = "
                   "'foreign_" +
                       database.name + "'"),
            1);
}

TEST_F(WalSlots, ThatEndByThemselvesAreLeftAlone) {
  make_slot(own("quick") + "_0a0b0c0d", true);
  const Status refused = drop(own("quick") + "_0a0b0c0d", true);
  EXPECT_TRUE(failed_with(refused, Errc::rejected)) << text_of(refused);
  EXPECT_EQ(here().size(), 1U);
}

TEST_F(WalSlots, AndHowALaneReadsAreInItsStatus) {
  make_relay("shop", own("shop"));
  make_slot(own("shop"));
  must(application,
       "UPDATE dovetail.relay_lane SET reads_wal = true, reads_why = 'level', "
       "reads_since = '2026-01-02 03:04:05Z'");
  const auto found = status(database.conninfo);
  ASSERT_TRUE(found) << text_of(found);
  ASSERT_EQ(found->lanes.size(), 1U);
  const LaneStatus& lane = found->lanes[0];
  EXPECT_TRUE(lane.reads_wal);
  EXPECT_EQ(lane.reads_why, "level");
  EXPECT_EQ(lane.slot, own("shop"));
  EXPECT_GE(lane.retained_wal, 0);
  EXPECT_EQ(lane.reads_since.time_since_epoch(), std::chrono::seconds(1767323045));
}

TEST_F(WalSlots, AreSeenWithoutASchema) {
  make_slot(own("gone"));
  must(application, "DROP SCHEMA dovetail CASCADE");
  EXPECT_EQ(here().size(), 1U);
  EXPECT_TRUE(drop(own("gone")));
  EXPECT_TRUE(here().empty());
  const Status again = create_schema(application);
  EXPECT_TRUE(again) << text_of(again);
}

}  // namespace
}  // namespace dovetail::postgres
