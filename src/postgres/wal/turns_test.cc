// Windows and the WAL take turns all the time, with writers of every kind: nothing is lost, nothing
// comes twice, and each key keeps its order.
#include <mutex>
#include <random>

#include "postgres/testing/test_wal_source.h"

namespace dovetail::postgres {
namespace {

using namespace std::chrono_literals;

// What was committed, in order for each key.
struct Committed {
  std::mutex mutex;
  std::size_t count = 0;
  std::atomic<bool> stops{false};
};

// One key, so its order is the commit order.
void write(const TestDatabase& database, int key, Committed& committed) {
  Connection connection = database.connect();
  must(connection, "SET synchronous_commit = off");
  std::mt19937 random(static_cast<unsigned>(key));
  const std::string name = "k" + std::to_string(key);
  int next = 0;
  const auto insert = [&](int value) {
    must(connection, "SELECT dovetail.publish('order', '" + name + "', 'placed', '" + name + " " +
                         std::to_string(value) + "', content_type => 'text/plain')");
  };
  while (!committed.stops) {
    const int events = 1 + static_cast<int>(random() % 5);
    const auto kind = random() % 6;
    must(connection, "BEGIN");
    for (int i = 0; i < events; ++i) insert(next + i);
    if (kind == 0) std::this_thread::sleep_for(std::chrono::milliseconds(random() % 40));
    if (kind == 1) {
      must(connection, "SAVEPOINT s");
      insert(-1);
      must(connection, "ROLLBACK TO s");
    }
    if (kind == 2) {
      must(connection, "ROLLBACK");
      continue;
    }
    if (kind == 3) {
      const std::string prepared = "'" + database.name + name + "'";
      must(connection, "PREPARE TRANSACTION " + prepared);
      std::this_thread::sleep_for(std::chrono::milliseconds(random() % 10));
      must(connection, "COMMIT PREPARED " + prepared);
    } else {
      must(connection, "COMMIT");
    }
    next += events;
    const std::lock_guard lock(committed.mutex);
    committed.count += static_cast<std::size_t>(events);
  }
}

TEST(WalTurns, NothingIsLostOrRepeatedOrInverted) {
  TestDatabase database;
  Connection connection = database.connect();
  ASSERT_TRUE(create_schema(connection));
  WalSourceOptions options = quick_wal(ReadMode::automatic);
  options.catch_up_events = 1;  // every delay is reason enough
  options.safe_point_every = 1ms;
  options.retry_every = 5ms;
  WalReading reading(database, options);
  Committed committed;
  {
    std::vector<std::jthread> writers;
    for (int key = 0; key < 4; ++key)
      writers.emplace_back([&database, key, &committed] { write(database, key, committed); });
    std::mt19937 random(1);
    EXPECT_TRUE(reading.until([&] {
      // Sometimes nobody reads for a while, as with a slow sink.
      if (random() % 50 == 0) std::this_thread::sleep_for(20ms);
      reading.settles = random() % 4 == 0;
      return reading.metrics.stream_ends >= 12 && reading.metrics.streams == 1;
    })) << reading.told();
    committed.stops = true;
  }
  reading.settles = true;
  EXPECT_TRUE(reading.until([&] { return reading.payloads.size() >= committed.count; }));
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(reading.step());
  EXPECT_EQ(reading.payloads.size(), committed.count);
  EXPECT_EQ(reading.counts.size(), committed.count);
  std::map<std::string, int> last;
  std::size_t inverted = 0;
  for (const std::string& payload : reading.payloads) {
    const std::size_t space = payload.find(' ');
    const int value = std::stoi(payload.substr(space + 1));
    int& next = last[payload.substr(0, space)];
    if (value != next) ++inverted;
    next = value + 1;
  }
  EXPECT_EQ(inverted, 0U);
  std::printf("%zu events, %lu changes to the log and %lu away from it\n", committed.count,
              reading.metrics.stream_starts.load(), reading.metrics.stream_ends.load());
}

}  // namespace
}  // namespace dovetail::postgres
