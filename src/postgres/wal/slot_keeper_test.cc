#include "postgres/wal/slot_keeper.h"

#include "core/testing/test_clock.h"
#include "postgres/testing/test_database.h"
#include "postgres/testing/test_wal.h"

namespace dovetail::postgres {
namespace {

using namespace std::chrono_literals;

class SlotKeeperTest : public testing::Test {
 protected:
  SlotKeeperTest() : sql_(database_.connect()) {
    reader_.conninfo = database_.conninfo;
    reader_.relay = "test";
    EXPECT_TRUE(connect(reader_));
    server_ = identify(reader_.connection).value();
    must(sql_, "UPDATE dovetail.relay_lane SET system_identifier = " +
                   std::to_string(server_.system_identifier));
    options_.reading.mode = ReadMode::wal;
    options_.replication_conninfo = database_.conninfo;
    progress_.begin({});
  }
  std::unique_ptr<SlotKeeper> open() {
    auto slot = std::make_unique<SlotKeeper>(reader_, progress_, clock_, metrics_, options_);
    EXPECT_TRUE(slot->open(server_));
    (void)slot->wanted(Published{std::string(kOutboxPublication)});
    return slot;
  }
  // A stream through a new slot, which begins at 100.
  void begin_stream(SlotKeeper& slot) {
    const Result<WalPosition> from = slot.record(SlotAccess{});
    EXPECT_TRUE(from && *from == WalPosition{}) << text_of(from);
    progress_.begin_stream({100}, slot.recorded());
  }
  static std::optional<WalPosition> report(SlotKeeper& slot, bool has_settled) {
    const auto position = slot.report(has_settled);
    EXPECT_TRUE(position) << text_of(position);
    return position.value_or(std::nullopt);
  }
  std::string reported() {
    return text(sql_, "SELECT slot_reported::text FROM dovetail.relay_lane");
  }

  TestDatabase database_;
  Connection sql_;
  Reader reader_;
  ServerIdentity server_;
  Progress progress_{true};
  TestClock clock_;
  RelayMetrics metrics_;
  WalSourceOptions options_;
};

TEST_F(SlotKeeperTest, OfATemporarySlotTheServerIsToldWhatIsSettled) {
  options_.reading.mode = ReadMode::automatic;
  const auto slot = open();
  begin_stream(*slot);
  EXPECT_FALSE(slot->is_first_report());
  progress_.add(1);
  progress_.reach(WalPosition{500});
  EXPECT_EQ(report(*slot, true), WalPosition{100});
  const Settled fate = Settled::delivered;
  progress_.settle({&fate, 1});
  EXPECT_EQ(report(*slot, false), WalPosition{500});
  EXPECT_EQ(reported(), "0/0") << "and nothing is recorded";
  EXPECT_EQ(text(sql_, "SELECT slot FROM dovetail.relay_lane"), "");
}

TEST_F(SlotKeeperTest, OfASlotThatStaysTheServerIsToldWhatIsRecorded) {
  const auto slot = open();
  begin_stream(*slot);
  EXPECT_EQ(text(sql_, "SELECT slot FROM dovetail.relay_lane"), slot->name());
  EXPECT_EQ(reported(), "0/0");
  EXPECT_TRUE(slot->is_first_report());
  EXPECT_EQ(report(*slot, false), WalPosition{100}) << "the first is worth a write";
  EXPECT_EQ(reported(), "0/64");
  EXPECT_FALSE(slot->is_first_report());
  progress_.reach(WalPosition{200});
  EXPECT_EQ(report(*slot, false), std::nullopt) << "of others, and little";
  EXPECT_EQ(report(*slot, true), WalPosition{200});
  EXPECT_EQ(reported(), "0/C8");
  progress_.reach(WalPosition{200 + (1 << 20)});
  EXPECT_EQ(report(*slot, false), WalPosition{200 + (1 << 20)}) << "of others, and much";
}

TEST_F(SlotKeeperTest, NothingIsRecordedBeforeWhatWindowsReadIsSettled) {
  const auto slot = open();
  progress_.add(1);
  begin_stream(*slot);
  progress_.reach(WalPosition{200});
  EXPECT_EQ(report(*slot, true), WalPosition{});
  EXPECT_EQ(reported(), "0/0");
}

TEST_F(SlotKeeperTest, TheServerIsNotToldByALaneThatIsLost) {
  const auto slot = open();
  begin_stream(*slot);
  reader_.epoch = 7;
  must(sql_, "UPDATE dovetail.relay_lane SET epoch = 8");
  EXPECT_TRUE(failed_with(slot->report(true), Errc::stopped));
  EXPECT_EQ(progress_.reportable(), WalPosition{});
}

TEST_F(SlotKeeperTest, ASlotIsResumedFromWhatIsRecordedOnItsTimeline) {
  SlotAccess access;
  access.resumes = true;
  access.confirmed = {70};
  auto slot = open();
  begin_stream(*slot);
  (void)report(*slot, true);
  slot = open();
  EXPECT_TRUE(slot->is_recorded());
  EXPECT_TRUE(slot->is_same_as_recorded());
  EXPECT_EQ(slot->record(access).value(), WalPosition{100}) << "the server may not have heard it";
  EXPECT_EQ(slot->recorded(), WalPosition{100});
  server_.timeline = "00000099";
  slot = open();
  EXPECT_EQ(slot->record(access).value(), WalPosition{}) << "it means something else there";
  EXPECT_EQ(slot->recorded(), WalPosition{70});
}

TEST_F(SlotKeeperTest, ARecordOfAnotherClusterIsForgotten) {
  begin_stream(*open());
  ++server_.system_identifier;
  const auto slot = open();
  EXPECT_FALSE(slot->is_recorded());
  EXPECT_EQ(text(sql_, "SELECT slot FROM dovetail.relay_lane"), "");
}

TEST_F(SlotKeeperTest, ASlotThatIsTakenOverIsOursFromThenOn) {
  options_.slot = "theirs";
  const auto slot = open();
  EXPECT_TRUE(slot->takes_over());
  SlotAccess access;
  access.resumes = true;
  access.confirmed = {70};
  EXPECT_EQ(slot->record(access).value(), WalPosition{});
  EXPECT_EQ(slot->recorded(), WalPosition{70});
  EXPECT_FALSE(slot->takes_over());
  EXPECT_FALSE(open()->takes_over());
}

TEST_F(SlotKeeperTest, ASlotThatKeepsTooMuchIsOnlyDroppedUntilTheSinkTakesAgain) {
  options_.reading.retained_wal_max = -1;
  const auto slot = open();
  EXPECT_FALSE(slot->waits_for_sink());
  must(sql_, "SELECT pg_create_logical_replication_slot('" + slot->name() + "', 'pgoutput')");
  const auto look = slot->look_if_due(true);
  ASSERT_TRUE(look && look->too_much) << text_of(look);
  EXPECT_TRUE(contains(look->too_much->text, "retained_wal_max")) << look->too_much->text;
  EXPECT_TRUE(slot->waits_for_sink());
  EXPECT_TRUE(slot->is_distrusted());
  EXPECT_TRUE(slot->wanted({}).drops_only);
  SlotAccess dropped;
  dropped.lost = "too much was kept";
  EXPECT_EQ(slot->found(dropped), "") << "people know already";
  EXPECT_FALSE(slot->is_distrusted());
  EXPECT_TRUE(slot->waits_for_sink());
  EXPECT_FALSE(slot->wanted({}).drops_only) << "and now a new one may be made";
  SlotAccess made;
  made.replication = open_replication(database_.conninfo);
  EXPECT_EQ(slot->found(made), "");
  EXPECT_FALSE(slot->waits_for_sink());
}

TEST_F(SlotKeeperTest, ASlotThatIsLostIsTold) {
  const auto slot = open();
  slot->distrust("it lies");
  EXPECT_EQ(slot->wanted({}).distrusted, "it lies");
  SlotAccess access;
  access.replication = open_replication(database_.conninfo);
  access.lost = "gone";
  EXPECT_EQ(slot->found(access), "gone");
  EXPECT_EQ(slot->wanted({}).distrusted, "");
}

TEST_F(SlotKeeperTest, TheServerIsLookedAtNowAndThen) {
  const auto slot = open();
  must(sql_, "SELECT pg_create_logical_replication_slot('" + slot->name() + "', 'pgoutput')");
  ASSERT_TRUE(slot->look_if_due(false));
  const std::uint64_t before = metrics_.retained_wal_bytes;
  must(sql_, "CREATE TABLE noise AS SELECT repeat('x', 1000) FROM generate_series(1, 1000)");
  ASSERT_TRUE(slot->look_if_due(false));
  EXPECT_EQ(metrics_.retained_wal_bytes, before) << "too soon";
  clock_.advance(1s);
  ASSERT_TRUE(slot->look_if_due(false));
  EXPECT_GE(metrics_.retained_wal_bytes, before + 500'000);
  EXPECT_TRUE(slot->is_report_due());
  EXPECT_FALSE(slot->is_report_due());
  clock_.advance(1s);
  EXPECT_TRUE(slot->is_report_due());
}

}  // namespace
}  // namespace dovetail::postgres
