// A transaction stays open for minutes, here or in another database of the cluster, and a prepared
// one is forgotten: other events do not wait for them, and nothing grows.
#include <gtest/gtest.h>

#include <atomic>
#include <map>

#include "kit/claims.h"
#include "postgres/schema/schema.h"
#include "postgres/testing/test_database.h"
#include "proofs/relay/running_relay.h"

namespace dovetail::postgres {
namespace {

using namespace std::chrono_literals;
using live::claim;

constexpr std::string_view kLoad = "load";

// When each event of the load was committed and sent, by its number.
class Latencies {
 public:
  explicit Latencies(std::size_t events_max) : committed_(events_max), sent_(events_max) {}

  bool full(std::size_t number) const { return number >= committed_.size(); }
  void commit(std::size_t number) { committed_[number] = now(); }
  void send(std::size_t number) { sent_[number] = now(); }
  bool is_sent(std::size_t number) const { return sent_[number] != 0; }

  // In milliseconds, for events from..to. An event sent before COMMIT returned took no time.
  std::vector<double> between(std::size_t from, std::size_t to) const {
    std::vector<double> result;
    for (std::size_t i = from; i < to; ++i)
      result.push_back(static_cast<double>(std::max<std::int64_t>(0, sent_[i] - committed_[i])) /
                       1e6);
    return result;
  }

 private:
  static std::int64_t now() {
    return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
  }
  std::vector<std::atomic<std::int64_t>> committed_;
  std::vector<std::atomic<std::int64_t>> sent_;
};

class OpenWriter : public ::testing::Test {
 protected:
  OpenWriter() {
    const Status made = create_schema(load_);
    EXPECT_TRUE(made) << text_of(made);
    LanesOptions options;
    options.conninfo = database_.conninfo;
    options.relay = "open";
    options.lanes = 2;
    relay_ = std::make_unique<live::RunningRelay>(std::move(options),
                                                  [this](Events events) { take(events); });
  }

  void take(Events events) {
    for (const Event* event : events) {
      if (event->aggregate_type == kLoad) {
        latencies_.send(static_cast<std::size_t>(event->aggregate_version));
        continue;
      }
      const std::lock_guard lock(mutex_);
      late_[std::string(event->aggregate_id)].push_back(event->aggregate_version);
    }
  }

  // Publishes about 200 times a second, waits until all is sent, and returns each event's
  // time.
  std::vector<double> load(std::chrono::milliseconds length) {
    const std::size_t first = next_;
    const auto end = std::chrono::steady_clock::now() + length;
    while (std::chrono::steady_clock::now() < end && !latencies_.full(next_)) {
      must(load_, "SELECT dovetail.publish('load', '" + std::to_string(next_ % 100) +
                      "', 'changed', '{}', aggregate_version => " + std::to_string(next_) + ")");
      latencies_.commit(next_++);
      std::this_thread::sleep_for(4ms);
    }
    for (std::size_t i = first; i < next_; ++i)
      EXPECT_TRUE(eventually([&] { return latencies_.is_sent(i); })) << "event " << i;
    return latencies_.between(first, next_);
  }

  std::vector<std::int64_t> late(const std::string& key) {
    const std::lock_guard lock(mutex_);
    return late_[key];
  }

  static void publish(Connection& connection, const std::string& key, int version) {
    must(connection, "SELECT dovetail.publish('late', '" + key +
                         "', 'changed', '{}', aggregate_version => " + std::to_string(version) +
                         ")");
  }

  TestDatabase database_;
  TestDatabase elsewhere_;
  Connection load_ = database_.connect();
  Latencies latencies_{200'000};
  std::size_t next_ = 0;
  std::mutex mutex_;
  std::map<std::string, std::vector<std::int64_t>> late_;
  std::unique_ptr<live::RunningRelay> relay_;
};

TEST_F(OpenWriter, DelaysNobodyAndItsOwnEventsComeInOrderWhenItCommits) {
  const std::chrono::milliseconds open_for = live::is_long() ? 300s : 4s;
  const std::chrono::milliseconds compare_for = live::is_long() ? 30s : 1500ms;
  load(500ms);  // warms up memory
  const std::vector<double> before = load(compare_for);

  Connection writer = database_.connect();
  must(writer, "BEGIN");
  publish(writer, "open", 1);
  Connection other = elsewhere_.connect();
  must(other, "BEGIN; SELECT pg_current_xact_id()");
  Connection forgetful = database_.connect();
  must(forgetful, "BEGIN");
  publish(forgetful, "prepared", 1);
  must(forgetful, "PREPARE TRANSACTION 'forgotten'");
  const std::int64_t memory_before = live::memory_kib("VmRSS");
  const std::vector<double> during = load(open_for);
  const std::int64_t grown = live::memory_kib("VmRSS") - memory_before;
  publish(writer, "open", 2);
  EXPECT_TRUE(late("open").empty());
  EXPECT_TRUE(late("prepared").empty());
  must(writer, "COMMIT");
  must(forgetful, "COMMIT PREPARED 'forgotten'");
  must(other, "COMMIT");
  const bool arrived =
      eventually([&] { return late("open").size() >= 2 && !late("prepared").empty(); });
  const std::vector<double> after = load(compare_for);

  const double p50 = std::max(live::quantile(before, 0.5), live::quantile(after, 0.5));
  const double p99 = std::max(live::quantile(before, 0.99), live::quantile(after, 0.99));
  const double p50_during = live::quantile(during, 0.5);
  const double p99_during = live::quantile(during, 0.99);
  // If events waited for the writers, half of them would wait for half of the time. The short form
  // asks for no more, because a busy machine changes these figures.
  const bool waited_for_none = live::is_long()
                                   ? p50_during <= 3 * p50 + 2 && p99_during <= 3 * p99 + 50
                                   : p50_during <= live::milliseconds(open_for) / 8;
  claim(waited_for_none,
        "open writer: commit to read p50 %.2f ms, p99 %.2f ms over %zu events while writers were "
        "open for %.0f s, here, in another database, and prepared; %.2f and %.2f times of without",
        p50_during, p99_during, during.size(), live::Seconds(open_for).count(), p50_during / p50,
        p99_during / p99);
  claim(grown <= 4096 || !live::kMemoryIsOurs, "open writer: memory grew by %lld KiB meanwhile",
        static_cast<long long>(grown));
  claim(arrived && late("open") == std::vector<std::int64_t>{1, 2} &&
            late("prepared") == std::vector<std::int64_t>{1},
        "open writer: its own %zu events came when it committed, in order, and that of the "
        "prepared transaction, too",
        late("open").size());
}

}  // namespace
}  // namespace dovetail::postgres
