#include "core/inbox/inbox.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "core/check.h"
#include "core/event/batch.h"
#include "memory/inbox_store.h"

namespace dovetail {
namespace {

class InboxTest : public testing::Test {
 protected:
  void SetUp() override { reopen(); }

  // Like a restart of the process: only committed data is left.
  void reopen() {
    store_ = std::make_unique<MemoryInboxStore>(
        database_, "stock", [this](const Event& event, MemoryTransaction& transaction) -> Status {
          ++handler_runs_;
          attempts_.push_back(*store_->count_attempt(event.id, 0));
          if (const auto wrong = trouble_.find(std::string(event.payload));
              wrong != trouble_.end()) {
            return fail(wrong->second, "trouble with it");
          }
          transaction.on_commit(
              [this, what = std::string(event.payload)] { effects_.push_back(what); });
          return {};
        });
    inbox_ = std::make_unique<Inbox>(*store_, InboxOptions{.attempts_max = 3, .suspects_max = 100});
    ASSERT_TRUE(inbox_->open().has_value());
  }

  const Event* event(std::uint8_t number, std::string_view key, std::string_view what) {
    Event one;
    one.id.bytes[15] = number;
    one.aggregate_type = "order";
    one.aggregate_id = key;
    one.type = "Changed";
    one.payload = what;
    batches_.emplace_back().append(one);
    return &batches_.back().events()[0];
  }

  std::vector<Outcome> deliver(std::vector<const Event*> events) {
    EXPECT_TRUE(inbox_->submit(events).has_value());
    return collect(events.size());
  }
  std::vector<Outcome> collect(std::size_t count) {
    std::vector<Outcome> outcomes(count);
    const auto known = inbox_->collect(outcomes, Duration{0});
    EXPECT_TRUE(known.has_value() && *known);
    return outcomes;
  }

  MemoryInboxDatabase database_;
  std::map<std::string, Errc> trouble_;
  std::vector<std::string> effects_;
  int handler_runs_ = 0;
  std::vector<std::uint32_t> attempts_;  // as the handler found them in each run
  std::unique_ptr<MemoryInboxStore> store_;
  std::unique_ptr<Inbox> inbox_;
  std::deque<Batch> batches_;
};

using Effects = std::vector<std::string>;

TEST_F(InboxTest, AppliesEachEventOnce) {
  const Event* a = event(1, "k", "a");
  const Event* b = event(2, "k", "b");
  EXPECT_EQ(deliver({a, b})[1].fate, Fate::confirmed);
  const auto again = deliver({b, a, a});
  EXPECT_EQ(again[0].fate, Fate::duplicate);
  EXPECT_EQ(again[2].fate, Fate::duplicate);
  EXPECT_EQ(effects_, (Effects{"a", "b"}));
  EXPECT_EQ(database_.applied("stock"), 2U);
  EXPECT_EQ(database_.duplicates("stock"), 3U);
}

TEST_F(InboxTest, TheSameEventTwiceInOneBatchIsAppliedOnce) {
  const Event* a = event(1, "k", "a");
  const auto outcomes = deliver({a, a});
  EXPECT_EQ(outcomes[0].fate, Fate::confirmed);
  EXPECT_EQ(outcomes[1].fate, Fate::duplicate);
  EXPECT_EQ(effects_, (Effects{"a"}));
}

TEST_F(InboxTest, AnIdThatIsUsedTwiceIsParkedAndNeverTakenForADuplicate) {
  ASSERT_EQ(deliver({event(1, "k", "ten euros")})[0].fate, Fate::confirmed);
  const auto outcomes =
      deliver({event(1, "l", "a thousand"), event(2, "m", "b"), event(1, "k", "ten euros")});
  EXPECT_EQ(outcomes[0].fate, Fate::rejected);
  EXPECT_NE(outcomes[0].reason.find("used twice"), std::string::npos) << outcomes[0].reason;
  EXPECT_EQ(outcomes[1].fate, Fate::confirmed);
  EXPECT_EQ(outcomes[2].fate, Fate::duplicate) << "the one that was applied comes again";
  EXPECT_EQ(effects_, (Effects{"ten euros", "b"}));
}

TEST_F(InboxTest, AFailureLeavesNoTraceAndStopsItsKeyOnly) {
  trouble_["bad"] = Errc::failed;
  const auto outcomes = deliver(
      {event(1, "k", "a"), event(2, "k", "bad"), event(3, "k", "c"), event(4, "other", "d")});
  EXPECT_EQ(outcomes[0].fate, Fate::confirmed);
  EXPECT_EQ(outcomes[1].fate, Fate::failed);
  EXPECT_EQ(outcomes[1].reason, "trouble with it");
  EXPECT_EQ(outcomes[2].fate, Fate::again);
  EXPECT_EQ(outcomes[3].fate, Fate::confirmed);
  EXPECT_EQ(effects_, (Effects{"a", "d"}));
}

TEST_F(InboxTest, ALaterBatchAlreadySubmittedDoesNotOvertakeAFailure) {
  trouble_["bad"] = Errc::failed;
  const Event* bad = event(1, "k", "bad");
  const Event* next = event(2, "k", "next");
  const Event* first[] = {bad};
  const Event* second[] = {next};
  ASSERT_TRUE(inbox_->submit(first).has_value());
  ASSERT_TRUE(inbox_->submit(second).has_value());
  EXPECT_EQ(collect(1)[0].fate, Fate::failed);
  EXPECT_EQ(collect(1)[0].fate, Fate::again);
  trouble_.clear();
  const auto outcomes = deliver({bad, next});
  EXPECT_EQ(outcomes[0].fate, Fate::confirmed);
  EXPECT_EQ(outcomes[1].fate, Fate::confirmed);
  EXPECT_EQ(effects_, (Effects{"bad", "next"}));
}

TEST_F(InboxTest, AnUnavailableHandlerBurnsNoAttempt) {
  trouble_["away"] = Errc::unavailable;
  const Event* away = event(1, "k", "away");
  for (int i = 0; i < 10; ++i) EXPECT_EQ(deliver({away})[0].fate, Fate::again);
  EXPECT_EQ(*store_->count_attempt(away->id, 0), 0U);
}

// For example when the handler's table is missing: every event fails, and none is at fault.
TEST_F(InboxTest, AHandlerThatReturnsIsJudgedByTheRelayHoweverOftenItFails) {
  trouble_["bad"] = Errc::failed;
  const Event* one = event(1, "k", "bad");
  const Event* other = event(2, "l", "bad");
  for (int i = 0; i < 10; ++i) {
    for (const Outcome& outcome : deliver({one, other})) EXPECT_EQ(outcome.fate, Fate::failed);
    EXPECT_EQ(*store_->count_attempt(one->id, 0), 0U) << "only a process that dies counts";
  }
}

TEST_F(InboxTest, EveryErrorButNotNowAndNeverIsAFailedAttempt) {
  for (const Errc code : {Errc::failed, Errc::in_doubt, Errc::corrupt, Errc::stopped}) {
    trouble_["bad"] = code;
    EXPECT_EQ(deliver({event(1, "k", "bad")})[0].fate, Fate::failed) << to_string(code);
  }
}

TEST_F(InboxTest, AHandlerCanRejectForGood) {
  trouble_["never"] = Errc::rejected;
  EXPECT_EQ(deliver({event(1, "k", "never")})[0].fate, Fate::rejected);
}

TEST_F(InboxTest, AnEventThatKillsTheProcessIsRejectedAndReplayable) {
  // The process dies inside the handler: the attempt is counted, nothing else is left.
  const Event* killer = event(1, "k", "killer");
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(store_->count_attempt(killer->id, +1).has_value());
    reopen();
  }
  const int runs = handler_runs_;
  EXPECT_EQ(deliver({killer})[0].fate, Fate::again) << "another member may be at it";
  const auto outcomes = deliver({killer, event(2, "other", "fine")});
  EXPECT_EQ(outcomes[0].fate, Fate::rejected);
  EXPECT_NE(outcomes[0].reason.find("3 times"), std::string::npos);
  EXPECT_EQ(outcomes[1].fate, Fate::confirmed);
  EXPECT_EQ(handler_runs_, runs + 1) << "only the neighbour's handler ran";
  EXPECT_EQ(deliver({killer})[0].fate, Fate::confirmed) << "a replay runs the handler again";
}

TEST_F(InboxTest, AttemptsOfMembersThatLiveDoNotCountAgainstAnEvent) {
  reopen();  // the session before was never closed
  const Event* fine = event(1, "k", "fine");
  MemoryInboxStore other(database_, "stock",
                         [](const Event&, MemoryTransaction&) { return Status{}; });
  ASSERT_TRUE(other.count_attempt(fine->id, +3).has_value());
  EXPECT_EQ(deliver({fine})[0].fate, Fate::again);
  EXPECT_EQ(*other.count_attempt(fine->id, -3), 0U) << "only what it had counted itself";
  EXPECT_EQ(deliver({fine})[0].fate, Fate::confirmed);
}

// A connection that breaks at a commit, and is useless until it is opened again.
class BreakingStore final : public InboxStore {
 public:
  explicit BreakingStore(InboxStore& inner) : inner_(inner) {}
  Result<bool> open() override {
    broken_ = false;
    return inner_.open();
  }
  Status begin() override { return broken_ ? gone() : inner_.begin(); }
  Status insert(Events events, std::span<Arrival> arrivals) override {
    return inner_.insert(events, arrivals);
  }
  Status apply(Events events) override { return inner_.apply(events); }
  Status commit(std::uint64_t, std::uint64_t) override {
    inner_.rollback();
    broken_ = true;
    return gone();
  }
  void rollback() override { inner_.rollback(); }
  Result<std::uint32_t> count_attempt(const EventId& id, std::int64_t change) override {
    if (broken_) return fail(Errc::unavailable, "connection lost");
    return inner_.count_attempt(id, change);
  }
  Status close() override { return broken_ ? gone() : inner_.close(); }

 private:
  static Status gone() { return fail(Errc::unavailable, "connection lost"); }
  InboxStore& inner_;
  bool broken_ = false;
};

TEST_F(InboxTest, AProcessThatStopsTakesBackTheAttemptThatAnOutageCutShort) {
  // The session before was never closed, so events are tried alone.
  MemoryInboxStore next(database_, "stock",
                        [](const Event&, MemoryTransaction&) { return Status{}; });
  BreakingStore breaking(next);
  Inbox inbox(breaking, InboxOptions{.attempts_max = 3, .suspects_max = 100});
  ASSERT_TRUE(inbox.open().has_value());
  const Event* const one = event(1, "k", "a");
  ASSERT_TRUE(inbox.submit({&one, 1}).has_value());
  Outcome outcome;
  ASSERT_FALSE(inbox.collect({&outcome, 1}, Duration{0}).has_value());
  EXPECT_EQ(*store_->count_attempt(one->id, 0), 1U);
  ASSERT_TRUE(inbox.close().has_value());
  EXPECT_EQ(*store_->count_attempt(one->id, 0), 0U);
}

// The pruner runs between the two checks of an event that is tried alone.
class ForgettingStore final : public InboxStore {
 public:
  explicit ForgettingStore(InboxStore& inner) : inner_(inner) {}
  Result<bool> open() override { return inner_.open(); }
  Status begin() override { return inner_.begin(); }
  Status insert(Events events, std::span<Arrival> arrivals) override {
    DOVETAIL_TRY(inner_.insert(events, arrivals));
    if (++looks_ == 2) arrivals[0] = Arrival::forgotten;
    return {};
  }
  Status apply(Events events) override { return inner_.apply(events); }
  Status commit(std::uint64_t applied, std::uint64_t duplicates) override {
    return inner_.commit(applied, duplicates);
  }
  void rollback() override { inner_.rollback(); }
  Result<std::uint32_t> count_attempt(const EventId& id, std::int64_t change) override {
    return inner_.count_attempt(id, change);
  }
  Status close() override { return inner_.close(); }

 private:
  InboxStore& inner_;
  int looks_ = 0;
};

TEST_F(InboxTest, WhatIsForgottenWhileItIsTriedIsNotTakenForApplied) {
  // The session before was never closed, so events are tried alone.
  MemoryInboxStore next(database_, "stock",
                        [](const Event&, MemoryTransaction&) { return Status{}; });
  ForgettingStore forgetting(next);
  Inbox inbox(forgetting, InboxOptions{.attempts_max = 3, .suspects_max = 100});
  ASSERT_TRUE(inbox.open().has_value());
  const Event* const one = event(1, "k", "a");
  ASSERT_TRUE(inbox.submit({&one, 1}).has_value());
  Outcome outcome;
  ASSERT_TRUE(inbox.collect({&outcome, 1}, Duration{0}).has_value());
  EXPECT_EQ(outcome.fate, Fate::rejected) << "nobody knows whether it was applied";
  EXPECT_EQ(*store_->count_attempt(one->id, 0), 0U);
  EXPECT_EQ(database_.applied("stock") + database_.duplicates("stock"), 0U);
}

// A connection that breaks in the handlers of some events. The next one works at once or, if the
// whole server goes down, only after open().
class FragileStore final : public InboxStore {
 public:
  explicit FragileStore(InboxStore& inner) : inner_(inner) {}
  Result<bool> open() override {
    is_down_ = false;
    return inner_.open();
  }
  Status begin() override { return is_down_ ? gone() : inner_.begin(); }
  Status insert(Events events, std::span<Arrival> arrivals) override {
    return inner_.insert(events, arrivals);
  }
  Status apply(Events events) override {
    broke_ = std::any_of(events.begin(), events.end(),
                         [&](const Event* one) { return breaking.contains(one->payload); });
    if (broke_) runs_that_broke += 1;
    if (!broke_) return inner_.apply(events);
    is_down_ = takes_the_server_down;
    return gone();
  }
  bool broke() const override { return broke_; }
  Status commit(std::uint64_t applied, std::uint64_t duplicates) override {
    return inner_.commit(applied, duplicates);
  }
  void rollback() override { inner_.rollback(); }
  Result<std::uint32_t> count_attempt(const EventId& id, std::int64_t change) override {
    if (is_down_) return fail(Errc::unavailable, "connection lost");
    return inner_.count_attempt(id, change);
  }
  Status close() override { return inner_.close(); }

  std::set<std::string_view> breaking{};
  bool takes_the_server_down = false;
  int runs_that_broke = 0;

 private:
  static Status gone() { return fail(Errc::unavailable, "connection lost"); }
  InboxStore& inner_;
  bool is_down_ = false;
  bool broke_ = false;
};

class FragileInboxTest : public InboxTest {
 protected:
  void SetUp() override {
    InboxTest::SetUp();
    ASSERT_TRUE(inbox_->close().has_value());
    fragile_ = std::make_unique<FragileStore>(*store_);
    inbox_ = std::make_unique<Inbox>(*fragile_, InboxOptions{.attempts_max = 3});
    ASSERT_TRUE(inbox_->open().has_value());
  }
  // Like the relay: submits uncollected events again after it has opened the sink.
  std::vector<Outcome> insist(const std::vector<const Event*>& events) {
    std::vector<Outcome> outcomes(events.size());
    EXPECT_TRUE(inbox_->submit(events).has_value());
    for (int i = 0; i < 10; ++i) {
      const Result<bool> known = inbox_->collect(outcomes, Duration{0});
      if (known) return outcomes;
      EXPECT_TRUE(inbox_->open().has_value());
      EXPECT_TRUE(inbox_->submit(events).has_value());
    }
    ADD_FAILURE() << "nothing came of it";
    return outcomes;
  }
  std::unique_ptr<FragileStore> fragile_;
};

TEST_F(FragileInboxTest, AnOutageInTheMiddleOfAHandlerBurnsNoAttempt) {
  const Event* unlucky = event(1, "k", "unlucky");
  fragile_->breaking = {"unlucky"};
  EXPECT_EQ(deliver({unlucky})[0].fate, Fate::again);
  EXPECT_EQ(*store_->count_attempt(unlucky->id, 0), 0U);
  fragile_->breaking.clear();
  EXPECT_EQ(deliver({unlucky})[0].fate, Fate::confirmed);
}

TEST_F(FragileInboxTest, AnEventInWhichTheConnectionAlwaysBreaksIsParkedAndItsNeighboursAreNot) {
  fragile_->breaking = {"breaker", "other breaker"};
  const Event* breaker = event(1, "k", "breaker");
  const Event* other = event(2, "l", "other breaker");
  const auto first = deliver({event(3, "m", "a"), breaker, other, event(4, "n", "b")});
  EXPECT_EQ(first[1].fate, Fate::again) << "it may be an outage";
  EXPECT_EQ(effects_, (Effects{"a", "b"}));
  for (std::uint32_t attempt = 1; attempt <= 3; ++attempt) {
    for (const Outcome& outcome : deliver({breaker, other})) {
      EXPECT_EQ(outcome.fate, attempt < 3 ? Fate::failed : Fate::rejected);
      EXPECT_NE(outcome.reason.find("broke every time"), std::string::npos) << outcome.reason;
    }
  }
  EXPECT_EQ(*store_->count_attempt(breaker->id, 0), 0U) << "a replay starts from 0";
}

TEST_F(FragileInboxTest, OutagesThatHitDifferentEventsCountForNone) {
  for (std::uint8_t i = 0; i < 20; ++i) {
    const Event* one = event(i, "k", "unlucky");
    fragile_->breaking = {"unlucky"};
    EXPECT_EQ(deliver({one})[0].fate, Fate::again);
    fragile_->breaking.clear();
    EXPECT_EQ(deliver({one})[0].fate, Fate::confirmed);
  }
}

TEST_F(FragileInboxTest, AnEventThatTakesTheServerDownIsFoundInItsBatchAndParked) {
  fragile_->breaking = {"bomb"};
  fragile_->takes_the_server_down = true;
  const Event* bomb = event(1, "k", "bomb");
  const std::vector<const Event*> batch = {event(2, "m", "a"), bomb, event(3, "n", "b")};
  Fate fate = Fate::again;
  for (int i = 0; i < 10 && (fate == Fate::again || fate == Fate::failed); ++i)
    fate = insist(batch)[1].fate;
  EXPECT_EQ(fate, Fate::rejected);
  EXPECT_EQ(effects_, (Effects{"a", "b"}));
  EXPECT_LE(fragile_->runs_that_broke, 2 * 4 + 2) << "each in a batch and alone, and few more";
}

TEST_F(InboxTest, AfterADeadSessionEventsAreTriedAloneAndCountedFirst) {
  reopen();  // the session before was never closed
  const auto outcomes = deliver({event(1, "k", "a"), event(2, "k", "b")});
  EXPECT_EQ(outcomes[1].fate, Fate::confirmed);
  EXPECT_EQ(attempts_, (std::vector<std::uint32_t>{1, 1})) << "counted before it ran";
  EXPECT_EQ(*store_->count_attempt(batches_[0].events()[0].id, 0), 0U) << "applied, so forgotten";
}

TEST_F(InboxTest, TryingManyAloneLeavesTheRelayTimeForItsLease) {
  std::vector<const Event*> events;
  for (std::uint8_t i = 1; i <= 120; ++i) events.push_back(event(i, "k", i == 7 ? "bad" : "a"));
  trouble_["bad"] = Errc::failed;
  ASSERT_TRUE(inbox_->submit(events).has_value());
  std::vector<Outcome> outcomes(events.size());
  int calls = 1;
  for (; calls < 10; ++calls) {
    const auto known = inbox_->collect(outcomes, Duration{0});
    ASSERT_TRUE(known.has_value());
    if (*known) break;
  }
  EXPECT_EQ(calls, 3);
  EXPECT_EQ(outcomes[5].fate, Fate::confirmed);
  EXPECT_EQ(outcomes[6].fate, Fate::failed);
  EXPECT_EQ(outcomes[119].fate, Fate::again) << "behind the failure, also two calls later";
  EXPECT_EQ(effects_.size(), 6U);
}

TEST_F(InboxTest, AfterAClosedSessionNothingIsSuspected) {
  ASSERT_TRUE(inbox_->close().has_value());
  reopen();
  EXPECT_EQ(deliver({event(1, "k", "a")})[0].fate, Fate::confirmed);
  EXPECT_EQ(*store_->count_attempt(batches_[0].events()[0].id, 0), 0U);
}

}  // namespace
}  // namespace dovetail
