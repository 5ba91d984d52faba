// What a relay does with its lease when a session fails, and what it reports when it loses it.
#include <mutex>

#include "core/testing/test_relay.h"

namespace dovetail {
namespace {

class AwaySource final : public Source {
 public:
  Status open() override {
    ++opens;
    return fail(Errc::unavailable, "the source is away");
  }
  Status read(Batch&, const Limits&, std::stop_token) override { return {}; }
  Status settle(const Batch&, std::span<const Settled>) override { return {}; }
  Status flush() override { return {}; }
  std::atomic<int> opens{0};
};

class RelayLeaseTest : public RelayTest {
 protected:
  void run_until(Source& source, Sink& sink, const std::function<bool()>& holds) {
    Relay relay(RelayPorts{.source = source,
                           .sink = sink,
                           .parking = parking_at_,
                           .lease = lease_at_,
                           .clock = clock_,
                           .metrics = metrics_,
                           .notify =
                               [this](const RelayNotice& notice) {
                                 const std::lock_guard lock(mutex_);
                                 said_ += notice.text + "\n";
                               }},
                options_);
    std::jthread thread([&](std::stop_token stop) { result_ = relay.run(stop); });
    EXPECT_TRUE(eventually(holds));
  }
  std::string said() {
    const std::lock_guard lock(mutex_);
    return said_;
  }

  MemoryLease lease_at_{reader_, "relay", 1h, clock_};
  MemoryParking parking_at_{reader_, &lease_at_};
  std::mutex mutex_;
  std::string said_;
};

TEST_F(RelayLeaseTest, ARelayThatStopsOutsideOfASessionLeavesNoLeaseBehind) {
  AwaySource source;
  MemorySink sink;
  run_until(source, sink, [&] { return source.opens > 0; });
  MemoryLease next(reader_, "next", 1h, clock_);
  EXPECT_TRUE(next.acquire());
}

TEST_F(RelayLeaseTest, WhoHasReleasedHisLeaseWritesNothingMore) {
  ASSERT_TRUE(lease_at_.acquire());
  ASSERT_TRUE(parking_at_.park({}));
  ASSERT_TRUE(lease_at_.release());
  const Status parked = parking_at_.park({});
  ASSERT_FALSE(parked);
  EXPECT_EQ(parked.error().code, Errc::stopped);
  EXPECT_FALSE(lease_at_.renew());
}

// A sink without its own thread that takes longer than the lease for its first
// batch.
class SlowOnceSink final : public Sink {
 public:
  Status open() override { return memory.open(); }
  Status submit(Events events) override { return memory.submit(events); }
  Result<bool> collect(std::span<Outcome> outcomes, Duration timeout) override {
    if (!std::exchange(was_slow_, true)) std::this_thread::sleep_for(400ms);
    return memory.collect(outcomes, timeout);
  }
  bool keeps_order_on_failure() const override { return true; }
  MemorySink memory;

 private:
  bool was_slow_ = false;
};

TEST_F(RelayLeaseTest, ALeaseThatRanOutIsBlamedOnWhatTookTheTime) {
  publish("a", 3);
  SlowOnceSink sink;
  MemoryReader other_reader;
  MemoryLease lease(other_reader, "relay", 200ms, clock_);
  MemorySource source(log_, other_reader, &lease);
  MemoryParking parking(other_reader, &lease);
  Relay relay(RelayPorts{.source = source,
                         .sink = sink,
                         .parking = parking,
                         .lease = lease,
                         .clock = clock_,
                         .metrics = metrics_,
                         .notify =
                             [this](const RelayNotice& notice) {
                               const std::lock_guard lock(mutex_);
                               said_ += notice.text + "\n";
                             }},
              options_);
  std::jthread thread([&](std::stop_token stop) { result_ = relay.run(stop); });
  EXPECT_TRUE(eventually([&] { return metrics_.settled.load() >= 3; }));
  thread.request_stop();
  thread.join();
  EXPECT_NE(said().find("the lease ran out"), std::string::npos) << said();
  EXPECT_NE(said().find("the slowest step since the last renewal was calling the sink"),
            std::string::npos)
      << said();
}

}  // namespace
}  // namespace dovetail
