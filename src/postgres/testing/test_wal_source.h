// A source over the WAL and the table, driven by tests, and what it has read.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "host/host.h"
#include "postgres/outbox/source.h"
#include "postgres/schema/schema.h"
#include "postgres/testing/test_database.h"
#include "postgres/wal/source.h"

namespace dovetail::postgres {

using Payloads = std::vector<std::string>;

inline WalSourceOptions quick_wal(ReadMode mode) {
  WalSourceOptions options;
  options.reading.mode = mode;
  options.safe_point_every = std::chrono::milliseconds(10);
  options.retry_every = std::chrono::milliseconds(500);
  return options;
}

// One relay's reading, from its start to its death. One thread.
class WalReading {
 public:
  explicit WalReading(const TestDatabase& database, WalSourceOptions options,
                      const std::string& relay = "test", Clock& clock = system_clock()) {
    reader.conninfo = database.conninfo;
    reader.relay = relay;
    options.changed = [this](bool streams, std::string_view why) {
      changes.push_back((streams ? "log: " : "table: ") + std::string(why));
      on_change();
    };
    windows = std::make_unique<PostgresSource>(reader, clock);
    source = std::make_unique<WalSource>(reader, *windows, clock, metrics, std::move(options));
    opened = source->open();
  }

  // One read; its events are settled at once unless `settles` is off.
  Status step(std::size_t events_max = 1000) {
    DOVETAIL_TRY(source->keep_alive());
    auto batch = std::make_unique<Batch>();
    DOVETAIL_TRY(
        source->read(*batch, Limits{events_max, 1 << 20, std::chrono::milliseconds(5)}, {}));
    for (const Event& event : batch->events()) {
      payloads.emplace_back(event.payload);
      ++counts[std::string(event.payload)];
    }
    if (batch->empty()) return {};
    unsettled.push_back(std::move(batch));
    return settles ? settle() : Status{};
  }
  Status settle() {
    for (const auto& batch : unsettled)
      DOVETAIL_TRY(source->settle(*batch, std::vector<Settled>(batch->size(), Settled::delivered)));
    unsettled.clear();
    return source->flush();
  }
  bool streams() const { return metrics.streams == 1; }
  std::size_t repeated() const {
    std::size_t more = 0;
    for (const auto& [payload, count] : counts) more += count - 1;
    return more;
  }
  std::string told() const {
    std::string all;
    for (const std::string& change : changes) all += change + "\n";
    return all;
  }
  // Steps until it holds.
  bool until(const std::function<bool()>& holds, std::size_t events_max = 1000) {
    return eventually([&] {
             if (holds()) return true;
             const Status done = step(events_max);
             EXPECT_TRUE(done) << text_of(done) << "\n" << told();
             return !done || holds();
           }) &&
           holds();
  }
  bool until_streaming() {
    return until([&] { return streams(); });
  }
  // Steps until an error comes, and returns it.
  Status until_lost() {
    Status last;
    EXPECT_TRUE(eventually([&] { return !(last = step()); })) << told();
    return last;
  }

  Reader reader;
  RelayMetrics metrics;
  std::unique_ptr<PostgresSource> windows;
  std::unique_ptr<WalSource> source;
  Status opened{};
  Payloads payloads;
  std::map<std::string, std::size_t> counts;
  std::vector<std::string> changes;
  std::function<void()> on_change = [] {};
  std::vector<std::unique_ptr<Batch>> unsettled;
  bool settles = true;
};

}  // namespace dovetail::postgres
