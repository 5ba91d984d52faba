// Sinks made of sinks, under random faults.
#include <gtest/gtest.h>

#include "core/sinks/chained_sink.h"
#include "core/sinks/claimed_sink.h"
#include "core/testing/test_clock.h"
#include "core/testing/test_sinks.h"
#include "memory/claim_store.h"

namespace dovetail {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kSeeds = 100;

std::vector<const Event*> some_events(NumberedEvents& made, std::uint64_t seed) {
  Random random(seed);
  std::vector<const Event*> events;
  const std::uint64_t keys = 1 + random.below(6);
  for (int i = 0; i < 60; ++i) {
    const std::uint64_t key = random.below(keys + 1);
    events.push_back(made.make(key == keys ? "" : "key" + std::to_string(key), std::to_string(i),
                               random.chance(0.3) ? "private" : "public"));
  }
  return events;
}

// Sometimes fails, sometimes asks to be tried again, sometimes is slow.
void be_moody(HeldSink& sink, Random& random) {
  sink.memory.decide_by([&random](const Event&) {
    if (random.chance(0.05)) return Outcome{Fate::failed, 0, "refused by the test"};
    if (random.chance(0.05)) return Outcome{Fate::again, 0, "not now"};
    return Outcome{Fate::confirmed, 0, {}};
  });
}

TEST(ChainedSinkAtRandom, EveryStageGetsEveryEventOnceAndInOrder) {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE(seed);
    NumberedEvents made;
    const auto events = some_events(made, seed);
    RandomRelay relay(events, seed);
    Random moods(seed + 1);
    std::deque<HeldSink> stages(3);
    for (HeldSink& stage : stages) be_moody(stage, moods);
    ChainedSink chain(
        {{borrowed(stages[0])},
         {borrowed(stages[1]), [](const Event& event) { return event.type == "public"; }},
         {borrowed(stages[2])}});
    int steps = 0;
    while (relay.step(chain, [&] { return chain.open().has_value(); })) {
      ASSERT_LT(++steps, 100'000);
      HeldSink& stage = stages[relay.below(3)];
      stage.may_collect = relay.chance(0.5) ? relay.below(3) : HeldSink::kAll;
      if (relay.chance(0.02)) stage.memory.set_available(false);
      if (relay.chance(0.1)) stages[relay.below(3)].memory.set_available(true);
    }
    std::vector<const Event*> not_private;
    for (const Event* event : events)
      if (event->type == "public") not_private.push_back(event);
    expect_all_in_order(stages[0].memory.received(), events);
    expect_all_in_order(stages[1].memory.received(), not_private);
    expect_all_in_order(stages[2].memory.received(), events);
    EXPECT_EQ(stages[1].memory.received_count(), not_private.size());
    if (HasFailure()) return;
  }
}

// Sometimes fails, before or after its effect.
class MoodyStore final : public ClaimStore {
 public:
  MoodyStore(ClaimStore& store, Random& random) : store_(store), random_(random) {}

  Status open() override { return store_.open(); }
  Result<std::vector<Claim>> claim(Events events, Duration lease) override {
    if (fails()) return fail(Errc::unavailable, "away");
    auto claims = store_.claim(events, lease);
    if (fails()) return fail(Errc::in_doubt, "in doubt");
    return claims;
  }
  Status complete(std::span<const EventId> ids, std::span<const std::int64_t> epochs,
                  std::span<bool> done) override {
    if (fails()) return fail(Errc::unavailable, "away");
    DOVETAIL_TRY(store_.complete(ids, epochs, done));
    if (fails()) return fail(Errc::in_doubt, "in doubt");
    return {};
  }
  Status release(std::span<const EventId> ids, std::span<const std::int64_t> epochs,
                 ReleaseReason how) override {
    if (fails()) return fail(Errc::unavailable, "away");
    DOVETAIL_TRY(store_.release(ids, epochs, how));
    if (fails()) return fail(Errc::in_doubt, "in doubt");
    return {};
  }

 private:
  bool fails() { return random_.chance(0.02); }

  ClaimStore& store_;
  Random& random_;
};

struct ClaimedRun {
  std::uint64_t effects = 0;
  std::uint64_t deaths = 0;
};

// With `death` above 0, the process sometimes dies with everything it has claimed.
ClaimedRun run_claimed(std::uint64_t seed, double death, bool inner_keeps_order) {
  TestClock clock;
  NumberedEvents made;
  const auto events = some_events(made, seed);
  RandomRelay relay(events, seed);
  Random moods(seed + 1);
  MemoryClaimDatabase database(clock);
  MemoryClaimStore memory(database, "mail");
  MoodyStore store(memory, moods);
  HeldSink inner{{.dedup = false, .keeps_order_on_failure = inner_keeps_order}};
  inner.clock = &clock;
  be_moody(inner, moods);
  // Failures repeat without limit here; only deaths may lead to a rejection.
  const ClaimedSinkOptions options{
      .lease = 60s, .attempts_max = 1'000'000, .calls_max = 4, .ahead_max = 16};
  auto sink = std::make_unique<ClaimedSink>(store, inner, clock, options);
  ClaimedRun run;
  int steps = 0;
  while (relay.step(*sink, [&] { return sink->open().has_value(); })) {
    if (++steps > 100'000) {
      ADD_FAILURE() << "it does not come to an end";
      break;
    }
    clock.advance(relay.chance(0.01) ? Duration(20s) : Duration(10ms));
    inner.may_collect = relay.chance(0.3) ? relay.below(2) : HeldSink::kAll;
    if (relay.chance(0.01)) inner.memory.set_available(false);
    if (relay.chance(0.1)) inner.memory.set_available(true);
    if (relay.chance(death)) {
      ++run.deaths;
      sink = std::make_unique<ClaimedSink>(store, inner, clock, options);
      relay.forget();
    }
  }
  expect_all_in_order(inner.memory.received(), events);
  EXPECT_EQ(database.completed("mail"), events.size());
  run.effects = inner.memory.received_count() - events.size();
  return run;
}

TEST(ClaimedSinkAtRandom, NothingIsLostAndKeysKeepTheirOrderThroughDeathsAndOutages) {
  std::uint64_t deaths = 0;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE(seed);
    const ClaimedRun run = run_claimed(seed, 0.01, seed % 2 == 0);
    deaths += run.deaths;
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(deaths, kSeeds / 4);
}

}  // namespace
}  // namespace dovetail
