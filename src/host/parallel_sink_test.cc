#include "host/parallel_sink.h"

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <set>
#include <string>

#include "core/test_relay.h"
#include "core/test_sinks.h"
#include "host/host.h"

namespace dovetail {
namespace {

using Fates = std::vector<Fate>;

// A sink that does all its work in collect(), as an inbox does, and stays there while it is shut.
class DoorSink final : public Sink {
 public:
  explicit DoorSink(MemorySinkOptions options = {}) : memory(options) {}

  Status open() override {
    ++opens;
    note_thread();
    return memory.open();
  }
  Status submit(Events events) override {
    note_thread();
    return memory.submit(events);
  }
  Result<bool> collect(std::span<Outcome> outcomes, Duration timeout) override {
    note_thread();
    ++calls;
    is_inside = true;
    is_shut.wait(true);
    is_inside = false;
    return memory.collect(outcomes, timeout);
  }
  bool keeps_order_on_failure() const override { return memory.keeps_order_on_failure(); }

  void shut() { is_shut = true; }
  void let_go() {
    is_shut = false;
    is_shut.notify_all();
  }

  MemorySink memory;
  std::atomic<int> opens{0};
  std::atomic<int> calls{0};
  std::atomic<bool> is_shut{false};
  std::atomic<bool> is_inside{false};
  std::set<std::thread::id> threads;  // of the calls; only one may ever be there

 private:
  void note_thread() { threads.insert(std::this_thread::get_id()); }
};

class ParallelSinkTest : public testing::Test {
 protected:
  static constexpr std::size_t kSinks = 4;

  ~ParallelSinkTest() override {
    for (DoorSink& door : doors_) door.let_go();
  }
  void make(ParallelSinkOptions options = {}) {
    std::vector<Sink*> sinks;
    for (DoorSink& door : doors_) sinks.push_back(&door);
    sink_ = std::make_unique<ParallelSink>(sinks, system_clock(), options);
    const Status opened = sink_->open();
    ASSERT_TRUE(opened) << opened.error().text;
  }
  // One event of its own key for each of many keys, so that every sink gets some.
  std::vector<const Event*> of_many_keys(int count, const std::string& payload) {
    std::vector<const Event*> events;
    for (int i = 0; i < count; ++i)
      events.push_back(events_.make("key" + std::to_string(i), payload + std::to_string(i)));
    return events;
  }
  std::vector<Outcome> collect(std::size_t count) { return collect_from(*sink_, count, 30ms); }
  std::size_t received() const {
    std::size_t sum = 0;
    for (const DoorSink& door : doors_) sum += door.memory.received_count();
    return sum;
  }
  // The one that an event of this key goes to.
  DoorSink& door_of(const std::string& payload) {
    for (DoorSink& door : doors_)
      for (const StoredEvent& one : door.memory.received())
        if (one.payload == payload) return door;
    ADD_FAILURE() << payload << " is nowhere";
    return doors_.front();
  }

  TestEvents events_;
  std::deque<DoorSink> doors_{kSinks};
  std::unique_ptr<ParallelSink> sink_;
};

TEST_F(ParallelSinkTest, KeysAreSpreadAndEachKeepsItsOrderInOneSink) {
  make();
  for (int b = 0; b < 10; ++b) {
    ASSERT_TRUE(sink_->submit(of_many_keys(100, std::to_string(b) + " ")));
  }
  for (int b = 0; b < 10; ++b)
    for (const Outcome& outcome : collect(100)) EXPECT_EQ(outcome.fate, Fate::confirmed);
  std::map<std::string, std::vector<std::string>> of_key;
  for (const DoorSink& door : doors_) {
    EXPECT_GT(door.memory.received_count(), 100U) << "a fair share";
    std::map<std::string, std::vector<std::string>> here;
    for (const StoredEvent& one : door.memory.received())
      here[one.aggregate_id].push_back(one.payload.substr(0, 1));
    for (auto& [key, order] : here) EXPECT_TRUE(of_key.emplace(key, order).second) << "in one sink";
  }
  EXPECT_EQ(of_key.size(), 100U);
  for (const auto& [key, order] : of_key) {
    EXPECT_EQ(order.size(), 10U);
    EXPECT_TRUE(std::is_sorted(order.begin(), order.end())) << key;
  }
  sink_.reset();
  std::set<std::thread::id> threads;
  for (const DoorSink& door : doors_) {
    EXPECT_EQ(door.threads.size(), 1U) << "each sink has a thread to itself";
    threads.insert(door.threads.begin(), door.threads.end());
  }
  EXPECT_EQ(threads.size(), kSinks);
}

TEST_F(ParallelSinkTest, EventsWithoutAKeyAreDealtOut) {
  make();
  std::vector<const Event*> events;
  for (int i = 0; i < 100; ++i) events.push_back(events_.make("", std::to_string(i)));
  ASSERT_TRUE(sink_->submit(events));
  collect(100);
  for (const DoorSink& door : doors_) EXPECT_EQ(door.memory.received_count(), 25U);
}

TEST_F(ParallelSinkTest, KeysOfOneLaneAreSpreadToo) {
  make();
  std::vector<const Event*> events;
  for (int i = 0; events.size() < 100; ++i) {
    const Event* event = events_.make("key" + std::to_string(i), std::to_string(i));
    if (lane_of(event->key_hash, 8) == 3) events.push_back(event);
  }
  ASSERT_TRUE(sink_->submit(events));
  collect(100);
  for (const DoorSink& door : doors_) EXPECT_GT(door.memory.received_count(), 5U);
}

TEST_F(ParallelSinkTest, OneThatIsBusyHoldsUpNeitherTheOthersNorTheRelay) {
  make();
  ASSERT_TRUE(sink_->submit(of_many_keys(50, "first ")));
  collect(50);
  DoorSink& slow = door_of("first 0");
  slow.shut();
  ASSERT_TRUE(sink_->submit(of_many_keys(50, "second ")));
  ASSERT_TRUE(sink_->submit(of_many_keys(50, "third ")));
  const std::size_t of_slow = slow.memory.received_count();
  std::vector<Outcome> outcomes(50);
  ASSERT_TRUE(eventually([&] {
    const Result<bool> known = sink_->collect(outcomes, 1ms);
    EXPECT_TRUE(known && !*known);
    return received() == 150 - 2 * of_slow;
  }));
  slow.let_go();
  collect(50);
  collect(50);
  EXPECT_EQ(received(), 150U);
}

TEST_F(ParallelSinkTest, AFailureHoldsBackItsKeyAndNoOther) {
  make();
  for (DoorSink& door : doors_)
    door.memory.decide_by([](const Event& event) {
      return Outcome{event.payload == "bad" ? Fate::failed : Fate::confirmed, 0, "refused"};
    });
  ASSERT_TRUE(sink_->submit(std::vector{events_.make("a", "bad"), events_.make("b", "1")}));
  // Other batches are submitted before the failure is collected, and after it is known inside.
  ASSERT_TRUE(eventually([&] { return received() == 1; }));
  ASSERT_TRUE(sink_->submit(std::vector{events_.make("a", "2"), events_.make("b", "3")}));
  EXPECT_EQ(fates_of(collect(2)), (Fates{Fate::failed, Fate::confirmed}));
  EXPECT_EQ(fates_of(collect(2)), (Fates{Fate::again, Fate::confirmed}));
  ASSERT_TRUE(sink_->submit(std::vector{events_.make("a", "4")}));
  EXPECT_EQ(fates_of(collect(1)), (Fates{Fate::confirmed}));
}

TEST_F(ParallelSinkTest, WhatItIsGivenNeedNotLiveOn) {
  make();
  for (DoorSink& door : doors_) door.shut();
  {
    TestEvents short_lived;
    std::vector<const Event*> events;
    for (int i = 0; i < 100; ++i)
      events.push_back(short_lived.make("key" + std::to_string(i), std::string(1000, 'x')));
    ASSERT_TRUE(sink_->submit(events));
  }
  for (DoorSink& door : doors_) door.let_go();
  collect(100);
  for (const DoorSink& door : doors_)
    for (const StoredEvent& one : door.memory.received())
      EXPECT_EQ(one.payload, std::string(1000, 'x'));
}

TEST_F(ParallelSinkTest, OpeningWaitsForACallOnlySoLongAndWorksWhenItHasEnded) {
  make({.quiet_max = Duration(5ms)});
  doors_[0].shut();
  std::vector<const Event*> events;
  for (int i = 0; i < 4; ++i) events.push_back(events_.make("", "1"));
  ASSERT_TRUE(sink_->submit(events));
  ASSERT_TRUE(eventually([&] { return doors_[0].is_inside.load(); }));
  const Status opened = sink_->open();
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Errc::unavailable);
  EXPECT_EQ(doors_[1].opens, 1) << "none is opened before all are quiet";
  doors_[0].let_go();
  ASSERT_TRUE(eventually([&] { return sink_->open().has_value(); }));
  std::vector<Outcome> outcomes(4);
  const Result<bool> known = sink_->collect(outcomes, Duration{0});
  EXPECT_TRUE(known && !*known) << "what was submitted before is forgotten";
  ASSERT_TRUE(sink_->submit(events));
  for (const Outcome& outcome : collect(4)) EXPECT_TRUE(is_safe(outcome));
}

TEST_F(ParallelSinkTest, AnErrorOfOneIsOneOfTheWholeAndWhatIsCompleteIsHandedOutBefore) {
  make();
  ASSERT_TRUE(sink_->submit(of_many_keys(50, "first ")));
  ASSERT_TRUE(eventually([&] { return received() == 50; }));
  doors_[2].memory.set_available(false);
  ASSERT_TRUE(sink_->submit(of_many_keys(50, "second ")));
  for (const Outcome& outcome : collect(50)) EXPECT_EQ(outcome.fate, Fate::confirmed);
  std::vector<Outcome> outcomes(50);
  Result<bool> known = false;
  ASSERT_TRUE(eventually([&] { return !(known = sink_->collect(outcomes, 1ms)); }));
  EXPECT_EQ(known.error().code, Errc::unavailable);
  EXPECT_FALSE(sink_->open());
  doors_[2].memory.set_available(true);
  ASSERT_TRUE(sink_->open());
  ASSERT_TRUE(sink_->submit(of_many_keys(10, "third ")));
  collect(10);
}

TEST_F(ParallelSinkTest, ThreadsStopSoonAfterNobodyAsksAnyMore) {
  make({.permit = Duration(1ms)});
  for (DoorSink& door : doors_) door.shut();
  ASSERT_TRUE(sink_->submit(of_many_keys(50, "first ")));
  ASSERT_TRUE(sink_->submit(of_many_keys(50, "second ")));
  ASSERT_TRUE(eventually([&] {
    std::vector<Outcome> outcomes(50);
    EXPECT_TRUE(sink_->collect(outcomes, Duration{0}));
    return std::all_of(doors_.begin(), doors_.end(),
                       [](auto& door) { return door.is_inside.load(); });
  }));
  // Long enough after the relay has asked: each may end its call, and starts none.
  const auto asked_at = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() < asked_at + 5ms) std::this_thread::yield();
  for (DoorSink& door : doors_) door.let_go();
  ASSERT_TRUE(eventually([&] { return received() >= 50; }));
  for (const DoorSink& door : doors_) EXPECT_EQ(door.calls, 1);
  EXPECT_EQ(received(), 50U);
  collect(50);
  collect(50);
  EXPECT_EQ(received(), 100U);
}

TEST_F(ParallelSinkTest, TheEndWaitsForTheCallThatRunsAndStartsNoOther) {
  make();
  doors_[1].shut();
  std::vector<const Event*> events;
  for (int i = 0; i < 4; ++i) events.push_back(events_.make("", "1"));
  ASSERT_TRUE(sink_->submit(events));
  ASSERT_TRUE(eventually([&] { return doors_[1].is_inside.load(); }));
  std::atomic<bool> ended{false};
  std::thread ending([&] {
    sink_.reset();
    ended = true;
  });
  EXPECT_FALSE(ended);
  doors_[1].let_go();
  ending.join();
  EXPECT_TRUE(ended);
}

// A relay above, refusals and outages below.
class ParallelRelayTest : public RelayTest {
 protected:
  std::vector<StoredEvent> received() const {
    std::vector<StoredEvent> all;
    for (const MemorySink& one : inner_)
      for (StoredEvent& event : one.received()) all.push_back(std::move(event));
    return all;
  }
  std::deque<MemorySink> inner_{3};
};

TEST_F(ParallelRelayTest, EveryKeyKeepsItsOrderThroughRefusalsAndOutages) {
  std::atomic<std::uint64_t> tries{0};
  for (MemorySink& one : inner_)
    one.decide_by([&](const Event&) {
      if (++tries % 97 == 0) return Outcome{Fate::again, 0, "not now"};
      return Outcome{Fate::confirmed, 0, {}};
    });
  ParallelSink parallel({&inner_[0], &inner_[1], &inner_[2]}, clock_);
  options_.batch_events_max = 50;
  start(parallel);
  for (std::uint64_t outage = 0; outage < 5; ++outage) {
    const std::uint64_t errors = metrics_.sink_errors.load();
    for (int i = 0; i < 10; ++i)
      for (int key = 0; key < 20; ++key) publish(std::to_string(key));
    inner_[outage % 3].set_available(false);
    for (int i = 0; i < 10; ++i)
      for (int key = 0; key < 20; ++key) publish(std::to_string(key));
    EXPECT_TRUE(eventually([&] { return metrics_.sink_errors.load() > errors; }));
    inner_[outage % 3].set_available(true);
  }
  EXPECT_TRUE(eventually([&] { return metrics_.settled.load() == 2000; }));
  stop();
  EXPECT_EQ(received().size(), 2000U);
  expect_ordered(received());
}

TEST_F(ParallelSinkTest, SinksThatItOwnsEndBehindTheirThreads) {
  class OwnedSink final : public Sink {
   public:
    OwnedSink(DoorSink& door, std::atomic<int>& ended) : door_(door), ended_(ended) {}
    OwnedSink(const OwnedSink&) = delete;
    OwnedSink& operator=(const OwnedSink&) = delete;
    ~OwnedSink() override { ended_ += door_.is_inside ? 100 : 1; }
    Status open() override { return door_.open(); }
    Status submit(Events events) override { return door_.submit(events); }
    Result<bool> collect(std::span<Outcome> outcomes, Duration timeout) override {
      return door_.collect(outcomes, timeout);
    }
    bool keeps_order_on_failure() const override { return true; }

   private:
    DoorSink& door_;
    std::atomic<int>& ended_;
  };
  std::atomic<int> ended{0};
  std::vector<std::unique_ptr<Sink>> sinks;
  for (DoorSink& door : doors_) sinks.push_back(std::make_unique<OwnedSink>(door, ended));
  auto owning = std::make_unique<ParallelSink>(std::move(sinks), system_clock());
  ASSERT_TRUE(owning->open());
  for (DoorSink& door : doors_) door.shut();
  const auto events = of_many_keys(64, "x");
  ASSERT_TRUE(owning->submit(events));
  std::vector<Outcome> outcomes(events.size());
  ASSERT_TRUE(eventually([&] {
    EXPECT_TRUE(owning->collect(outcomes, 1ms));
    return doors_[0].is_inside.load();
  }));
  std::jthread opener([&] {
    // A sink that ended too early would have done so by then.
    for (int i = 0; i < 50 && ended == 0; ++i) std::this_thread::sleep_for(1ms);
    for (DoorSink& door : doors_) door.let_go();
  });
  owning.reset();
  EXPECT_EQ(ended, static_cast<int>(kSinks));
}

}  // namespace
}  // namespace dovetail
