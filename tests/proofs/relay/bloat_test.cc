// An old snapshot, such as that of a backup, keeps the server from removing dead rows. A relay must
// make few of them, and must stay fast with those that exist.
#include <gtest/gtest.h>

#include <atomic>

#include "kit/claims.h"
#include "postgres/outbox/source.h"
#include "postgres/schema/schema.h"
#include "postgres/testing/test_database.h"
#include "proofs/relay/running_relay.h"

namespace dovetail::postgres {
namespace {

using namespace std::chrono_literals;
using live::claim;

constexpr const char* kRelay = "bloat";

// Publishes in many small transactions, so that the relay sees many small windows.
void publish(const TestDatabase& database, std::uint64_t transactions, int events_each) {
  Connection connection = database.connect();
  const std::string sql =
      "INSERT INTO dovetail.outbox (aggregate_type, aggregate_id, type, payload) SELECT 'order', "
      "(random() * 1000)::int::text, 'placed', convert_to(repeat('x', 300), 'UTF8') FROM "
      "generate_series(1, " +
      std::to_string(events_each) + ")";
  for (std::uint64_t i = 0; i < transactions; ++i) must(connection, sql);
}

// Looks at the outbox like a lane, and measures the time.
class Looks {
 public:
  explicit Looks(const TestDatabase& database)
      : writer_(database.connect()), reader_{database.conninfo, kRelay} {
    EXPECT_TRUE(connect(reader_));
    catch_up();
  }

  // Moves to the end of what is published.
  void catch_up() {
    must(writer_,
         "UPDATE dovetail.relay_lane SET window_start = pg_current_snapshot(), window_end = NULL");
    const Status opened = source_.open();
    EXPECT_TRUE(opened) << text_of(opened);
  }

  // In milliseconds; `nothing` is the round trip to the server, which shows how busy the machine
  // is.
  struct Times {
    double nothing;
    double idle;
    double window;
    double progress;
  };
  Times measure() {
    std::vector<double> nothing;
    std::vector<double> idle;
    std::vector<double> window;
    std::vector<double> progress;
    for (int i = 0; i < 101; ++i) {
      must(writer_, "SELECT dovetail.publish('order', '1', 'placed', '{}')");
      Batch batch;
      const auto begin = std::chrono::steady_clock::now();
      EXPECT_TRUE(source_.read(batch, {.wait_max = 1s}, {}));
      const auto read = std::chrono::steady_clock::now();
      EXPECT_GE(batch.size(), 1u);
      const std::vector<Settled> fates(batch.size(), Settled::delivered);
      EXPECT_TRUE(source_.settle(batch, fates));
      EXPECT_TRUE(source_.flush());
      const auto settled = std::chrono::steady_clock::now();
      Batch none;
      EXPECT_TRUE(source_.read(none, {}, {}));
      const auto end = std::chrono::steady_clock::now();
      must(reader_.connection, "SELECT 1");
      nothing.push_back(live::milliseconds(std::chrono::steady_clock::now() - end));
      window.push_back(live::milliseconds(read - begin));
      progress.push_back(live::milliseconds(settled - read));
      idle.push_back(live::milliseconds(end - settled));
    }
    // Of the faster ones, which nothing else disturbed.
    const auto usual = [](const std::vector<double>& all) { return live::quantile(all, 0.2); };
    return {usual(nothing), usual(idle), usual(window), usual(progress)};
  }

 private:
  Connection writer_;
  Reader reader_;
  PostgresSource source_{reader_, system_clock()};
};

std::string dead_rows_by_table(Connection& connection, std::int64_t& sum) {
  const Result<Rows> rows = connection.query(
      "SELECT c.relname::text, (pgstattuple(c.oid)).dead_tuple_count FROM pg_class c WHERE "
      "c.relnamespace = 'dovetail'::regnamespace AND c.relkind = 'r' ORDER BY 2 DESC, 1");
  EXPECT_TRUE(rows) << text_of(rows);
  std::string words;
  sum = 0;
  for (std::size_t row = 0; rows && row < rows->size(); ++row) {
    sum += rows->int8(row, 1);
    if (rows->int8(row, 1) == 0) continue;
    words += (words.empty() ? "" : ", ") + std::string(rows->text(row, 0)) + " " +
             std::to_string(rows->int8(row, 1));
  }
  return words.empty() ? "none" : words;
}

// At most three times the start value, corrected for how busy the machine is.
bool within(double now, double start, double busy) { return now <= 3 * start * busy + 0.2; }

TEST(PostgresBloat, AnOldSnapshotNeitherPilesUpDeadRowsNorSlowsTheRelay) {
  const std::uint64_t events = live::is_long() ? 1'000'000 : 50'000;
  constexpr int kEventsEach = 10;
  constexpr std::uint64_t kWriters = 4;
  TestDatabase database;
  Connection owner = database.connect();
  ASSERT_TRUE(create_schema(owner));
  must(owner, "CREATE EXTENSION pgstattuple");
  Looks looks(database);
  const Looks::Times start = looks.measure();

  Connection old = database.connect();
  must(old, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM dovetail.relay_lane");
  std::int64_t dead_before = 0;
  dead_rows_by_table(owner, dead_before);

  std::atomic<std::uint64_t> delivered{0};
  const auto begin = std::chrono::steady_clock::now();
  double seconds = 0;
  {
    LanesOptions options;
    options.conninfo = database.conninfo;
    options.relay = kRelay;
    options.lanes = 1;
    live::RunningRelay relay(std::move(options), [&](Events sent) { delivered += sent.size(); });
    {
      std::vector<std::jthread> writers;
      for (std::uint64_t i = 0; i < kWriters; ++i)
        writers.emplace_back(
            [&] { publish(database, events / kWriters / kEventsEach, kEventsEach); });
    }
    EXPECT_TRUE(eventually([&] { return delivered >= events; })) << delivered;
    seconds = live::Seconds(std::chrono::steady_clock::now() - begin).count();
  }
  std::int64_t dead = 0;
  const std::string tables = dead_rows_by_table(owner, dead);
  dead -= dead_before;
  const auto limit = static_cast<std::int64_t>(100 + 20 * seconds);
  claim(dead <= limit && dead <= static_cast<std::int64_t>(100 + events / 100),
        "bloat: %lld dead rows (%s) after %llu events in %.0f s under an old snapshot",
        static_cast<long long>(dead), tables.c_str(), static_cast<unsigned long long>(events),
        seconds);

  looks.catch_up();
  const Looks::Times end = looks.measure();
  const double busy = std::max(1.0, end.nothing / start.nothing);
  claim(within(end.idle, start.idle, busy) && within(end.window, start.window, busy) &&
            within(end.progress, start.progress, busy),
        "bloat: a look takes %.2f ms idle, %.2f ms with an event, progress %.2f ms; at the start "
        "%.2f, %.2f, %.2f ms (SELECT 1: %.2f ms, at the start %.2f)",
        end.idle, end.window, end.progress, start.idle, start.window, start.progress, end.nothing,
        start.nothing);
}

}  // namespace
}  // namespace dovetail::postgres
