#include "postgres/wal/handover.h"

#include "postgres/outbox/source.h"
#include "postgres/testing/test_database.h"
#include "postgres/testing/test_source.h"
#include "postgres/testing/test_wal.h"

namespace dovetail::postgres {
namespace {

using namespace std::chrono_literals;

class HandoverTest : public testing::Test {
 protected:
  HandoverTest() : sql_(database_.connect()) {
    reader_.conninfo = database_.conninfo;
    reader_.relay = "test";
    options_.replication_conninfo = database_.conninfo;
    options_.passing = [this](std::string_view step) { steps_.emplace_back(step); };
    options_.changed = [this](bool, std::string_view why) { said_ += std::string(why) + "\n"; };
  }
  void open() {
    ASSERT_TRUE(connect(reader_));
    ASSERT_TRUE(slot_.open(identify(reader_.connection).value()));
    handover_.open(server_run(reader_.connection).value());
    ASSERT_TRUE(windows_.open());
  }
  // Reads windows as far as possible, and makes a step. Settles everything it reads.
  bool step() {
    if (!handover_.holds_windows()) {
      Batch batch;
      const Status read = windows_.read(batch, {events_max_, 1 << 20, 5ms}, {});
      EXPECT_TRUE(read) << text_of(read);
      read_ += batch.size();
      const std::vector<Settled> fates(batch.size(), Settled::delivered);
      EXPECT_TRUE(windows_.settle(batch, fates));
      handover_.windows_were_read();
    }
    auto advanced = handover_.advance();
    EXPECT_TRUE(advanced) << text_of(advanced);
    if (!advanced || !*advanced) return false;
    stream_ = std::move(*advanced);
    return true;
  }
  bool until_step(const std::string& name) {
    return eventually([&] {
      (void)step();
      return !steps_.empty() && steps_.back() == name;
    });
  }
  std::int64_t slots() {
    return number(sql_,
                  "SELECT count(*) FROM pg_replication_slots WHERE database = current_database()");
  }

  TestDatabase database_;
  Connection sql_;
  Reader reader_;
  RelayMetrics metrics_;
  WalSourceOptions options_;
  std::vector<std::string> steps_;
  std::string said_;
  std::size_t events_max_ = 1000;
  std::size_t read_ = 0;
  PostgresSource windows_{reader_, system_clock()};
  ReadStatus status_{reader_, metrics_, options_};
  SlotKeeper slot_{reader_, windows_.progress(), system_clock(), metrics_, options_};
  Handover handover_{reader_, windows_, system_clock(), slot_, status_, options_};
  std::optional<StartedStream> stream_;
};

TEST_F(HandoverTest, WindowsAreReadUpToTheSlotAndLeftOutOfTheStream) {
  publish_many(sql_, 20, 10);
  open();
  ASSERT_TRUE(handover_.advance());
  EXPECT_TRUE(steps_.empty()) << "the table comes first";
  ASSERT_TRUE(eventually([&] { return step(); })) << said_;
  EXPECT_EQ(steps_,
            (std::vector<std::string>{"connecting", "connected", "slot asked for", "slot made",
                                      "windows end", "stream starting", "stream started"}));
  EXPECT_EQ(read_, 20U);
  EXPECT_FALSE(stream_->resumes);
  EXPECT_GT(stream_->begins_at, WalPosition{});
  ASSERT_TRUE(stream_->left_out);
  const auto xid = static_cast<std::uint64_t>(
      number(sql_, "SELECT max(xid::text::bigint) FROM dovetail.outbox"));
  EXPECT_TRUE(stream_->left_out->shows(xid));
  EXPECT_FALSE(handover_.is_under_way());
}

TEST_F(HandoverTest, ASlotThatStaysIsMadeAtOnceAndResumedAfterwards) {
  options_.reading.mode = ReadMode::wal;
  open();
  ASSERT_TRUE(eventually([&] { return step(); })) << said_;
  EXPECT_FALSE(stream_->resumes);
  EXPECT_EQ(slot_.recorded(), WalPosition{});
  stream_->replication.close();
  ASSERT_TRUE(write_reported(reader_, stream_->begins_at));
  ASSERT_TRUE(eventually(
      [&] { return number(sql_, "SELECT count(*) FROM pg_replication_slots WHERE active") == 0; }));
  steps_.clear();
  open();
  EXPECT_TRUE(handover_.advance());
  EXPECT_TRUE(handover_.holds_windows()) << "they would repeat what the slot has";
  const WalPosition reported = stream_->begins_at;
  ASSERT_TRUE(eventually([&] { return step(); })) << said_;
  EXPECT_TRUE(stream_->resumes);
  EXPECT_EQ(slot_.recorded(), reported);
  EXPECT_EQ(steps_, (std::vector<std::string>{"connecting", "connected", "stream starting",
                                              "stream started"}));
}

TEST_F(HandoverTest, ASlotThatIsGivenUpLetsWindowsGoOn) {
  publish_many(sql_, 50, 10);
  open();
  Connection other = database_.connect();
  must(other, "BEGIN; SELECT pg_current_xact_id()");
  ASSERT_TRUE(until_step("slot asked for"));
  events_max_ = 10;
  publish_many(sql_, 100, 10);
  must(other, "COMMIT");
  ASSERT_TRUE(until_step("windows end"));
  EXPECT_TRUE(handover_.has_slot());
  handover_.give_up(Error{Errc::rejected, "no more"});
  EXPECT_FALSE(handover_.has_slot());
  EXPECT_TRUE(contains(said_, "no more"));
  EXPECT_TRUE(eventually([&] { return slots() == 0; }));
  publish(sql_, "k", "{}");
  EXPECT_TRUE(eventually([&] {
    (void)step();
    return read_ == 151;
  }));
  const std::size_t before = steps_.size();
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(step());
  EXPECT_EQ(steps_.size(), before) << "it is not tried again soon";
}

TEST_F(HandoverTest, WhoMayNotReplicateIsToldSoAndTheTableIsReadOn) {
  must(sql_, "CREATE ROLE plain_" + database_.name + " LOGIN");
  options_.replication_conninfo = database_.conninfo + " user=plain_" + database_.name;
  open();
  EXPECT_TRUE(eventually([&] {
    (void)step();
    return !said_.empty();
  }));
  EXPECT_TRUE(contains(said_, "REPLICATION")) << said_;
  EXPECT_FALSE(handover_.is_under_way());
  must(sql_, "DROP ROLE plain_" + database_.name);
}

TEST_F(HandoverTest, AnOpenTransactionHoldsUpTheSlotAndWindowsAreReadMeanwhile) {
  Connection other = database_.connect();
  must(other, "BEGIN; SELECT pg_current_xact_id()");
  open();
  ASSERT_TRUE(until_step("slot asked for"));
  publish(sql_, "k", "{}");
  EXPECT_TRUE(eventually([&] {
    (void)step();
    return read_ == 1;
  }));
  EXPECT_FALSE(stream_);
  must(other, "COMMIT");
  EXPECT_TRUE(eventually([&] { return step(); })) << said_;
}

TEST_F(HandoverTest, WindowsGoOnBehindEverythingThatWasStreamed) {
  open();
  ASSERT_TRUE(eventually([&] { return step(); })) << said_;
  Progress& progress = windows_.progress();
  progress.begin_stream(stream_->begins_at, std::nullopt);
  publish(sql_, "streamed", "{}");
  const auto xid = number(sql_, "SELECT max(xid::text::bigint) FROM dovetail.outbox");
  progress.add(1, static_cast<std::uint32_t>(xid));
  progress.reach(WalPosition{stream_->begins_at.value + 1});
  const Result<bool> left = handover_.leave_stream();
  ASSERT_TRUE(left && *left) << text_of(left);
  publish(sql_, "behind", "{}");
  EXPECT_TRUE(eventually([&] {
    Batch batch;
    EXPECT_TRUE(windows_.read(batch, {10, 1 << 20, 5ms}, {}));
    for (const Event& event : batch.events()) EXPECT_EQ(event.aggregate_id, "behind");
    return batch.size() == 1;
  }));
}

}  // namespace
}  // namespace dovetail::postgres
