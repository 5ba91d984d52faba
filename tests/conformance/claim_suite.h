// What every claim store must do. An adapter implements ClaimsUnderTest and instantiates the
// suite.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "conformance/cases.h"
#include "core/event/batch.h"
#include "core/inbox/claims.h"
#include "host/host.h"

namespace dovetail::conformance {

// One database with claims.
class ClaimsUnderTest {
 public:
  virtual ~ClaimsUnderTest() = default;
  // A new store over the same database, like another process. Not opened.
  virtual std::unique_ptr<ClaimStore> make(const std::string& consumer) = 0;
  // Lets this time pass on the database's clock.
  virtual void pass(Duration duration) { std::this_thread::sleep_for(duration); }
  // Sets the database's clock, while it runs.
  virtual void set_clock(std::chrono::hours step) = 0;
  // The longest lease that a test waits for.
  virtual Duration short_lease() const { return std::chrono::milliseconds(300); }
};

struct ClaimCase {
  std::string name;
  std::unique_ptr<ClaimsUnderTest> (*make)();
};

class ClaimSuite : public testing::TestWithParam<ClaimCase> {
 protected:
  static constexpr Duration kLong = std::chrono::minutes(10);
  using State = Claim::State;

  void SetUp() override {
    database_ = GetParam().make();
    ours_ = open("mail");
    theirs_ = open("mail");
  }
  std::unique_ptr<ClaimStore> open(const std::string& consumer) {
    auto store = database_->make(consumer);
    const Status opened = store->open();
    EXPECT_TRUE(opened) << opened.error().text;
    return store;
  }
  const Event* event() {
    Event one;
    one.id = new_event_id();
    one.topic = "orders";
    one.aggregate_type = "order";
    one.aggregate_id = "17";
    one.type = "changed";
    one.payload = "{}";
    one.created_at = system_clock().wall();
    return &batches_.emplace_back().append(one);
  }
  static std::vector<Claim> claim(ClaimStore& store, const std::vector<const Event*>& events,
                                  Duration lease = kLong) {
    auto claims = store.claim(events, lease);
    EXPECT_TRUE(claims) << claims.error().text;
    if (!claims) return std::vector<Claim>(events.size());
    EXPECT_EQ(claims->size(), events.size());
    return *claims;
  }
  static Claim claim(ClaimStore& store, const Event* one, Duration lease = kLong) {
    return claim(store, std::vector{one}, lease)[0];
  }
  static bool complete(ClaimStore& store, const Event* one, std::int64_t epoch) {
    bool done = false;
    const Status completed = store.complete({&one->id, 1}, {&epoch, 1}, {&done, 1});
    EXPECT_TRUE(completed) << completed.error().text;
    return done;
  }
  static void release(ClaimStore& store, const Event* one, std::int64_t epoch, ReleaseReason how) {
    const Status released = store.release({&one->id, 1}, {&epoch, 1}, how);
    EXPECT_TRUE(released) << released.error().text;
  }

  std::unique_ptr<ClaimsUnderTest> database_;
  std::unique_ptr<ClaimStore> ours_;
  std::unique_ptr<ClaimStore> theirs_;
  std::deque<Batch> batches_;
};

TEST_P(ClaimSuite, WhatIsClaimedIsInProgressForEverybodyElse) {
  const Event* one = event();
  const Claim claim_of_ours = claim(*ours_, one);
  EXPECT_EQ(claim_of_ours.state, State::first);
  EXPECT_EQ(claim_of_ours.attempts, 1U);
  EXPECT_EQ(claim(*theirs_, one).state, State::in_progress);
  EXPECT_EQ(claim(*ours_, one).state, State::in_progress) << "also for the one who holds it";
}

TEST_P(ClaimSuite, WhatIsCompletedIsADuplicateFromThenOn) {
  const Event* one = event();
  EXPECT_TRUE(complete(*ours_, one, claim(*ours_, one).epoch));
  EXPECT_EQ(claim(*theirs_, one).state, State::duplicate);
  EXPECT_EQ(claim(*open("mail"), one).state, State::duplicate) << "after a restart, too";
}

TEST_P(ClaimSuite, TheSameIdWithAnotherPayloadIsNeverTakenForADuplicate) {
  const Event* one = event();
  Event other = *one;
  other.payload = "{\"amount\":1000}";
  const std::int64_t epoch = claim(*ours_, one).epoch;
  EXPECT_EQ(claim(*theirs_, &other).state, State::conflict) << "while it is held";
  EXPECT_TRUE(complete(*ours_, one, epoch));
  EXPECT_EQ(claim(*theirs_, &other).state, State::conflict);
  EXPECT_EQ(claim(*theirs_, one).state, State::duplicate);
}

TEST_P(ClaimSuite, EachConsumerHasClaimsOfItsOwn) {
  const Event* one = event();
  const auto other = open("stock");
  EXPECT_TRUE(complete(*ours_, one, claim(*ours_, one).epoch));
  const Claim claim_of_other = claim(*other, one);
  EXPECT_EQ(claim_of_other.state, State::first);
  EXPECT_TRUE(complete(*other, one, claim_of_other.epoch));
}

TEST_P(ClaimSuite, TheAnswersStandInTheOrderOfTheEvents) {
  const Event* done = event();
  const Event* held = event();
  const Event* fresh = event();
  EXPECT_TRUE(complete(*ours_, done, claim(*ours_, done).epoch));
  claim(*theirs_, held);
  const auto claims = claim(*ours_, {fresh, held, done, event()});
  EXPECT_EQ(claims[0].state, State::first);
  EXPECT_EQ(claims[1].state, State::in_progress);
  EXPECT_EQ(claims[2].state, State::duplicate);
  EXPECT_EQ(claims[3].state, State::first);
}

TEST_P(ClaimSuite, NothingAskedIsNothingAnswered) {
  EXPECT_TRUE(claim(*ours_, std::vector<const Event*>{}).empty());
  EXPECT_TRUE(ours_->complete({}, {}, {}));
  EXPECT_TRUE(ours_->release({}, {}, ReleaseReason::failed));
}

TEST_P(ClaimSuite, AClaimWhoseLeaseHasEndedIsTakenAndItsHolderFenced) {
  const Event* one = event();
  const Claim old = claim(*ours_, one, database_->short_lease());
  database_->pass(database_->short_lease() + std::chrono::milliseconds(50));
  const Claim taken = claim(*theirs_, one);
  EXPECT_EQ(taken.state, State::first);
  EXPECT_EQ(taken.attempts, 2U) << "the one that ended counts";
  EXPECT_NE(taken.epoch, old.epoch);
  EXPECT_FALSE(complete(*ours_, one, old.epoch)) << "it is another's by now";
  release(*ours_, one, old.epoch, ReleaseReason::untried);
  release(*ours_, one, old.epoch, ReleaseReason::parked);
  EXPECT_EQ(claim(*ours_, one).state, State::in_progress) << "the holder's claim is untouched";
  EXPECT_TRUE(complete(*theirs_, one, taken.epoch));
}

TEST_P(ClaimSuite, AClaimWhoseLeaseHasEndedAndThatNobodyTookCanBeCompleted) {
  const Event* one = event();
  const Claim old = claim(*ours_, one, database_->short_lease());
  database_->pass(database_->short_lease() + std::chrono::milliseconds(50));
  EXPECT_TRUE(complete(*ours_, one, old.epoch));
  EXPECT_EQ(claim(*theirs_, one).state, State::duplicate);
}

TEST_P(ClaimSuite, CompletingTwiceChangesNothing) {
  const Event* one = event();
  const Claim held = claim(*ours_, one);
  EXPECT_TRUE(complete(*ours_, one, held.epoch));
  complete(*ours_, one, held.epoch);
  EXPECT_EQ(claim(*ours_, one).state, State::duplicate);
}

TEST_P(ClaimSuite, WhatIsLetGoOfCanBeClaimedAtOnceAndOnlyAFailureCounts) {
  const Event* one = event();
  release(*ours_, one, claim(*ours_, one).epoch, ReleaseReason::untried);
  Claim held = claim(*theirs_, one);
  EXPECT_EQ(held.state, State::first);
  EXPECT_EQ(held.attempts, 1U);
  release(*theirs_, one, held.epoch, ReleaseReason::failed);
  held = claim(*ours_, one);
  EXPECT_EQ(held.attempts, 2U);
  release(*ours_, one, held.epoch, ReleaseReason::untried);
  held = claim(*ours_, one);
  EXPECT_EQ(held.attempts, 2U);
  release(*ours_, one, held.epoch, ReleaseReason::parked);
  EXPECT_EQ(claim(*ours_, one).attempts, 1U) << "a replay starts from 0";
}

TEST_P(ClaimSuite, LettingGoTwiceTakesBackOneAttemptOnly) {
  const Event* one = event();
  release(*ours_, one, claim(*ours_, one).epoch, ReleaseReason::failed);
  const Claim second = claim(*ours_, one);
  EXPECT_EQ(second.attempts, 2U);
  for (int i = 0; i < 3; ++i) release(*ours_, one, second.epoch, ReleaseReason::untried);
  EXPECT_EQ(claim(*ours_, one).attempts, 2U);
}

TEST_P(ClaimSuite, WhatWasLetGoOfCannotBeCompletedUnderTheOldEpoch) {
  const Event* one = event();
  const Claim old = claim(*ours_, one);
  release(*ours_, one, old.epoch, ReleaseReason::parked);
  EXPECT_FALSE(complete(*ours_, one, old.epoch));
  const Claim next = claim(*theirs_, one);
  EXPECT_EQ(next.state, State::first);
  EXPECT_NE(next.epoch, old.epoch) << "no claim of the event ever has the same";
  EXPECT_FALSE(complete(*ours_, one, old.epoch));
  EXPECT_TRUE(complete(*theirs_, one, next.epoch));
}

TEST_P(ClaimSuite, ManyAreClaimedAndCompletedInOneCall) {
  std::vector<const Event*> events;
  for (int i = 0; i < 500; ++i) events.push_back(event());
  const auto claims = claim(*ours_, events);
  const Event* lost = events[250];
  release(*ours_, lost, claims[250].epoch, ReleaseReason::untried);
  std::vector<EventId> ids;
  std::vector<std::int64_t> epochs;
  for (std::size_t i = 0; i < events.size(); ++i) {
    ids.push_back(events[i]->id);
    epochs.push_back(claims[i].epoch);
  }
  const auto done = std::make_unique<bool[]>(events.size());
  ASSERT_TRUE(ours_->complete(ids, epochs, {done.get(), events.size()}));
  for (std::size_t i = 0; i < events.size(); ++i) EXPECT_EQ(done[i], i != 250) << i;
}

TEST_P(ClaimSuite, OfManyWhoClaimAtOnceOneHasIt) {
  constexpr std::size_t kThreads = 4;
  constexpr std::size_t kEvents = 100;
  std::vector<const Event*> events;
  for (std::size_t i = 0; i < kEvents; ++i) events.push_back(event());
  std::array<std::vector<Claim>, kThreads> claims;
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      const auto store = open("mail");
      // Each in a different order, so that they meet.
      for (std::size_t i = 0; i < kEvents; i += 10) {
        const std::size_t from = t % 2 == 0 ? i : kEvents - 10 - i;
        std::vector<const Event*> some(events.begin() + static_cast<std::ptrdiff_t>(from),
                                       events.begin() + static_cast<std::ptrdiff_t>(from + 10));
        if (t > 1) std::reverse(some.begin(), some.end());
        for (const Claim& one : claim(*store, some)) claims[t].push_back(one);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::size_t firsts = 0;
  for (const auto& of_thread : claims)
    for (const Claim& one : of_thread) {
      EXPECT_NE(one.state, State::duplicate);
      if (one.state == State::first) ++firsts;
    }
  EXPECT_EQ(firsts, kEvents);
}

TEST_P(ClaimSuite, AClaimEndsAfterItsTermThoughTheClockWasSetBack) {
  for (const auto step : {std::chrono::hours(-1), std::chrono::hours(-48)}) {
    const Event* one = event();
    claim(*ours_, one, database_->short_lease());
    database_->set_clock(step);
    EXPECT_EQ(claim(*theirs_, one).state, State::in_progress) << "its holder may be at work";
    database_->pass(database_->short_lease() + std::chrono::milliseconds(50));
    const Claim taken = claim(*theirs_, one);
    EXPECT_EQ(taken.state, State::first) << step.count() << " h";
    EXPECT_EQ(taken.attempts, 2U);
  }
}

TEST_P(ClaimSuite, AHolderKeepsItsClaimWhenTheClockIsSetBack) {
  for (const auto step : {std::chrono::hours(-1), std::chrono::hours(-48)}) {
    const Event* one = event();
    const Claim held = claim(*ours_, one);
    database_->set_clock(step);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(claim(*theirs_, one).state, State::in_progress);
    EXPECT_TRUE(complete(*ours_, one, held.epoch)) << step.count() << " h";
  }
}

// A claim may end early then; a late holder is told.
TEST_P(ClaimSuite, OneHolderCompletesWhenTheClockIsSetAhead) {
  for (const auto step : {std::chrono::hours(1), std::chrono::hours(48)}) {
    const Event* one = event();
    const Claim held = claim(*ours_, one);
    database_->set_clock(step);
    const Claim next = claim(*theirs_, one);
    const bool is_taken = next.state == State::first;
    EXPECT_EQ(complete(*ours_, one, held.epoch), !is_taken) << step.count() << " h";
    EXPECT_EQ(is_taken && complete(*theirs_, one, next.epoch), is_taken);
    EXPECT_EQ(claim(*ours_, one).state, State::duplicate);
  }
}

TEST_P(ClaimSuite, OpeningAgainKeepsWhatIsHeld) {
  const Event* one = event();
  const Claim held = claim(*ours_, one);
  ASSERT_TRUE(ours_->open());
  EXPECT_EQ(claim(*ours_, one).state, State::in_progress);
  EXPECT_TRUE(complete(*ours_, one, held.epoch));
}

}  // namespace dovetail::conformance
