// A database with the outbox and a WAL stream, for tests.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "host/host.h"
#include "postgres/schema/schema.h"
#include "postgres/stream/stream.h"
#include "postgres/testing/test_database.h"
#include "postgres/wal/slot.h"

namespace dovetail::postgres {

inline Replication open_replication(const std::string& conninfo) {
  Result<Replication> replication = Replication::open(conninfo);
  EXPECT_TRUE(replication) << text_of(replication);
  return replication ? std::move(*replication) : Replication();
}

// Waits until the slot is made.
inline CreatedSlot make_slot(Replication& replication, const std::string& name, bool temporary) {
  const Status asked = replication.ask_for_slot(name, temporary, false);
  EXPECT_TRUE(asked) << text_of(asked);
  CreatedSlot slot;
  EXPECT_TRUE(eventually([&] {
    Result<std::optional<CreatedSlot>> made = replication.slot_made();
    EXPECT_TRUE(made) << text_of(made);
    if (!made) return true;
    if (*made) slot = **made;
    return made->has_value();
  }));
  return slot;
}

// One event in one transaction.
inline void publish(Connection& connection, const std::string& key, const std::string& payload) {
  const Result<Rows> done = connection.query(
      "SELECT dovetail.publish('orders', $1, 'placed', $2::text, content_type => 'text/plain')",
      Params().text(key).text(payload));
  EXPECT_TRUE(done) << text_of(done);
}
// `count` events in one transaction.
inline void publish_many(Connection& connection, int count, int bytes) {
  const Result<Rows> done = connection.query(
      "SELECT count(dovetail.publish('orders', i::text, 'placed', repeat('x', $2), content_type => "
      "'text/plain')) "
      "FROM generate_series(1, $1) i",
      Params().int4(count).int4(bytes));
  EXPECT_TRUE(done) << text_of(done);
}

// A stream of the outbox through its own slot, and what was read from it.
class TestStream {
 public:
  explicit TestStream(const std::string& conninfo, WalStreamOptions options = {},
                      StreamRequest request = {}, bool temporary = true)
      : conninfo_(conninfo) {
    static std::atomic<int> count{0};
    request.slot = "test_" + std::to_string(getpid()) + "_" + std::to_string(++count);
    slot = request.slot;
    Replication replication = open_replication(conninfo);
    if (!replication) return;
    created = make_slot(replication, slot, temporary);
    start(std::move(replication), std::move(options), std::move(request));
  }
  // Continues with an existing slot.
  TestStream(const std::string& conninfo, const std::string& existing,
             Clock& clock = system_clock())
      : clock_(clock), conninfo_(conninfo) {
    slot = existing;
    StreamRequest request;
    request.slot = existing;
    Replication replication = open_replication(conninfo);
    if (replication) start(std::move(replication), {}, std::move(request));
  }

  Status read(std::size_t events_max = 1000) {
    Limits limits;
    limits.events_max = events_max;
    limits.wait_max = std::chrono::milliseconds(20);
    Batch batch;
    const Status done = stream->read(batch, limits, {});
    for (const Event& event : batch.events()) {
      keys.emplace_back(event.aggregate_id);
      payload_bytes += event.payload.size();
    }
    return done;
  }
  // The end of the last transaction may come a moment after its events.
  bool read_until(std::size_t events) {
    const bool is_there = eventually([&] {
      const Status done = read();
      EXPECT_TRUE(done) << text_of(done);
      return !done || keys.size() >= events;
    });
    if (is_there) stream->take_end();
    return is_there;
  }
  void settle(std::size_t events) {
    progress.settle(std::vector<Settled>(events, Settled::delivered));
  }
  void report() { stream->report(progress.reportable()); }
  // Reads until the stream ends, and returns why.
  Error end() {
    Status done;
    EXPECT_TRUE(eventually([&] { return !(done = read()); }));
    return done ? Error{Errc::stopped, "did not end"} : done.error();
  }

  Progress progress{true};  // declared before the stream, which counts in it
  std::unique_ptr<WalStream> stream{};
  CreatedSlot created{};
  std::string slot{};
  std::vector<std::string> keys{};
  std::size_t payload_bytes = 0;

 private:
  void start(Replication replication, WalStreamOptions options, StreamRequest request) {
    request.publication = kOutboxPublication;
    const Status started = replication.start(request);
    EXPECT_TRUE(started) << text_of(started);
    options.conninfo = conninfo_;
    if (started)
      stream = std::make_unique<WalStream>(std::move(replication), outbox_rows(), progress, clock_,
                                           std::move(options));
  }
  Clock& clock_ = system_clock();
  std::string conninfo_;
};

// With the schema.
class OutboxDatabase : public TestDatabase {
 public:
  explicit OutboxDatabase(const std::string& server = "postgres") : TestDatabase(server) {
    Connection owner = connect();
    const Status made = create_schema(owner);
    EXPECT_TRUE(made) << text_of(made);
  }
};

// One database for all tests of a suite, and a slot name for each test.
class OnOutbox : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { shared_ = std::make_unique<OutboxDatabase>(); }
  static void TearDownTestSuite() { shared_.reset(); }

  const OutboxDatabase& database = *shared_;
  Connection connection = database.connect();
  const std::string slot =
      database.name + "_" +
      std::to_string(::testing::UnitTest::GetInstance()->current_test_info()->line());

 private:
  static inline std::unique_ptr<OutboxDatabase> shared_;
};

}  // namespace dovetail::postgres
