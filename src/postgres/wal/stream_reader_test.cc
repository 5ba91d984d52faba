#include "postgres/wal/stream_reader.h"

#include "postgres/testing/test_version.h"
#include "postgres/testing/test_wal.h"

namespace dovetail::postgres {
namespace {

using namespace std::chrono_literals;

class StreamReaderTest : public OnOutbox {
 protected:
  StreamReaderTest() {
    options_.replication_conninfo = database.conninfo;
    options_.safe_point_every = 1ms;
    progress_.begin({});
  }
  void begin(StreamReader& reader, bool messages = false) {
    Replication replication = open_replication(database.conninfo);
    const CreatedSlot created = make_slot(replication, slot, true);
    progress_.begin_stream(created.start, std::nullopt);
    const Status started =
        replication.start({slot, std::string(kOutboxPublication), messages, true, {}});
    ASSERT_TRUE(started) << text_of(started);
    reader.begin(std::move(replication), std::nullopt);
  }
  bool read_until(StreamReader& reader, const std::function<bool()>& holds) {
    return eventually([&] {
      Batch batch;
      const Status done = reader.read(batch, {100, 1 << 20, 1s}, 10ms, {});
      EXPECT_TRUE(done) << text_of(done);
      read_ += batch.size();
      if (!batch.empty()) last_ = batch.events().back().position;
      return holds();
    });
  }

  Progress progress_{true};
  WalSourceOptions options_;
  StreamReader reader_{progress_, system_clock(), options_, true};
  std::size_t read_ = 0;
  std::int64_t last_ = 0;
};

TEST_F(StreamReaderTest, CountsWhatItReadsAndAtWhichNumberItIs) {
  begin(reader_);
  publish_many(connection, 3, 10);
  ASSERT_TRUE(read_until(reader_, [&] { return read_ == 3; }));
  EXPECT_EQ(progress_.passed(), last_);
  EXPECT_FALSE(progress_.is_level());
  EXPECT_FALSE(reader_.end()) << "it has not lasted";
  EXPECT_FALSE(reader_);
}

TEST_F(StreamReaderTest, DoesNotTakePositionsOfAnotherTableForNumbers) {
  StreamReader other(progress_, system_clock(), options_, false);
  begin(other);
  publish(connection, "k", "{}");
  ASSERT_TRUE(read_until(other, [&] { return read_ == 1; }));
  EXPECT_EQ(progress_.passed(), 0);
}

TEST_F(StreamReaderTest, SeesWhatItHasWrittenComeOut) {
  if (is_before(connection, 14)) GTEST_SKIP() << "PostgreSQL 14 brought messages";
  bool is_seen = false;
  options_.passing = [&](std::string_view step) { is_seen |= step == "probe seen"; };
  begin(reader_, true);
  ASSERT_TRUE(reader_.send_probe(connection));
  EXPECT_TRUE(read_until(reader_, [&] {
    EXPECT_TRUE(reader_.check_probe());
    return is_seen;
  }));
}

TEST_F(StreamReaderTest, IsNotTrustedWhenWhatWasWrittenDoesNotComeOutWhileItReads) {
  options_.probe_within = 50ms;
  begin(reader_);  // without messages
  ASSERT_TRUE(reader_.send_probe(connection));
  std::this_thread::sleep_for(60ms);
  EXPECT_TRUE(reader_.check_probe()) << "nobody has read";
  Status seen;
  ASSERT_TRUE(read_until(reader_, [&] { return !(seen = reader_.check_probe()); }));
  EXPECT_TRUE(failed_with(seen, Errc::corrupt));
}

TEST_F(StreamReaderTest, LeavesBetweenTransactionsWhenItIsFarBehind) {
  options_.catch_up_events = 50;
  begin(reader_);
  const auto considers = [&] {
    std::this_thread::sleep_for(2ms);
    Batch batch;
    EXPECT_TRUE(reader_.read(batch, {100, 1 << 20, 1s}, 10ms, {}));
    EXPECT_TRUE(reader_.consider_leaving(connection));
    return reader_.can_leave();
  };
  publish(connection, "k", "{}");
  ASSERT_TRUE(read_until(reader_, [&] { return read_ == 1 && !reader_.is_inside_transaction(); }));
  EXPECT_FALSE(considers()) << "it is level";
  must(connection, "SELECT setval('dovetail.outbox_seq', currval('dovetail.outbox_seq') + 100)");
  ASSERT_TRUE(eventually(considers));
  EXPECT_GE(reader_.behind(), 100);
  reader_.stay();
  EXPECT_FALSE(reader_.can_leave());
}

TEST_F(StreamReaderTest, SaysThatTheServerHasEndedTheStream) {
  begin(reader_);
  EXPECT_TRUE(reader_.check());
  must(connection,
       "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = '" +
           slot + "'");
  EXPECT_TRUE(eventually([&] { return !reader_.check(); }));
  EXPECT_TRUE(failed_with(reader_.check(), Errc::unavailable));
}

}  // namespace
}  // namespace dovetail::postgres
