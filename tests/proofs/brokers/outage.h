// For tests with a misbehaving broker: a flow of events with a known order, a relay that runs
// beside the test, and a judge of what has arrived.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "conformance/cases.h"
#include "core/relay/relay.h"
#include "host/host.h"
#include "kit/eventually.h"
#include "kit/ids.h"
#include "memory/log.h"
#include "memory/reader.h"
#include "memory/source.h"

namespace dovetail::conformance {

using std::chrono::milliseconds;
using std::chrono::seconds;

// How the arrived events differ from the published ones.
struct Verdict {
  std::uint64_t published = 0;
  std::uint64_t lost = 0;        // never arrived
  std::uint64_t inverted = 0;    // arrived for the first time after a later one of their key
  std::uint64_t changed = 0;     // arrived with other bytes
  std::uint64_t unknown = 0;     // arrived but was never published
  std::uint64_t duplicates = 0;  // arrived again
};

// The events of a test and their order: half of them are of a few hot keys. Any thread.
class Ledger {
 public:
  static constexpr std::uint64_t kKeys = 50;
  static constexpr std::uint64_t kHotKeys = 2;
  static constexpr std::uint64_t kRun = 5;  // consecutive events of one key

  // The next event: its id and its payload, which names key and version.
  struct Entry {
    EventId id;
    std::string key;
    std::int64_t version;
    std::string payload;
  };
  Entry next() {
    const std::lock_guard lock(mutex_);
    const std::uint64_t number = count_++;
    return entry(number);
  }

  Verdict judge(const std::vector<StoredEvent>& arrived) const {
    const std::lock_guard lock(mutex_);
    Verdict verdict;
    verdict.published = count_;
    std::set<EventId> seen;
    std::map<std::string, std::int64_t> last;
    for (const StoredEvent& event : arrived) {
      const std::uint64_t number = number_of(event.id);
      if (number >= count_) {
        ++verdict.unknown;
        continue;
      }
      if (!seen.insert(event.id).second) {
        ++verdict.duplicates;
        continue;
      }
      const Entry expected = entry(number);
      if (event.payload != expected.payload || event.aggregate_id != expected.key)
        ++verdict.changed;
      std::int64_t& before = last[expected.key];
      if (expected.version < before) ++verdict.inverted;
      before = std::max(before, expected.version);
    }
    verdict.lost = count_ - seen.size();
    return verdict;
  }

 private:
  static std::uint64_t number_of(const EventId& id) {
    std::uint64_t number = 0;
    for (std::size_t i = 8; i < 16; ++i) number = (number << 8) | id.bytes[i];
    number &= 0x00ff'ffff'ffff'ffff;
    return id == numbered_id(number) && number > 0 ? number - 1 : UINT64_MAX;
  }
  static Entry entry(std::uint64_t number) {
    Entry made;
    made.id = numbered_id(number + 1);
    const std::uint64_t run = number / kRun;
    const bool is_hot = run % 2 == 0;
    const std::uint64_t keys = is_hot ? kHotKeys : kKeys;
    made.key = (is_hot ? "hot-" : "key-") + std::to_string(run / 2 % keys);
    made.version = static_cast<std::int64_t>(run / 2 / keys * kRun + number % kRun) + 1;
    made.payload = "{\"key\":\"" + made.key + "\",\"version\":" + std::to_string(made.version) +
                   ",\"fill\":\"" + std::string(60 + number % 100, 'x') + "\"}";
    return made;
  }

  mutable std::mutex mutex_;
  std::uint64_t count_ = 0;
};

// A relay on its own thread until stop() or the end of the scope. Everything in the ports must
// outlive it.
class BesideTest {
 public:
  BesideTest(Source& source, Sink& sink, MemoryReader& reader, RelayOptions options)
      : parking_(reader),
        relay_(RelayPorts{source, sink, parking_, lease_, system_clock(), metrics,
                          [this](const RelayNotice& notice) { note(notice); }},
               options),
        thread_([this](std::stop_token stop) {
          const Status ended = relay_.run(stop);
          EXPECT_TRUE(ended) << (ended ? "" : ended.error().text) << "\n" << log();
        }) {}

  // Events in flight drain first.
  void stop() {
    thread_.request_stop();
    if (thread_.joinable()) thread_.join();
  }
  // What an operator would have read.
  std::string log() const {
    const std::lock_guard lock(mutex_);
    return log_;
  }

  // Events left to an operator. Events that the relay only puts aside to make room do not
  // count.
  std::uint64_t given_up() const {
    const std::lock_guard lock(mutex_);
    return given_up_;
  }

  RelayMetrics metrics;

 private:
  void note(const RelayNotice& notice) {
    const std::lock_guard lock(mutex_);
    if (notice.kind == RelayNotice::Kind::parked) ++given_up_;
    log_ += std::string(to_string(notice.kind)) + ": " + notice.text + "\n";
  }

  mutable std::mutex mutex_;
  std::string log_;
  std::uint64_t given_up_ = 0;
  NoLease lease_;
  MemoryParking parking_;
  Relay relay_;
  std::jthread thread_;  // last: it ends before the other members
};

// Comes back fast, so that a test sees many outages; impatient if it says so.
inline RelayOptions outage_options(Duration confirm_timeout = seconds(30)) {
  RelayOptions options;
  options.confirm_timeout = confirm_timeout;
  options.connect_retry = RetryPolicy{milliseconds(10), milliseconds(200)};
  options.key_retry = RetryPolicy{milliseconds(10), milliseconds(200)};
  options.batch_events_max = 200;
  options.window_events_max = 2000;
  options.idle_wait = milliseconds(20);
  options.progress_interval = milliseconds(20);
  return options;
}

// Publishes events at a steady pace on its own threads, with a relay that carries them into a
// sink. The pace is slow, so no sink catches up with a fault; it pauses when the backlog is too
// long.
class Flow {
 public:
  Flow(std::unique_ptr<Sink> sink, RelayOptions options)
      : sink_(std::move(sink)),
        relay_(std::make_unique<BesideTest>(source_, *sink_, reader_, options)),
        publisher_([this](std::stop_token stop) { publish(stop); }) {}

  // Waits until that many more are delivered: the relay has recovered.
  bool goes_on(std::int64_t events = 100) {
    const std::int64_t from = reader_.settled();
    return eventually([&] { return reader_.settled() >= from + events; });
  }
  // Stops publishing and waits until everything is settled. False: that never happened.
  bool finish() {
    publisher_.request_stop();
    publisher_.join();
    const bool all = eventually(
        [&] { return reader_.settled() == log_.last_position() && waiting_in_parking() == 0; });
    relay_->stop();
    return all;
  }

  Ledger ledger;
  const BesideTest& relay() const { return *relay_; }
  // At the end, or in between.
  std::uint64_t parked() const { return reader_.parked().size() + relay_->given_up(); }

 private:
  static constexpr std::int64_t kBacklogMax = 3000;

  // Events behind a given-up event wait forever.
  std::int64_t waiting_in_parking() const {
    if (relay_->given_up() > 0) return 0;
    const std::vector<ParkedEvent> parked = reader_.parked();
    return std::count_if(parked.begin(), parked.end(),
                         [](const ParkedEvent& one) { return one.state == ParkState::waiting; });
  }
  void publish(std::stop_token stop) {
    while (!stop.stop_requested()) {
      if (log_.last_position() - reader_.settled() < kBacklogMax)
        for (int i = 0; i < 10; ++i) publish_one();
      std::this_thread::sleep_for(milliseconds(5));
    }
  }
  void publish_one() {
    const Ledger::Entry entry = ledger.next();
    NewEvent event;
    event.aggregate_type = "order";
    event.aggregate_id = entry.key;
    event.type = "changed";
    event.payload = entry.payload;
    event.topic = "orders";
    event.aggregate_version = entry.version;
    event.id = entry.id;
    const Result<std::int64_t> published = log_.publish(event, system_clock().wall());
    ASSERT_TRUE(published) << published.error().text;
  }

  MemoryLog log_;
  MemoryReader reader_;
  MemorySource source_{log_, reader_};
  std::unique_ptr<Sink> sink_;
  std::unique_ptr<BesideTest> relay_;
  std::jthread publisher_;
};

}  // namespace dovetail::conformance
