// A relay over memory, for tests.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/event/event_id.h"
#include "core/life/receipt.h"
#include "core/relay/relay.h"
#include "host/host.h"
#include "kit/eventually.h"
#include "kit/ids.h"
#include "memory/log.h"
#include "memory/reader.h"
#include "memory/sink.h"
#include "memory/source.h"

namespace dovetail {

using namespace std::chrono_literals;

// Counts writes of progress, keeps what the relay notes, and marks events that a test chooses as
// defective.
class CountingSource final : public Source {
 public:
  explicit CountingSource(Source& inner) : inner_(inner) {}
  Status open() override { return inner_.open(); }
  Status read(Batch& out, const Limits& limits, std::stop_token stop) override {
    const Status status = inner_.read(out, limits, stop);
    for (Event& event : out.events()) event.defect = defect_of(event);
    return status;
  }
  Status settle(const Batch& batch, std::span<const Settled> fates) override {
    return inner_.settle(batch, fates);
  }
  Status flush() override {
    ++flushes;
    return inner_.flush();
  }
  Receipt* receipt() override { return &noted; }
  std::atomic<int> flushes{0};
  Receipt noted{};  // of all sessions; read it after stop()
  std::function<std::string_view(const Event&)> defect_of = [](const Event&) {
    return std::string_view{};
  };

 private:
  Source& inner_;
};

// Shows what is parked.
class ShownParking final : public Parking {
 public:
  explicit ShownParking(Parking& inner) : inner_(inner) {}
  Status open() override { return inner_.open(); }
  Status blocked_keys(std::vector<OrderKey>& out, std::size_t keys_max) override {
    return inner_.blocked_keys(out, keys_max);
  }
  Status blocked_among(std::span<const OrderKey> keys, std::vector<OrderKey>& out) override {
    return inner_.blocked_among(keys, out);
  }
  Status park(std::span<const ParkRequest> requests) override {
    if (show) show(requests);
    return inner_.park(requests);
  }
  Status take_due(Batch& out, std::vector<std::uint32_t>& attempts, const Limits& limits) override {
    return inner_.take_due(out, attempts, limits);
  }
  Status delivered(std::span<const EventId> ids) override { return inner_.delivered(ids); }
  std::function<void(std::span<const ParkRequest>)> show;

 private:
  Parking& inner_;
};

// One relay over memory, in a thread of its own.
class RelayTest : public testing::Test {
 protected:
  RelayTest() {
    options_.key_retry = {Duration(1ms), Duration(5ms)};
    options_.connect_retry = {Duration(1ms), Duration(5ms)};
    options_.replay_poll = 5ms;
    options_.idle_wait = 20ms;
  }
  ~RelayTest() override { stop(); }

  void publish(std::string_view key, int count = 1) {
    for (int i = 0; i < count; ++i) {
      NewEvent event;
      event.aggregate_type = "order";
      event.aggregate_id = key;
      event.type = "Changed";
      const std::string payload = std::to_string(++version_[std::string(key)]);
      event.payload = payload;
      event.id = numbered_id(++published_);
      ASSERT_TRUE(log_.publish(event, clock_.wall()).has_value());
    }
  }

  void start(Sink& sink) {
    lease_.emplace(reader_, "relay", lease_term_, clock_);
    source_.emplace(log_, reader_, &*lease_);
    counted_.emplace(*source_);
    if (defect_of_) counted_->defect_of = defect_of_;
    parking_.emplace(reader_, &*lease_);
    shown_parking_.emplace(*parking_);
    shown_parking_->show = show_parked_;
    relay_.emplace(
        RelayPorts{.source = *counted_,
                   .sink = sink,
                   .parking = *shown_parking_,
                   .lease = *lease_,
                   .clock = clock_,
                   .metrics = metrics_,
                   .notify =
                       [this](const RelayNotice& notice) {
                         const std::lock_guard lock(notices_mutex_);
                         notices_[notice.kind]++;
                       },
                   .report = [this](const RelayState& state) { states_.push_back(state); }},
        options_);
    thread_ = std::jthread([this](std::stop_token token) { result_ = relay_->run(token); });
  }
  void stop() {
    if (!thread_.joinable()) return;
    thread_.request_stop();
    thread_.join();
  }

  int notices_of(RelayNotice::Kind kind) {
    const std::lock_guard lock(notices_mutex_);
    return notices_[kind];
  }

  // The first arrivals of every key are in the order of its versions, without gaps.
  static void expect_ordered(const std::vector<StoredEvent>& received) {
    std::map<std::string, int> last;
    for (const StoredEvent& stored : received) {
      const Event event = stored.view();
      const int version = std::stoi(std::string(event.payload));
      int& seen = last[std::string(event.aggregate_id)];
      if (version <= seen) continue;
      EXPECT_EQ(version, seen + 1) << "key " << event.aggregate_id;
      seen = version;
    }
  }

  SystemClock clock_;
  MemoryLog log_;
  MemoryReader reader_;
  Duration lease_term_ = 10s;
  RelayOptions options_;
  RelayMetrics metrics_;
  std::mutex notices_mutex_;
  std::map<RelayNotice::Kind, int> notices_;  // while the relay runs, use notices_of()
  std::vector<RelayState> states_;            // as reported; read it after stop()
  std::map<std::string, int> version_;
  int published_ = 0;
  std::function<std::string_view(const Event&)> defect_of_;  // set before start()
  std::optional<MemoryLease> lease_;
  std::optional<MemorySource> source_;
  std::optional<CountingSource> counted_;
  std::optional<MemoryParking> parking_;
  std::optional<ShownParking> shown_parking_;
  std::function<void(std::span<const ParkRequest>)> show_parked_;
  std::optional<Relay> relay_;
  Status result_;
  std::jthread thread_;
};

}  // namespace dovetail
