// The memory adapters pass the suites for all adapters.
#include <mutex>

#include "conformance/inbox_suite.h"
#include "conformance/lane_suite.h"
#include "conformance/sink_suite.h"
#include "conformance/source_suite.h"
#include "memory/inbox_store.h"
#include "memory/log.h"
#include "memory/reader.h"
#include "memory/sink.h"
#include "memory/source.h"

namespace dovetail::conformance {
namespace {

class MemoryStore final : public SourceUnderTest {
 public:
  SourceAbilities abilities() const override { return {}; }
  std::unique_ptr<Source> make() override { return std::make_unique<MemorySource>(log_, reader_); }
  void publish(const NewEvent& event) override {
    ASSERT_TRUE(log_.publish(event, WallTime(std::chrono::seconds(1'700'000'000))));
  }

 private:
  MemoryLog log_;
  MemoryReader reader_;
};

// New sinks over one store that keeps its events, like processes over a server.
class Forward final : public Sink {
 public:
  explicit Forward(Sink& sink) : sink_(sink) {}
  Status open() override { return sink_.open(); }
  Status submit(Events events) override { return sink_.submit(events); }
  Result<bool> collect(std::span<Outcome> outcomes, Duration timeout) override {
    return sink_.collect(outcomes, timeout);
  }
  bool keeps_order_on_failure() const override { return sink_.keeps_order_on_failure(); }

 private:
  Sink& sink_;
};

template <bool kDedup, bool kKeepsOrder>
class MemorySinkStore final : public SinkUnderTest {
 public:
  MemorySinkStore() : sink_({kDedup, kKeepsOrder}) {
    sink_.decide_by([](const Event& event) {
      if (event.type == "poison") return Outcome{Fate::rejected, 0, "refused by the test"};
      return Outcome{Fate::confirmed, 0, {}};
    });
  }
  SinkAbilities abilities() const override { return {true, kDedup, true, false}; }
  std::unique_ptr<Sink> make() override { return std::make_unique<Forward>(sink_); }
  std::vector<StoredEvent> stored() override { return sink_.received(); }
  void make_poison(Event& event) override { event.type = "poison"; }

 private:
  MemorySink sink_;
};

class MemoryLane final : public LaneUnderTest {
 public:
  LaneOwner join(const std::string& name) override {
    auto lease = std::make_unique<MemoryLease>(reader_, name, kTerm, clock);
    LaneOwner owner;
    owner.source = std::make_unique<MemorySource>(log_, reader_, lease.get());
    owner.parking = std::make_unique<MemoryParking>(reader_, lease.get());
    owner.lease = std::move(lease);
    return owner;
  }
  void publish(const NewEvent& event) override { ASSERT_TRUE(log_.publish(event, clock.wall())); }

 private:
  MemoryLog log_;
  MemoryReader reader_{clock};
};

template <class Base, class Made>
std::unique_ptr<Base> make() {
  return std::make_unique<Made>();
}

class MemoryInboxes final : public InboxUnderTest {
 public:
  std::unique_ptr<InboxStore> make(const std::string& consumer, std::uint32_t,
                                   InboxHandler handler) override {
    return std::make_unique<MemoryInboxStore>(
        database_, consumer,
        [this, handler](const Event& event, MemoryTransaction& open) -> Status {
          InboxTransaction transaction;
          transaction.effect = [this, &open](const Event& of) -> Status {
            open.on_commit([this, id = of.id] {
              const std::lock_guard lock(mutex_);
              effects_.push_back(id);
            });
            return {};
          };
          return handler(transaction, event);
        });
  }
  std::vector<EventId> effects() override {
    const std::lock_guard lock(mutex_);
    return effects_;
  }

 private:
  MemoryInboxDatabase database_;
  std::mutex mutex_;
  std::vector<EventId> effects_;
};

INSTANTIATE_TEST_SUITE_P(Memory, SourceSuite,
                         testing::Values(SourceCase{"log", make<SourceUnderTest, MemoryStore>}),
                         case_name<SourceCase>);
INSTANTIATE_TEST_SUITE_P(
    Memory, SinkSuite,
    testing::Values(SinkCase{"dedup", make<SinkUnderTest, MemorySinkStore<true, true>>},
                    SinkCase{"plain", make<SinkUnderTest, MemorySinkStore<false, false>>}),
    case_name<SinkCase>);
INSTANTIATE_TEST_SUITE_P(Memory, LeaseSuite,
                         testing::Values(LaneCase{"lane", make<LaneUnderTest, MemoryLane>}),
                         case_name<LaneCase>);
INSTANTIATE_TEST_SUITE_P(Memory, ParkingSuite,
                         testing::Values(LaneCase{"lane", make<LaneUnderTest, MemoryLane>}),
                         case_name<LaneCase>);

INSTANTIATE_TEST_SUITE_P(Memory, InboxSuite,
                         testing::Values(InboxCase{"memory",
                                                   []() -> std::unique_ptr<InboxUnderTest> {
                                                     return std::make_unique<MemoryInboxes>();
                                                   }}),
                         case_name<InboxCase>);

}  // namespace
}  // namespace dovetail::conformance
