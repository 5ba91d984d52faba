#include "core/sinks/claimed_sink.h"

#include <gtest/gtest.h>

#include <functional>

#include "core/testing/test_clock.h"
#include "core/testing/test_sinks.h"
#include "memory/claim_store.h"

namespace dovetail {
namespace {

using namespace std::chrono_literals;
using Payloads = std::vector<std::string>;
using Fates = std::vector<Fate>;

// A store whose calls can fail: before their effect, or after it.
class FaultyStore final : public ClaimStore {
 public:
  explicit FaultyStore(ClaimStore& store) : store_(store) {}

  Status open() override {
    return run([&] { return store_.open(); });
  }
  Result<std::vector<Claim>> claim(Events events, Duration lease) override {
    claimed.push_back(events.size());
    Result<std::vector<Claim>> claims;
    DOVETAIL_TRY(run([&]() -> Status {
      claims = store_.claim(events, lease);
      return {};
    }));
    if (after_claim) after_claim();
    return claims;
  }
  Status complete(std::span<const EventId> ids, std::span<const std::int64_t> epochs,
                  std::span<bool> done) override {
    ++completions;
    return run([&] { return store_.complete(ids, epochs, done); });
  }
  Status release(std::span<const EventId> ids, std::span<const std::int64_t> epochs,
                 ReleaseReason how) override {
    return run([&] { return store_.release(ids, epochs, how); });
  }

  int calls = 0;
  int fails_at = 0;  // the number of the failing call; 0: none
  bool fails_after = false;
  bool is_away = false;
  std::function<void()> after_claim{};
  int completions = 0;
  std::vector<std::size_t> claimed{};  // how many at a time

 private:
  template <class Call>
  Status run(Call call) {
    ++calls;
    if (is_away) return fail(Errc::unavailable, "away");
    if (calls != fails_at) return call();
    if (!fails_after) return fail(Errc::unavailable, "failed before");
    (void)call();
    return fail(Errc::in_doubt, "failed after");
  }

  ClaimStore& store_;
};

class ClaimedSinkTest : public testing::Test {
 protected:
  ClaimedSinkTest() {
    options_.lease = 60s;
    options_.attempts_max = 3;
    options_.calls_max = 4;
    options_.ahead_max = 16;
    restart();
  }
  // Another process, or the same one restarted: only the database is left.
  void restart() {
    sink_ = std::make_unique<ClaimedSink>(faulty_, inner_, clock_, options_);
    ASSERT_TRUE(sink_->open());
  }
  void submit(const std::vector<const Event*>& events) { ASSERT_TRUE(sink_->submit(events)); }
  std::vector<Outcome> collect(std::size_t count) { return collect_from(*sink_, count); }
  std::vector<Outcome> deliver(const std::vector<const Event*>& events) {
    submit(events);
    return collect(events.size());
  }
  Result<bool> poll(std::size_t count) {
    std::vector<Outcome> outcomes(count);
    return sink_->collect(outcomes, Duration{0});
  }
  void refuse(std::string payload, Fate fate) {
    inner_.memory.decide_by([payload, fate](const Event& event) {
      if (event.payload == payload) return Outcome{fate, 0, "refused by the test"};
      return Outcome{Fate::confirmed, 0, {}};
    });
  }
  // The attempts at its next claim, including that one.
  std::uint32_t attempts_of(const Event* event) {
    const Event* const events[] = {event};
    const auto claims = MemoryClaimStore(database_, "mail").claim(events, 1s);
    return claims ? (*claims)[0].attempts : 0;
  }
  void refuse_nothing() { inner_.memory.decide_by({}); }

  TestClock clock_;
  NumberedEvents events_;
  MemoryClaimDatabase database_{clock_};
  MemoryClaimStore store_{database_, "mail"};
  FaultyStore faulty_{store_};
  // Like an external endpoint: it accepts an event each time it comes.
  HeldSink inner_{{.dedup = false, .keeps_order_on_failure = true}};
  ClaimedSinkOptions options_;
  std::unique_ptr<ClaimedSink> sink_;
};

TEST_F(ClaimedSinkTest, AnEventIsDoneOnceHoweverOftenItComes) {
  const Event* one = events_.make("a", "1");
  EXPECT_EQ(fates_of(deliver({one})), (Fates{Fate::confirmed}));
  EXPECT_EQ(fates_of(deliver({one, one})), (Fates{Fate::duplicate, Fate::duplicate}));
  restart();
  EXPECT_EQ(fates_of(deliver({one})), (Fates{Fate::duplicate}));
  EXPECT_EQ(inner_.payloads(), (Payloads{"1"}));
  EXPECT_EQ(database_.completed("mail"), 1U);
  EXPECT_EQ(database_.held("mail"), 0U);
}

TEST_F(ClaimedSinkTest, TheSameEventTwiceInOneBatchIsDoneOnce) {
  const Event* one = events_.make("", "1");
  EXPECT_EQ(fates_of(deliver({one, one})), (Fates{Fate::confirmed, Fate::duplicate}));
  EXPECT_EQ(inner_.payloads(), (Payloads{"1"}));
}

TEST_F(ClaimedSinkTest, WhatAnotherHoldsComesBackUncountedAndHoldsItsKey) {
  const Event* one = events_.make("a", "1");
  MemoryClaimStore other(database_, "mail");
  const Event* const events[] = {one};
  const auto theirs = other.claim(events, 10s);
  ASSERT_TRUE(theirs);
  const auto outcomes = deliver({one, events_.make("a", "2"), events_.make("b", "3")});
  EXPECT_EQ(fates_of(outcomes), (Fates{Fate::again, Fate::again, Fate::confirmed}));
  EXPECT_EQ(inner_.payloads(), (Payloads{"3"}));
  EXPECT_EQ(database_.held("mail"), 1U) << "what stands behind it is let go of";

  clock_.advance(10s);
  EXPECT_EQ(fates_of(deliver({one})), (Fates{Fate::confirmed})) << "its lease has ended";
  bool done = true;
  ASSERT_TRUE(
      other.complete(std::span(&one->id, 1), std::span(&(*theirs)[0].epoch, 1), {&done, 1}));
  EXPECT_FALSE(done);
}

TEST_F(ClaimedSinkTest, ACallThatEndsIsJudgedByTheRelayHoweverOftenItFails) {
  const Event* one = events_.make("a", "1");
  for (int i = 0; i < 10; ++i) {
    refuse("1", i % 2 == 0 ? Fate::failed : Fate::busy);
    EXPECT_EQ(fates_of(deliver({one})), (Fates{i % 2 == 0 ? Fate::failed : Fate::busy}));
    restart();
  }
  EXPECT_EQ(attempts_of(one), 1U) << "only a process that dies counts";
}

TEST_F(ClaimedSinkTest, WhatIsRejectedIsForgottenSoThatAReplayStartsFromZero) {
  const Event* one = events_.make("a", "1");
  refuse("1", Fate::rejected);
  EXPECT_EQ(fates_of(deliver({one})), (Fates{Fate::rejected}));
  EXPECT_EQ(attempts_of(one), 1U);
}

TEST_F(ClaimedSinkTest, WhatIsKnownWhenTheInnerSinkBreaksIsKept) {
  const Event* done = events_.make("a", "1");
  const Event* bad = events_.make("b", "2");
  const Event* lost = events_.make("c", "3");
  refuse("2", Fate::failed);
  inner_.may_collect = 0;
  submit({done, bad});
  EXPECT_TRUE(poll(2));
  submit({lost});
  EXPECT_TRUE(poll(2));
  inner_.may_collect = HeldSink::kAll;
  inner_.after_collect = [this] { inner_.memory.set_available(false); };
  EXPECT_FALSE(poll(2)) << "after the first wave";
  inner_.after_collect = {};
  inner_.memory.set_available(true);
  ASSERT_TRUE(sink_->open());
  const auto outcomes = deliver({done, bad, lost});
  EXPECT_EQ(fates_of(outcomes), (Fates{Fate::duplicate, Fate::failed, Fate::confirmed}));
}

TEST_F(ClaimedSinkTest, WhatComesBackUntriedDoesNotCount) {
  const Event* one = events_.make("a", "1");
  refuse("1", Fate::again);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(fates_of(deliver({one})), (Fates{Fate::again}));
  EXPECT_EQ(attempts_of(one), 1U);
}

TEST_F(ClaimedSinkTest, AnEventThatEndsTheProcessIsRejectedInTheEndWithoutBeingTried) {
  const Event* one = events_.make("a", "1");
  inner_.may_collect = 0;
  for (int death = 0; death < 3; ++death) {
    submit({one});
    EXPECT_TRUE(poll(1));
    EXPECT_EQ(inner_.submitted, 1U) << "the call is on its way";
    sink_ = std::make_unique<ClaimedSink>(faulty_, inner_, clock_, options_);
    ASSERT_TRUE(sink_->open());
    EXPECT_EQ(fates_of(deliver({one})), (Fates{Fate::again})) << "the dead one's lease still holds";
    clock_.advance(options_.lease);
  }
  const auto outcomes = deliver({one});
  EXPECT_EQ(outcomes[0].fate, Fate::rejected);
  EXPECT_EQ(outcomes[0].attempts, 3U);
  EXPECT_EQ(inner_.submitted, 0U);
  inner_.may_collect = HeldSink::kAll;
  EXPECT_EQ(fates_of(deliver({one})), (Fates{Fate::confirmed})) << "a replay is tried again";
}

TEST_F(ClaimedSinkTest, ARelayThatStartsOverGoesOnWithWhatIsOnItsWay) {
  inner_.may_collect = 0;
  for (int i = 0; i < 10; ++i) {
    // The relay's memory of the event is gone each time; the event is the same.
    NumberedEvents session;
    Event copy = *session.make("a", "1");
    copy.id.bytes.fill(7);
    submit({&copy});
    EXPECT_TRUE(poll(1));
    EXPECT_EQ(database_.held("mail"), 1U);
    EXPECT_EQ(inner_.submitted, 1U) << "one call, however often the relay starts over";
    ASSERT_TRUE(sink_->open());
  }
  EXPECT_EQ(inner_.opens, 1U);
  inner_.may_collect = HeldSink::kAll;
  Event one = *events_.make("a", "1");
  one.id.bytes.fill(7);
  EXPECT_EQ(fates_of(deliver({&one, events_.make("a", "2")})),
            (Fates{Fate::duplicate, Fate::confirmed}));
  EXPECT_EQ(inner_.payloads(), (Payloads{"1", "2"}));
  EXPECT_EQ(database_.held("mail"), 0U);
}

TEST_F(ClaimedSinkTest, WhatFailsWhileNobodyCanBeToldIsTriedAgainAndItsReasonIsTold) {
  const Event* one = events_.make("a", "1");
  const Event* next = events_.make("a", "2");
  refuse("1", Fate::failed);
  for (int i = 0; i < 3; ++i) {
    inner_.may_collect = 0;
    submit({one, next});
    EXPECT_TRUE(poll(2));
    ASSERT_TRUE(sink_->open());
    inner_.may_collect = HeldSink::kAll;
    const auto outcomes = deliver({one, next});
    EXPECT_EQ(fates_of(outcomes), (Fates{Fate::failed, Fate::again})) << "next overtook it";
    EXPECT_EQ(outcomes[0].reason, "refused by the test");
  }
}

TEST_F(ClaimedSinkTest, ACallThatIsKeptDoesNotOutlastItsClaim) {
  const Event* one = events_.make("a", "1");
  inner_.may_collect = 0;
  submit({one});
  EXPECT_TRUE(poll(1));
  clock_.advance(options_.lease);
  ASSERT_TRUE(sink_->open());
  EXPECT_EQ(inner_.opens, 2U) << "it was given up";
  EXPECT_EQ(database_.held("mail"), 0U);
}

TEST_F(ClaimedSinkTest, WhatAnInnerSinkThatBrokeHadIsLetGoOfWithoutCountingIt) {
  const Event* one = events_.make("a", "1");
  for (int i = 0; i < 10; ++i) {
    inner_.may_collect = 0;
    submit({one});
    EXPECT_TRUE(poll(1));
    EXPECT_EQ(database_.held("mail"), 1U);
    inner_.may_collect = HeldSink::kAll;
    inner_.memory.set_available(false);
    EXPECT_FALSE(poll(1));
    EXPECT_FALSE(sink_->open());
    EXPECT_EQ(database_.held("mail"), 0U) << "even while it is away";
    inner_.memory.set_available(true);
    ASSERT_TRUE(sink_->open());
  }
  EXPECT_EQ(fates_of(deliver({one})), (Fates{Fate::confirmed}));
}

TEST_F(ClaimedSinkTest, WhatWasDoneWhileTheDatabaseWentAwayIsCompletedAndNotDoneAgain) {
  const Event* one = events_.make("a", "1");
  inner_.may_collect = 0;
  submit({one});
  EXPECT_TRUE(poll(1));
  inner_.may_collect = HeldSink::kAll;
  faulty_.is_away = true;
  const Result<bool> known = poll(1);
  ASSERT_FALSE(known);
  EXPECT_EQ(known.error().code, Errc::unavailable);
  EXPECT_FALSE(sink_->open());
  faulty_.is_away = false;
  ASSERT_TRUE(sink_->open());
  EXPECT_EQ(fates_of(deliver({one})), (Fates{Fate::duplicate}));
  EXPECT_EQ(inner_.payloads(), (Payloads{"1"}));
}

TEST_F(ClaimedSinkTest, ACompletionAfterTheClaimWasLostIsFenced) {
  const Event* one = events_.make("a", "1");
  inner_.may_collect = 0;
  submit({one});
  EXPECT_TRUE(poll(1));
  clock_.advance(options_.lease - 1s);
  // By the database's clock, which is ahead, the lease has ended: another consumer takes the event.
  clock_.advance(2s);
  MemoryClaimStore other(database_, "mail");
  const Event* const events[] = {one};
  const auto theirs = other.claim(events, 60s);
  ASSERT_TRUE(theirs);
  ASSERT_EQ((*theirs)[0].state, Claim::State::first);
  clock_.advance(-2s);
  inner_.may_collect = HeldSink::kAll;
  EXPECT_EQ(fates_of(collect(1)), (Fates{Fate::again}));
  EXPECT_EQ(database_.completed("mail"), 0U);
  bool done = false;
  ASSERT_TRUE(
      other.complete(std::span(&one->id, 1), std::span(&(*theirs)[0].epoch, 1), {&done, 1}));
  EXPECT_TRUE(done) << "the other's claim is untouched";
  EXPECT_EQ(fates_of(deliver({one})), (Fates{Fate::duplicate}));
}

TEST_F(ClaimedSinkTest, ACallThatOutlastsItsClaimIsGivenUp) {
  inner_.may_collect = 0;
  submit({events_.make("a", "1")});
  EXPECT_TRUE(poll(1));
  clock_.advance(options_.lease);
  inner_.may_collect = HeldSink::kAll;
  submit({events_.make("b", "2")});
  const Result<bool> known = poll(1);
  ASSERT_FALSE(known);
  EXPECT_EQ(known.error().code, Errc::in_doubt);
  EXPECT_EQ(inner_.payloads(), Payloads{}) << "nothing goes on under a claim that may be another's";
}

TEST_F(ClaimedSinkTest, AfterClaimsRanOutOneIsClaimedAtATimeUntilCallsEndInTime) {
  std::vector<const Event*> events;
  for (int i = 0; i < 20; ++i) events.push_back(events_.make("key" + std::to_string(i), "x"));
  inner_.may_collect = 0;
  submit(events);
  EXPECT_TRUE(poll(20));
  clock_.advance(options_.lease);
  EXPECT_FALSE(poll(20));
  inner_.may_collect = HeldSink::kAll;
  ASSERT_TRUE(sink_->open());
  faulty_.claimed.clear();
  for (const Outcome& outcome : deliver(events)) EXPECT_EQ(outcome.fate, Fate::confirmed);
  ASSERT_GE(faulty_.claimed.size(), 2U);
  EXPECT_EQ(faulty_.claimed[0], 1U);
  EXPECT_GT(faulty_.claimed[1], 1U);
}

TEST_F(ClaimedSinkTest, NothingIsStartedUnderAClaimThatRanOutWhileItWasMade) {
  faulty_.after_claim = [this] { clock_.advance(options_.lease); };
  const Event* one = events_.make("a", "1");
  submit({one});
  const Result<bool> known = poll(1);
  ASSERT_FALSE(known);
  EXPECT_EQ(known.error().code, Errc::in_doubt);
  EXPECT_EQ(inner_.submitted, 0U);
  faulty_.after_claim = {};
  ASSERT_TRUE(sink_->open());
  EXPECT_EQ(fates_of(deliver({one})), (Fates{Fate::confirmed}));
}

TEST_F(ClaimedSinkTest, ClosingLetsGoOfWhatIsOnItsWaySoThatTheNextNeedNotWait) {
  const Event* one = events_.make("a", "1");
  inner_.may_collect = 0;
  submit({one});
  EXPECT_TRUE(poll(1));
  EXPECT_EQ(database_.held("mail"), 1U);
  inner_.memory.set_available(false);
  EXPECT_TRUE(sink_->close());
  EXPECT_EQ(database_.held("mail"), 0U);
  const std::size_t opens = inner_.opens;
  EXPECT_TRUE(sink_->close());
  EXPECT_EQ(inner_.opens, opens) << "with nothing held there is nothing to do";
}

TEST_F(ClaimedSinkTest, BeforeItsPaceIsKnownNoMoreIsClaimedThanCanStart) {
  inner_.may_collect = 0;
  std::vector<const Event*> events;
  for (int i = 0; i < 20; ++i)
    events.push_back(events_.make("key" + std::to_string(i / 2), std::to_string(i)));
  submit(events);
  EXPECT_TRUE(poll(20));
  EXPECT_EQ(faulty_.claimed, (std::vector<std::size_t>{4})) << "one of each of four keys";
}

TEST_F(ClaimedSinkTest, QuickCallsAreClaimedAheadAndSlowOnesAreNot) {
  std::vector<const Event*> events;
  for (int i = 0; i < 200; ++i) events.push_back(events_.make("a", std::to_string(i)));
  for (const Outcome& outcome : deliver(events)) EXPECT_EQ(outcome.fate, Fate::confirmed);
  EXPECT_EQ(*std::max_element(faulty_.claimed.begin(), faulty_.claimed.end()), 17U);
  EXPECT_LT(faulty_.claimed.size(), 40U);
  const Payloads payloads = inner_.payloads();
  for (std::size_t i = 0; i < payloads.size(); ++i) EXPECT_EQ(payloads[i], std::to_string(i));

  for (int i = 0; i < 5; ++i) {
    inner_.may_collect = 0;
    submit({events_.make("b", "slow")});
    EXPECT_TRUE(poll(1));
    clock_.advance(options_.lease / 2);
    inner_.may_collect = HeldSink::kAll;
    collect(1);
  }
  faulty_.claimed.clear();
  inner_.may_collect = 0;
  submit(std::vector<const Event*>{events_.make("c", "x"), events_.make("c", "y")});
  EXPECT_TRUE(poll(2));
  EXPECT_EQ(faulty_.claimed, (std::vector<std::size_t>{1}));
}

TEST_F(ClaimedSinkTest, WithAnInnerSinkThatKeepsNoOrderOneOfAKeyIsOnItsWay) {
  HeldSink loose{{.dedup = false, .keeps_order_on_failure = false}};
  ClaimedSink sink(faulty_, loose, clock_, options_);
  ASSERT_TRUE(sink.open());
  EXPECT_TRUE(sink.keeps_order_on_failure());
  loose.memory.decide_by([](const Event& event) {
    return Outcome{event.payload == "1" ? Fate::failed : Fate::confirmed, 0, "refused"};
  });
  const std::vector<const Event*> events{events_.make("a", "0"), events_.make("a", "1"),
                                         events_.make("a", "2")};
  ASSERT_TRUE(sink.submit(events));
  EXPECT_EQ(fates_of(collect_from(sink, 3)), (Fates{Fate::confirmed, Fate::failed, Fate::again}));
  EXPECT_EQ(loose.payloads(), (Payloads{"0"}));
}

TEST_F(ClaimedSinkTest, AFailureHoldsBackItsKeyInEveryBatchSubmittedBeforeItWasHandedOut) {
  refuse("1", Fate::failed);
  submit({events_.make("a", "1"), events_.make("b", "2")});
  submit({events_.make("a", "3"), events_.make("b", "4")});
  EXPECT_EQ(fates_of(collect(2)), (Fates{Fate::failed, Fate::confirmed}));
  EXPECT_EQ(fates_of(collect(2)), (Fates{Fate::again, Fate::confirmed}));
  EXPECT_EQ(inner_.payloads(), (Payloads{"2", "4"}));
  EXPECT_EQ(fates_of(deliver({events_.make("a", "5")})), (Fates{Fate::confirmed}));
}

TEST_F(ClaimedSinkTest, WavesThatEndTogetherAreCompletedTogether) {
  inner_.may_collect = 0;
  for (int i = 0; i < 4; ++i) {
    submit({events_.make("key" + std::to_string(i), "x")});
    EXPECT_TRUE(poll(1));
  }
  inner_.may_collect = HeldSink::kAll;
  for (int i = 0; i < 4; ++i) EXPECT_EQ(fates_of(collect(1)), (Fates{Fate::confirmed}));
  EXPECT_EQ(faulty_.completions, 1);
}

// Every call of the store fails once, before or after its effect, and the relay starts over; or the
// process dies there and another takes over. Nothing is lost, and an effect repeats only if the
// process died.
class EveryVerb : public testing::TestWithParam<std::tuple<bool, bool>> {};

TEST_P(EveryVerb, AFailureAtItLosesNothing) {
  const auto [fails_after, dies] = GetParam();
  for (int at = 1;; ++at) {
    TestClock clock;
    NumberedEvents made;
    MemoryClaimDatabase database(clock);
    MemoryClaimStore store(database, "mail");
    FaultyStore faulty(store);
    HeldSink inner{{.dedup = false, .keeps_order_on_failure = true}};
    inner.memory.decide_by([tried = std::map<std::string, int>{}](const Event& event) mutable {
      const bool refused = event.payload == "2" && ++tried["2"] == 1;
      return Outcome{refused ? Fate::failed : Fate::confirmed, 0, "refused by the test"};
    });
    std::vector<const Event*> events;
    for (int i = 0; i < 9; ++i)
      events.push_back(made.make("key" + std::to_string(i % 4), std::to_string(i)));
    const ClaimedSinkOptions options{.lease = 60s, .calls_max = 2, .ahead_max = 8};
    auto sink = std::make_unique<ClaimedSink>(faulty, inner, clock, options);
    faulty.fails_at = at;
    faulty.fails_after = fails_after;

    int rounds = 0;
    bool was_hit = false;
    std::vector<const Event*> left = events;
    bool is_open = false;
    while (!left.empty()) {
      ASSERT_LT(++rounds, 100);
      if (!is_open) is_open = sink->open().has_value();
      std::vector<Outcome> outcomes(left.size());
      Result<bool> known = false;
      if (is_open && sink->submit(left))
        for (int i = 0; i < 100 && known && !*known; ++i)
          known = sink->collect(outcomes, Duration{0});
      if (!is_open || !known) {
        was_hit = true;
        is_open = false;
        if (dies) sink = std::make_unique<ClaimedSink>(faulty, inner, clock, options);
        clock.advance(1s);
        continue;
      }
      std::vector<const Event*> again;
      for (std::size_t i = 0; i < left.size(); ++i)
        if (!is_safe(outcomes[i])) again.push_back(left[i]);
      left = again;
      clock.advance(10s);
    }
    std::map<std::string, std::vector<int>> of_key;
    std::map<std::string, int> times;
    for (const StoredEvent& one : inner.memory.received()) {
      if (++times[one.payload] == 1) of_key[one.aggregate_id].push_back(std::stoi(one.payload));
    }
    EXPECT_EQ(times.size(), events.size()) << "at call " << at;
    for (const auto& [key, numbers] : of_key)
      EXPECT_TRUE(std::is_sorted(numbers.begin(), numbers.end())) << key << " at call " << at;
    for (const auto& [payload, count] : times)
      EXPECT_TRUE(count == 1 || dies) << payload << " at call " << at;
    EXPECT_EQ(database.completed("mail"), events.size());
    if (!was_hit) {
      EXPECT_GT(at, 8) << "every verb was hit";
      break;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(ClaimedSink, EveryVerb,
                         testing::Combine(testing::Bool(), testing::Bool()));

}  // namespace
}  // namespace dovetail
