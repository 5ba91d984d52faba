// Old partitions are dropped while services publish, and no service waits for that.
#include <gtest/gtest.h>

#include <atomic>

#include "kit/claims.h"
#include "postgres/operate/maintenance.h"
#include "postgres/schema/schema.h"
#include "postgres/testing/test_database.h"

namespace dovetail::postgres {
namespace {

using namespace std::chrono_literals;
using live::claim;

class Retention : public ::testing::Test {
 protected:
  static constexpr int kWriters = 8;

  Retention() {
    const Status made = create_schema(owner_);
    EXPECT_TRUE(made) << text_of(made);
    EXPECT_TRUE(maintain(database_.conninfo, {}));
  }

  // Partitions of old days, which a relay has passed.
  void make_old(int partitions, int events_each) {
    owner_.set_timeout(600s);
    must(owner_, "DO $$ DECLARE day timestamptz; low text; high text; BEGIN FOR i IN 20.." +
                     std::to_string(19 + partitions) +
                     " LOOP day := date_trunc('day', now() - make_interval(days => i)); "
                     "low := lpad(to_hex((extract(epoch FROM day) * 1000)::bigint), 12, '0'); "
                     "high := lpad(to_hex((extract(epoch FROM day + interval '1 day') * "
                     "1000)::bigint), 12, '0'); EXECUTE format('CREATE TABLE dovetail.outbox_old%s "
                     "PARTITION OF dovetail.outbox FOR VALUES FROM (%L) TO (%L)', i, rpad(low, 32, "
                     "'0'), rpad(high, 32, '0')); INSERT INTO dovetail.outbox (id, aggregate_type, "
                     "aggregate_id, type, payload) SELECT (low || "
                     "right(replace(gen_random_uuid()::text, '-', ''), 20))::uuid, 'order', "
                     "n::text, 'placed', convert_to(repeat('x', 300), 'UTF8') FROM "
                     "generate_series(1, " +
                     std::to_string(events_each) + ") AS n; END LOOP; END $$");
    must(owner_,
         "INSERT INTO dovetail.relay_lane (relay, lane, lanes, window_start, system_identifier) "
         "SELECT "
         "'relay',"
         " 0, 1, pg_current_snapshot(), system_identifier FROM pg_control_system()");
  }

  // Runs `work` while services publish; returns how long each publish took, in milliseconds.
  std::vector<double> while_publishing(std::chrono::microseconds hold,
                                       const std::function<void()>& work) {
    std::mutex mutex;
    std::vector<double> taken;
    std::atomic<int> ready{0};
    std::vector<std::jthread> writers;
    for (int i = 0; i < kWriters; ++i)
      writers.emplace_back([&, i](std::stop_token stop) {
        Random random(static_cast<std::uint64_t>(i));
        Connection connection = database_.connect();
        std::vector<double> own;
        while (!stop.stop_requested()) {
          must(connection, "BEGIN");
          const auto begin = std::chrono::steady_clock::now();
          must(connection, "SELECT dovetail.publish('order', '1', 'placed', '{}')");
          own.push_back(live::milliseconds(std::chrono::steady_clock::now() - begin));
          if (own.size() == 1) ++ready;
          std::this_thread::sleep_for(hold * (50 + random.below(51)) / 100);
          must(connection, "COMMIT");
        }
        const std::lock_guard lock(mutex);
        taken.insert(taken.end(), own.begin(), own.end());
      });
    EXPECT_TRUE(eventually([&] { return ready == kWriters; }));
    work();
    writers.clear();
    return taken;
  }

  std::int64_t old_rows() {
    return number(owner_,
                  "SELECT count(*) FROM dovetail.outbox WHERE tableoid::regclass::text LIKE "
                  "'%outbox_old%'");
  }

  TestDatabase database_;
  Connection owner_ = database_.connect();
};

TEST_F(Retention, NobodyWaitsLongWhilePartitionsAreDropped) {
  const int partitions = live::is_long() ? 60 : 6;
  make_old(partitions, live::is_long() ? 20'000 : 5000);
  const std::vector<double> without =
      while_publishing(1ms, [] { std::this_thread::sleep_for(1500ms); });
  std::size_t dropped = 0;
  int calls = 0;
  const std::vector<double> with = while_publishing(1ms, [&] {
    while (dropped < static_cast<std::size_t>(partitions) && calls < 100) {
      const Result<MaintenanceReport> report = maintain(database_.conninfo, {});
      ASSERT_TRUE(report) << text_of(report);
      dropped += report->dropped.size();
      ++calls;
    }
  });
  const double longest = live::quantile(with, 1);
  claim(dropped == static_cast<std::size_t>(partitions) &&
            longest <= 250 + 2 * live::quantile(without, 1),
        "retention: %zu partitions dropped in %d calls while %d services published; the longest "
        "publish took %.1f ms, p99 %.1f ms; without %.1f and %.1f ms",
        dropped, calls, kWriters, longest, live::quantile(with, 0.99), live::quantile(without, 1),
        live::quantile(without, 0.99));
}

TEST_F(Retention, RoomIsMadeAlsoWhileSomebodyAlwaysHasATransactionOpen) {
  const int partitions = live::is_long() ? 30 : 4;
  make_old(partitions, 2000);
  double seconds = 0;
  const std::vector<double> with = while_publishing(1s, [&] {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < 3; ++i) {
      const Result<MaintenanceReport> report = maintain(database_.conninfo, {});
      EXPECT_TRUE(report) << text_of(report);
    }
    seconds = live::Seconds(std::chrono::steady_clock::now() - begin).count();
  });
  const double longest = live::quantile(with, 1);
  claim(old_rows() == 0 && longest <= 250,
        "retention: %d partitions emptied, 3 calls in %.1f s, while %d services held transactions "
        "open for "
        "up to 1 s; the longest publish took %.1f ms, %lld old events left",
        partitions, seconds, kWriters, longest, static_cast<long long>(old_rows()));
}

}  // namespace
}  // namespace dovetail::postgres
