// The same event comes to sixteen consumers at the same time, again and again: one applies it, and
// the others recognise a duplicate.
#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <functional>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "core/inbox/inbox.h"
#include "host/host.h"
#include "kit/claims.h"
#include "postgres/inbox/inbox_store.h"
#include "postgres/schema/schema.h"
#include "postgres/testing/test_database.h"
#include "proofs/inbox/naive_store.h"

namespace dovetail::postgres {
namespace {

constexpr std::size_t kConsumers = 16;

Status write_effect(Invocation& invocation, const Event& event) {
  return invocation.queue("INSERT INTO effects (event_id) VALUES ($1)", {event.id});
}

std::unique_ptr<InboxStore> make_inbox_store(const std::string& conninfo, std::size_t lane) {
  InboxStoreOptions options{.conninfo = conninfo,
                            .consumer = "same",
                            .lane = static_cast<std::uint32_t>(lane),
                            .handlers = {}};
  options.handlers.push_back(cpp_handler("same", {}, write_effect));
  return std::make_unique<PostgresInboxStore>(std::move(options));
}

std::unique_ptr<InboxStore> make_naive_store(const std::string& conninfo, std::size_t) {
  return std::make_unique<shop::NaiveStore>(
      shop::NaiveStore::Options{conninfo, shop::Scheme::look_then_act, write_effect});
}

struct Counts {
  std::size_t events = 0;
  std::int64_t effects = 0;       // committed
  std::int64_t with_effects = 0;  // events
  std::size_t confirmed = 0;      // reported to a consumer
  std::size_t duplicates = 0;
  std::size_t failed = 0;
  std::size_t interrupted = 0;  // for example by locks that wait for each other
  double seconds = 0;

  bool is_once() const {
    return effects == static_cast<std::int64_t>(events) && with_effects == effects &&
           confirmed == events && duplicates == events * (kConsumers - 1) && failed == 0 &&
           interrupted == 0;
  }
};

using MakeStore = std::function<std::unique_ptr<InboxStore>(const std::string&, std::size_t)>;

class SameEvent : public testing::Test {
 protected:
  SameEvent() {
    const Status made = create_schema(direct_);
    EXPECT_TRUE(made) << text_of(made);
    must(direct_, "CREATE TABLE effects (event_id uuid NOT NULL)");
  }

  // In each round all consumers get the same events at the same moment, each in a different
  // order.
  Counts run(const MakeStore& make, std::size_t rounds, std::size_t events_of_a_round);

  TestDatabase database_;
  Connection direct_ = database_.connect();
};

// The outcome of all of them, however many tries that takes.
void apply(Inbox& inbox, std::vector<const Event*> events, Counts& counts) {
  while (!events.empty()) {
    std::vector<Outcome> outcomes(events.size());
    Result<bool> known = false;
    if (inbox.submit(events)) known = inbox.collect(outcomes, std::chrono::seconds(90));
    if (!known) {
      ++counts.interrupted;
      const Status opened = inbox.open();
      ASSERT_TRUE(opened) << text_of(opened);
      continue;
    }
    std::vector<const Event*> again;
    for (std::size_t i = 0; i < events.size(); ++i) {
      const Fate fate = outcomes[i].fate;
      if (fate == Fate::confirmed) ++counts.confirmed;
      if (fate == Fate::duplicate) ++counts.duplicates;
      if (fate == Fate::failed || fate == Fate::rejected) {
        ++counts.failed;
        ADD_FAILURE() << outcomes[i].reason;
      }
      if (fate == Fate::again) again.push_back(events[i]);
    }
    events = std::move(again);
  }
}

Counts SameEvent::run(const MakeStore& make, std::size_t rounds, std::size_t events_of_a_round) {
  std::vector<Event> events(rounds * events_of_a_round);
  for (Event& event : events) {
    event.id = new_event_id();
    event.type = "same";
    event.created_at = system_clock().wall();
  }
  const auto started = std::chrono::steady_clock::now();
  std::vector<Counts> counts(kConsumers);
  std::barrier together(static_cast<std::ptrdiff_t>(kConsumers));
  {
    std::vector<std::jthread> consumers;
    for (std::size_t number = 0; number < kConsumers; ++number) {
      consumers.emplace_back([&, number] {
        const auto store = make(database_.conninfo, number);
        Inbox inbox(*store, {});
        const Status opened = inbox.open();
        EXPECT_TRUE(opened) << text_of(opened);
        std::mt19937_64 random(number);
        for (std::size_t round = 0; round < rounds; ++round) {
          std::vector<const Event*> mine;
          for (std::size_t i = 0; i < events_of_a_round; ++i)
            mine.push_back(&events[round * events_of_a_round + i]);
          std::shuffle(mine.begin(), mine.end(), random);
          together.arrive_and_wait();
          apply(inbox, std::move(mine), counts[number]);
        }
        EXPECT_TRUE(inbox.close());
      });
    }
  }
  Counts sum;
  for (const Counts& one : counts) {
    sum.confirmed += one.confirmed;
    sum.duplicates += one.duplicates;
    sum.failed += one.failed;
    sum.interrupted += one.interrupted;
  }
  sum.events = events.size();
  sum.effects = number(direct_, "SELECT count(*) FROM effects");
  sum.with_effects = number(direct_, "SELECT count(DISTINCT event_id) FROM effects");
  sum.seconds = live::Seconds(std::chrono::steady_clock::now() - started).count();
  return sum;
}

void claim_once(const Counts& counts, const char* how) {
  live::claim(counts.is_once(),
              "%zu consumers at once, %zu events, %s: %lld effects of %lld events, %zu confirmed, "
              "%zu known as duplicates, %zu interrupted; %.0f s",
              kConsumers, counts.events, how, static_cast<long long>(counts.effects),
              static_cast<long long>(counts.with_effects), counts.confirmed, counts.duplicates,
              counts.interrupted, counts.seconds);
}

TEST_F(SameEvent, ToSixteenConsumersAtOnceIsAppliedByOneOfThem) {
  claim_once(run(make_inbox_store, live::is_long() ? 10'000 : 300, 1), "one by one");
}

TEST_F(SameEvent, InBatchesOfDifferentOrderNobodyIsLockedOutOrAppliesItTwice) {
  claim_once(run(make_inbox_store, live::is_long() ? 500 : 20, 20), "in batches of 20");
}

// The proof can fail: look first, then act, is not enough.
TEST_F(SameEvent, LookingBeforeActingAppliesItMoreThanOnce) {
  ASSERT_TRUE(shop::create_naive_table(database_.conninfo));
  const Counts naive = run(make_naive_store, 50, 1);
  EXPECT_GT(naive.effects, 50);
}

}  // namespace
}  // namespace dovetail::postgres
