#include "host/parallel_sink.h"

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <set>
#include <string>

#include "core/testing/test_relay.h"
#include "core/testing/test_sinks.h"
#include "host/errand.h"
#include "host/host.h"
#include "servers/standstill.h"

namespace dovetail {
namespace {

using Fates = std::vector<Fate>;

// A sink that works in collect(), like an inbox, and stays there while its door is shut.
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
  void make() {
    std::vector<std::shared_ptr<Sink>> sinks;
    for (DoorSink& door : doors_) sinks.push_back(borrowed(door));
    sink_ = std::make_unique<ParallelSink>(std::move(sinks), system_clock());
    const Status opened = open(*sink_);
    ASSERT_TRUE(opened) << opened.error().text;
  }
  // Like a relay.
  static Status open(Sink& sink) {
    DOVETAIL_TRY(sink.open());
    Result<bool> opened = false;
    EXPECT_TRUE(eventually([&] { return !(opened = sink.opened(1ms)) || *opened; }));
    return opened ? Status{} : fail(opened.error());
  }
  // One event for each of many keys, so that every sink gets some.
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
  // The sink that gets this key's events.
  DoorSink& door_of(const std::string& payload) {
    for (DoorSink& door : doors_)
      for (const StoredEvent& one : door.memory.received())
        if (one.payload == payload) return door;
    ADD_FAILURE() << payload << " is nowhere";
    return doors_.front();
  }

  NumberedEvents events_;
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
  // More batches are submitted before the failure is collected but after it is known inside.
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
    NumberedEvents short_lived;
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

TEST_F(ParallelSinkTest, OpeningKeepsNobodyWaitingAndWaitsItselfForACallThatRuns) {
  make();
  doors_[0].shut();
  std::vector<const Event*> events;
  for (int i = 0; i < 4; ++i) events.push_back(events_.make("", "1"));
  ASSERT_TRUE(sink_->submit(events));
  ASSERT_TRUE(eventually([&] { return doors_[0].is_inside.load(); }));
  ASSERT_TRUE(sink_->open());
  ASSERT_TRUE(eventually([&] { return doors_[1].opens == 2; }));
  EXPECT_FALSE(sink_->opened(1ms).value());
  EXPECT_EQ(doors_[0].opens, 1) << "its last call has not ended";
  doors_[0].let_go();
  ASSERT_TRUE(eventually([&] { return sink_->opened(1ms).value(); }));
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
  EXPECT_FALSE(open(*sink_));
  doors_[2].memory.set_available(true);
  ASSERT_TRUE(open(*sink_));
  ASSERT_TRUE(sink_->submit(of_many_keys(10, "third ")));
  collect(10);
}

TEST_F(ParallelSinkTest, NoCallBeginsAfterTheLeaseHasRunOut) {
  make();
  for (DoorSink& door : doors_) door.shut();
  ASSERT_TRUE(sink_->submit(of_many_keys(50, "first ")));
  ASSERT_TRUE(sink_->submit(of_many_keys(50, "second ")));
  ASSERT_TRUE(eventually([&] {
    return std::all_of(doors_.begin(), doors_.end(),
                       [](auto& door) { return door.is_inside.load(); });
  }));
  sink_->permit(system_clock().now());
  // Each finishes its call and starts none.
  for (DoorSink& door : doors_) door.let_go();
  ASSERT_TRUE(eventually([&] { return received() >= 50; }));
  std::vector<Outcome> outcomes(50);
  EXPECT_TRUE(sink_->collect(outcomes, 20ms)) << "asking alone allows nothing";
  for (const DoorSink& door : doors_) EXPECT_EQ(door.calls, 1);
  EXPECT_EQ(received(), 50U);
  sink_->permit(system_clock().now() + 1h);
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

// With a relay above, and refusals and outages below.
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
  ParallelSink parallel({borrowed(inner_[0]), borrowed(inner_[1]), borrowed(inner_[2])}, clock_);
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
  std::vector<std::shared_ptr<Sink>> sinks;
  for (DoorSink& door : doors_) sinks.push_back(std::make_shared<OwnedSink>(door, ended));
  auto owning = std::make_unique<ParallelSink>(std::move(sinks), system_clock());
  ASSERT_TRUE(open(*owning));
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

TEST_F(ParallelSinkTest, WhenTheRelayEndsEachSinkIsClosedInItsThread) {
  class ClosingSink final : public Sink {
   public:
    Status open() override {
      opened_by = std::this_thread::get_id();
      return {};
    }
    Status submit(Events) override { return {}; }
    Result<bool> collect(std::span<Outcome>, Duration) override { return false; }
    bool keeps_order_on_failure() const override { return true; }
    Status close() override {
      closed_by = std::this_thread::get_id();
      ++closed;
      return {};
    }
    std::thread::id opened_by;
    std::thread::id closed_by;
    int closed = 0;
  };
  ClosingSink one;
  ClosingSink other;
  ParallelSink sink({borrowed(one), borrowed(other)}, system_clock());
  for (int session = 1; session <= 2; ++session) {
    ASSERT_TRUE(open(sink)) << "also anew";
    ASSERT_TRUE(sink.close());
    for (const ClosingSink* closing : {&one, &other}) {
      EXPECT_EQ(closing->closed, session);
      EXPECT_EQ(closing->closed_by, closing->opened_by);
    }
  }
}

// Hangs in open(), like a sink whose server does not answer. Otherwise it does not block.
class HangingSink final : public Sink {
 public:
  explicit HangingSink(std::shared_ptr<std::atomic<bool>> hangs, std::atomic<int>* ended = nullptr,
                       std::atomic<bool>* opening = nullptr)
      : hangs_(std::move(hangs)), ended_(ended), opening_(opening) {}
  HangingSink(const HangingSink&) = delete;
  HangingSink& operator=(const HangingSink&) = delete;
  ~HangingSink() override {
    if (ended_ != nullptr) ++*ended_;
  }
  Status open() override {
    if (opening_ != nullptr) *opening_ = true;
    hangs_->wait(true);
    return memory.open();
  }
  Status submit(Events events) override {
    callers.insert(std::this_thread::get_id());
    return memory.submit(events);
  }
  Result<bool> collect(std::span<Outcome> outcomes, Duration timeout) override {
    callers.insert(std::this_thread::get_id());
    return memory.collect(outcomes, timeout);
  }
  bool keeps_order_on_failure() const override { return true; }
  bool blocks() const override { return false; }

  MemorySink memory;
  std::set<std::thread::id> callers;

 private:
  std::shared_ptr<std::atomic<bool>> hangs_;
  std::atomic<int>* ended_;
  std::atomic<bool>* opening_;
};

void end_of(std::atomic<bool>& hangs) {
  hangs = false;
  hangs.notify_all();
}

TEST_F(ParallelSinkTest, ASinkThatDoesNotBlockIsOnlyOpenedInTheBackground) {
  const auto hangs = std::make_shared<std::atomic<bool>>(true);
  HangingSink inner(hangs);
  ParallelSink sink({borrowed(inner)}, system_clock());
  ASSERT_TRUE(sink.open());
  EXPECT_FALSE(sink.opened(1ms).value());
  end_of(*hangs);
  ASSERT_TRUE(eventually([&] { return sink.opened(1ms).value(); }));
  ASSERT_TRUE(sink.submit(std::vector{events_.make("a", "1")}));
  for (const Outcome& outcome : collect_from(sink, 1)) EXPECT_TRUE(is_safe(outcome));
  EXPECT_EQ(inner.callers, std::set{std::this_thread::get_id()}) << "no thread is between";
}

TEST_F(ParallelSinkTest, TheEndDoesNotWaitForASinkThatHangsWhileItIsOpened) {
  const auto hangs = std::make_shared<std::atomic<bool>>(true);
  std::atomic<int> ended{0};
  std::atomic<bool> opening{false};
  std::unique_ptr<Sink> sink =
      in_background(std::make_unique<HangingSink>(hangs, &ended, &opening), system_clock());
  ASSERT_TRUE(sink->open());
  ASSERT_TRUE(eventually([&] { return opening.load(); }));
  EXPECT_FALSE(sink->opened(1ms).value());
  sink.reset();
  EXPECT_EQ(ended, 0);
  EXPECT_EQ(errands_left(), 1U) << "it is known that its thread still runs";
  end_of(*hangs);
  EXPECT_TRUE(wait_for_errands(60s));
  EXPECT_EQ(ended, 1) << "and it goes when it can";
}

// With a relay above: a lease of 300 ms, and a sink that is slower in everything.
TEST_F(RelayTest, NeitherASlowOpenNorASlowBatchCostsTheLease) {
  class SlowSink final : public Sink {
   public:
    Status open() override {
      std::this_thread::sleep_for(500ms);
      return memory.open();
    }
    Status submit(Events events) override { return memory.submit(events); }
    Result<bool> collect(std::span<Outcome> outcomes, Duration timeout) override {
      std::this_thread::sleep_for(outcomes.size() * 5ms);
      return memory.collect(outcomes, timeout);
    }
    bool keeps_order_on_failure() const override { return true; }
    MemorySink memory;
  };
  const servers::Standstill standstill;
  SlowSink slow;
  ParallelSink sink({borrowed(slow)}, clock_);
  lease_term_ = 300ms;
  options_.batch_time_max = lease_term_ / 6;
  for (int key = 0; key < 10; ++key) publish(std::to_string(key), 20);
  start(sink);
  ASSERT_TRUE(eventually([&] { return metrics_.settled.load() == 200; }));
  stop();
  if (standstill.is_below(lease_term_ / 3)) {
    EXPECT_EQ(metrics_.fenced.load(), 0U);
    EXPECT_EQ(metrics_.session_errors.load(), 0U);
    EXPECT_EQ(metrics_.duplicates.load(), 0U);
  }
  expect_ordered(slow.memory.received());
}

}  // namespace
}  // namespace dovetail
