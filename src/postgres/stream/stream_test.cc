#include "postgres/stream/stream.h"

#include "postgres/testing/test_version.h"
#include "postgres/testing/test_wal.h"
#include "servers/standstill.h"

namespace dovetail::postgres {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

class WalStreamTest : public OnOutbox {
 protected:
  WalPosition confirmed(const std::string& name) {
    const auto found = find_slot(connection, name);
    EXPECT_TRUE(found && *found) << text_of(found);
    return found && *found ? (*found)->confirmed : WalPosition{};
  }
};

TEST_F(WalStreamTest, BringsEveryEventInTheOrderOfCommits) {
  TestStream test(database.conninfo);
  for (int i = 0; i < 100; ++i) publish(connection, std::to_string(i), "{}");
  ASSERT_TRUE(test.read_until(100));
  ASSERT_EQ(test.keys.size(), 100U);
  for (std::size_t i = 0; i < 100; ++i) EXPECT_EQ(test.keys[i], std::to_string(i));
}

TEST_F(WalStreamTest, BringsTheSameWhenValuesComeAsText) {
  StreamRequest request;
  request.binary = false;
  TestStream as_text(database.conninfo, {}, request);
  TestStream as_binary(database.conninfo);
  publish(connection, "caf\xc3\xa9 'x' \\", "{\"a\":\"\\u00e9\\\\x\"}");
  for (TestStream* test : {&as_text, &as_binary}) {
    Limits limits;
    limits.wait_max = seconds(30);
    Batch batch;
    ASSERT_TRUE(test->stream->read(batch, limits, {}));
    ASSERT_EQ(batch.size(), 1U);
    const Event& event = batch.events()[0];
    EXPECT_EQ(event.aggregate_id, "caf\xc3\xa9 'x' \\");
    EXPECT_EQ(event.payload, "{\"a\":\"\\u00e9\\\\x\"}");
    EXPECT_EQ(event.content_type, "text/plain");
    EXPECT_EQ(event.defect, "");
    EXPECT_EQ(event.position, number(connection, "SELECT max(seq) FROM dovetail.outbox"));
  }
}

TEST_F(WalStreamTest, LeavesOutWhatASnapshotShowsAndNothingElse) {
  TestStream test(database.conninfo);
  Connection late = database.connect();
  must(late, "BEGIN; SELECT dovetail.publish('orders', 'late', 'placed', '{}'::text)");
  publish(connection, "shown", "{}");
  const Result<Snapshot> shown =
      Snapshot::parse(text(connection, "SELECT pg_current_snapshot()::text"));
  ASSERT_TRUE(shown) << text_of(shown);
  test.stream->leave_out(*shown);
  must(late, "COMMIT");
  publish(connection, "behind", "{}");
  ASSERT_TRUE(test.read_until(2));
  EXPECT_EQ(test.keys, (std::vector<std::string>{"late", "behind"}));
  test.stream->leave_out(std::nullopt);
}

TEST_F(WalStreamTest, ReadsALargeTransactionInPiecesAndThroughASmallBuffer) {
  WalStreamOptions options;
  options.buffer_bytes_max = 256 << 10;
  TestStream test(database.conninfo, options);
  publish_many(connection, 20'000, 300);
  Limits limits;
  limits.events_max = 700;
  limits.bytes_max = 100'000;
  limits.wait_max = seconds(30);
  std::size_t events = 0;
  std::optional<WalPosition> before;
  while (events < 20'000) {
    Batch batch;
    const Status done = test.stream->read(batch, limits, {});
    ASSERT_TRUE(done) << text_of(done);
    ASSERT_FALSE(batch.empty());
    EXPECT_LE(batch.bytes(), limits.bytes_max);
    EXPECT_LE(batch.size(), limits.events_max);
    for (const Event& event : batch.events())
      ASSERT_EQ(event.aggregate_id, std::to_string(++events));
    // Only its end completes it, which may come a moment later.
    EXPECT_TRUE(eventually([&] {
      if (events == 20'000) test.stream->take_end();
      return test.stream->is_inside_transaction() == (events < 20'000);
    }));
    test.settle(batch.size());
    if (!before) before = test.progress.wal_settled_to();
    EXPECT_EQ(test.progress.wal_settled_to() == *before, events < 20'000);
  }
  EXPECT_EQ(test.progress.wal_settled_to(), test.stream->position());
}

TEST_F(WalStreamTest, AnEventLargerThanEverythingIsReadAlone) {
  WalStreamOptions options;
  options.buffer_bytes_max = 64 << 10;
  TestStream test(database.conninfo, options);
  publish(connection, "small", "{}");
  publish_many(connection, 2, 1'000'000);
  publish(connection, "behind", "{}");
  ASSERT_TRUE(eventually([&] {
    Limits limits;
    limits.bytes_max = 1000;
    limits.wait_max = milliseconds(20);
    Batch batch;
    EXPECT_TRUE(test.stream->read(batch, limits, {}));
    for (const Event& event : batch.events()) test.keys.emplace_back(event.aggregate_id);
    EXPECT_LE(batch.size(), 1U);
    return test.keys.size() == 4;
  }));
  EXPECT_EQ(test.keys, (std::vector<std::string>{"small", "1", "2", "behind"}));
}

TEST_F(WalStreamTest, ConfirmsATransactionWhenAllOfItIsSettledAndTellsTheServerWhatIsReported) {
  TestStream test(database.conninfo);
  publish_many(connection, 3, 10);
  ASSERT_TRUE(test.read_until(3));
  const WalPosition start = test.progress.wal_settled_to();
  EXPECT_LT(start, test.stream->position());
  test.settle(2);
  EXPECT_EQ(test.progress.wal_settled_to(), start);
  EXPECT_EQ(confirmed(test.slot), test.created.start) << "nothing was reported";
  test.settle(1);
  const WalPosition whole = test.progress.wal_settled_to();
  EXPECT_EQ(whole, test.stream->position());
  test.stream->report(whole);
  EXPECT_EQ(test.stream->reported(), whole);
  EXPECT_TRUE(eventually([&] { return confirmed(test.slot) >= whole; }));
}

TEST_F(WalStreamTest, GoesOnBehindWhatWasReportedAndBringsTheRestAgain) {
  std::string name;
  {
    TestStream test(database.conninfo, {}, {}, false);
    name = test.slot;
    for (const char* key : {"a", "b", "c"}) publish(connection, key, "{}");
    ASSERT_TRUE(test.read_until(3));
    test.settle(2);
    test.report();
    // Leaving sends it. A server with more to send does not read any more.
    test.stream->take_end();
  }
  ASSERT_TRUE(eventually([&] { return !(*find_slot(connection, name))->active; }));
  TestStream again(database.conninfo, name);
  ASSERT_TRUE(again.read_until(1));
  EXPECT_EQ(again.keys, std::vector<std::string>{"c"});
}

TEST_F(WalStreamTest, MovesOnWithTheLogWhileTheOutboxIsIdle) {
  TestStream test(database.conninfo);
  must(connection, "CREATE TABLE noise AS SELECT repeat('x', 1000) FROM generate_series(1, 3000)");
  const Result<WalPosition> written =
      parse_wal_position(text(connection, "SELECT pg_current_wal_lsn()::text"));
  EXPECT_TRUE(eventually([&] {
    EXPECT_TRUE(test.read());
    test.report();
    return test.stream->position() >= *written && confirmed(test.slot) >= *written;
  }));
  EXPECT_TRUE(test.keys.empty());
}

TEST_F(WalStreamTest, TellsWhetherTheReaderKeepsUp) {
  TestStream test(database.conninfo);
  publish_many(connection, 100, 10);
  const Result<WalPosition> written =
      parse_wal_position(text(connection, "SELECT pg_current_wal_lsn()::text"));
  ASSERT_TRUE(eventually([&] { return test.stream->server_end() >= *written; }));
  (void)test.stream->was_drained();
  Batch batch;
  Limits limits;
  limits.events_max = 10;
  limits.wait_max = seconds(30);
  ASSERT_TRUE(test.stream->read(batch, limits, {}));
  EXPECT_FALSE(test.stream->was_drained());
  ASSERT_TRUE(test.read_until(90));
  ASSERT_TRUE(test.read());
  EXPECT_TRUE(test.stream->was_drained());
  EXPECT_FALSE(test.stream->was_drained()) << "asked again";
}

TEST_F(WalStreamTest, BringsTheProbe) {
  if (is_before(connection, 14)) GTEST_SKIP() << "PostgreSQL 14 brought messages";
  StreamRequest request;
  request.messages = true;
  TestStream test(database.conninfo, {}, request);
  EXPECT_EQ(test.stream->last_probe(), "");
  must(connection, "SELECT pg_logical_emit_message(false, 'dovetail.probe', 'here')");
  EXPECT_TRUE(eventually([&] {
    EXPECT_TRUE(test.read());
    return test.stream->last_probe() == "here";
  }));
}

TEST_F(WalStreamTest, AReaderThatWaitsIsStoppedAtOnce) {
  TestStream test(database.conninfo);
  std::stop_source stop;
  const std::jthread stopper([&] { stop.request_stop(); });
  Batch batch;
  Limits limits;
  limits.wait_max = seconds(60);
  const auto before = steady_clock::now();
  EXPECT_TRUE(test.stream->read(batch, limits, stop.get_token()));
  EXPECT_LT(steady_clock::now() - before, seconds(30));
}

TEST_F(WalStreamTest, AReaderThatWaitsIsWokenByEachEvent) {
  constexpr int kEvents = 50;
  TestStream test(database.conninfo);
  std::atomic<int> read{0};
  const std::jthread writer([&] {
    for (int i = 0; i < kEvents; ++i) {
      publish(connection, std::to_string(i), "{}");
      if (!eventually([&] { return read > i; })) return;
    }
  });
  const auto before = steady_clock::now();
  while (read < kEvents) {
    Batch batch;
    Limits limits;
    limits.wait_max = seconds(40);
    ASSERT_TRUE(test.stream->read(batch, limits, {}));
    read += static_cast<int>(batch.size());
    ASSERT_LT(steady_clock::now() - before, seconds(30));
  }
}

TEST_F(WalStreamTest, StaysAliveWhileNobodyReads) {
  const servers::Standstill standstill;
  // With a full buffer, and with one that is not full.
  WalStreamOptions full;
  full.buffer_bytes_max = 128 << 10;
  full.status_every = milliseconds(200);
  const std::string impatient = database.conninfo + " options='-c wal_sender_timeout=3000'";
  TestStream stuck(impatient, full);
  WalStreamOptions roomy;
  roomy.status_every = milliseconds(200);
  TestStream idle(impatient, roomy);
  publish_many(connection, 10'000, 300);
  must(connection, "SELECT pg_sleep(4.5)");
  if (!standstill.is_below(seconds(1))) GTEST_SKIP() << "the server may have lost its patience";
  for (TestStream* test : {&stuck, &idle}) {
    EXPECT_EQ(text_of(test->stream->check()), "ok");
    ASSERT_TRUE(test->read_until(10'000));
  }
}

TEST_F(WalStreamTest, EndsWithTheReasonWhenTheServerEndsItAndLosesNothingOfWhatCame) {
  TestStream test(database.conninfo);
  publish(connection, "last", "{}");
  const Result<WalPosition> written =
      parse_wal_position(text(connection, "SELECT pg_current_wal_lsn()::text"));
  ASSERT_TRUE(eventually([&] { return test.stream->server_end() >= *written; }));
  must(connection,
       "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE "
       "slot_name = '" +
           test.slot + "'");
  const Error why = test.end();
  EXPECT_EQ(test.keys, std::vector<std::string>{"last"});
  EXPECT_EQ(why.code, Errc::unavailable);
  EXPECT_TRUE(contains(why.text, "57P01")) << why.text;
  EXPECT_EQ(text_of(test.stream->check()), why.text);
  EXPECT_EQ(text_of(test.read()), why.text) << "and again";
}

}  // namespace
}  // namespace dovetail::postgres
