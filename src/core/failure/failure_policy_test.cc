#include "core/failure/failure_policy.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>
#include <vector>

namespace dovetail {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

EventId id_of(std::uint64_t number) {
  EventId id;
  for (std::size_t i = 0; i < 8; ++i)
    id.bytes[15 - i] = static_cast<std::uint8_t>(number >> (8 * i));
  return id;
}

// One event per key, named like its key.
class FailurePolicyTest : public testing::Test {
 protected:
  Judgement fail(std::uint64_t key, Fate fate = Fate::failed) {
    const Judgement judged = policy_->failed(id_of(key), key, fate, attempts_[key], now_, random_);
    attempts_[key] = judged.attempts;
    return judged;
  }
  void pass(std::uint64_t key) { policy_->confirmed(id_of(key), key); }
  bool end() { return policy_->end_batch(now_, random_); }
  // Batches of one event.
  Judgement fail_alone(std::uint64_t key, Fate fate = Fate::failed) {
    const Judgement judged = fail(key, fate);
    end();
    return judged;
  }
  void pass_alone(std::uint64_t key) {
    pass(key);
    end();
  }
  void make_sick() {
    for (std::uint64_t key = 1; key <= options_.sick_keys; ++key) fail(key);
    end();
    ASSERT_TRUE(policy_->is_sick());
  }
  void restart() { policy_.emplace(options_); }

  FailurePolicyOptions options_;
  std::optional<FailurePolicy> policy_{FailurePolicyOptions{}};
  std::map<std::uint64_t, std::uint32_t> attempts_;
  TimePoint now_{hours(1)};
  Random random_{7};
};

TEST_F(FailurePolicyTest, AnEventThatFailsWhileOthersPassIsParkedAfterItsAttempts) {
  for (std::uint32_t i = 0; i < options_.attempts_max; ++i) {
    const Judgement judged = fail_alone(1);
    ASSERT_FALSE(judged.parks) << i;
    EXPECT_EQ(judged.attempts, i);
    pass_alone(100 + i);
    now_ += judged.pause;
  }
  const Judgement last = fail_alone(1);
  EXPECT_TRUE(last.parks);
  EXPECT_EQ(last.attempts, options_.attempts_max);
  EXPECT_FALSE(policy_->is_sick());
}

TEST_F(FailurePolicyTest, ByDefaultTheAttemptsOfAPoisonEventSpanMinutesToHours) {
  Duration span{0};
  for (;;) {
    const Judgement judged = fail_alone(1);
    if (judged.parks) break;
    span += judged.pause;
    now_ += judged.pause;
    pass_alone(2);
  }
  EXPECT_GE(span, minutes(20));
  EXPECT_LE(span, hours(2));
}

TEST_F(FailurePolicyTest,
       WithoutANeighbourThatPassesNothingCountsAndTheLongestPauseIsThatOfASickSink) {
  pass_alone(2);
  Duration pause{0};
  for (int i = 0; i < 1000; ++i) {
    const Judgement judged = fail_alone(1);
    ASSERT_FALSE(judged.parks);
    ASSERT_EQ(judged.attempts, 0U);
    pause = judged.pause;
    ASSERT_LE(pause, seconds(15));
    now_ += pause;
    if (i % 3 == 0) policy_->answered(id_of(50));
  }
  EXPECT_GE(pause, seconds(7));
}

TEST_F(FailurePolicyTest, ARunThatEndsNeedsOneNeighbourOnly) {
  options_.once_is_enough = true;
  options_.attempts_max = 4;
  restart();
  for (int i = 0; i < 10; ++i) EXPECT_EQ(fail_alone(1).attempts, 0U);
  pass_alone(2);
  for (std::uint32_t i = 1; i < 4; ++i) EXPECT_EQ(fail_alone(1).attempts, i);
  EXPECT_TRUE(fail_alone(1).parks);
}

TEST_F(FailurePolicyTest, TheOwnKeyIsNoNeighbour) {
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(fail_alone(1).attempts, 0U);
    policy_->confirmed(id_of(900 + static_cast<std::uint64_t>(i)), 1);
    end();
  }
  pass_alone(2);
  policy_->confirmed(id_of(1000), 1);
  end();
  EXPECT_EQ(fail_alone(1).attempts, 1U) << "another key passed, and then its own";
}

TEST_F(FailurePolicyTest, ManyKeysThatFailMakeTheSinkSickAndOneThatPassesMakesItWell) {
  for (std::uint64_t key = 1; key < options_.sick_keys; ++key) fail_alone(key);
  EXPECT_FALSE(policy_->is_sick());
  fail_alone(options_.sick_keys);
  EXPECT_TRUE(policy_->is_sick());
  pass(50);
  EXPECT_TRUE(end()) << "it says so";
  EXPECT_FALSE(policy_->is_sick());
}

TEST_F(FailurePolicyTest, ManyPoisonEventsInABatchOthersPassInAreNoSickSink) {
  pass(100);
  for (std::uint64_t key = 1; key <= 50; ++key) fail(key);
  pass(101);
  end();
  EXPECT_FALSE(policy_->is_sick());
}

TEST_F(FailurePolicyTest, KeysThatFailWhileOthersPassProveNothingAboutTheSink) {
  for (std::uint32_t i = 0; i <= options_.suspect_attempts; ++i) {
    for (std::uint64_t key = 1; key <= 20; ++key) fail(key);
    pass(100);
    end();
  }
  for (std::uint64_t key = 1; key <= 20; ++key) fail(key);
  end();
  EXPECT_FALSE(policy_->is_sick()) << "a new key is not kept waiting for them";
}

TEST_F(FailurePolicyTest, WhileTheSinkIsSickNothingCountsAndNothingIsParked) {
  options_.attempts_max = 1;
  restart();
  make_sick();
  for (int i = 0; i < 200; ++i) {
    policy_->probe_sent();
    for (std::uint64_t key = 1; key <= 3; ++key) {
      const Judgement judged = fail(key);
      ASSERT_FALSE(judged.parks);
      ASSERT_EQ(judged.attempts, 0U);
      ASSERT_LE(judged.pause, seconds(15));
    }
    end();
    ASSERT_TRUE(policy_->is_sick());
    now_ += policy_->probe_at() - now_;
  }
}

TEST_F(FailurePolicyTest, ASickSinkIsProbedWithGrowingPausesAndAtLeastEvery15Seconds) {
  make_sick();
  Duration last{0};
  for (int i = 0; i < 50; ++i) {
    const Duration pause = policy_->probe_at() - now_;
    EXPECT_GT(pause, Duration{0});
    EXPECT_LE(pause, seconds(15));
    EXPECT_GE(2 * pause, last / 2);
    last = pause;
    now_ = policy_->probe_at();
    policy_->probe_sent();
    fail_alone(1);
  }
  EXPECT_GE(last, milliseconds(7500));
}

TEST_F(FailurePolicyTest, WhatWasSentBeforeTheSinkWasSickDoesNotPutOffTheProbe) {
  make_sick();
  const TimePoint probe_at = policy_->probe_at();
  for (std::uint64_t key = 10; key < 50; ++key) fail_alone(key);
  EXPECT_EQ(policy_->probe_at(), probe_at);
}

TEST_F(FailurePolicyTest, AProbeThatTheSinkKnewIsFollowedByAnotherAtOnce) {
  make_sick();
  now_ = policy_->probe_at();
  policy_->probe_sent();
  policy_->answered(id_of(70));
  end();
  EXPECT_TRUE(policy_->is_sick());
  EXPECT_EQ(policy_->probe_at(), now_);
}

TEST_F(FailurePolicyTest, ABusyReceiverCountsNothingForAWhileAndThenAsAFailure) {
  const TimePoint begin = now_;
  while (now_ - begin < options_.busy_for) {
    const Judgement judged = fail_alone(1, Fate::busy);
    ASSERT_EQ(judged.attempts, 0U);
    ASSERT_LE(judged.pause, seconds(15));
    pass_alone(2);
    now_ += judged.pause;
  }
  fail_alone(1, Fate::busy);
  pass_alone(2);
  EXPECT_EQ(fail_alone(1, Fate::busy).attempts, 1U);
}

TEST_F(FailurePolicyTest, AnOutageInBetweenCostsABusyEventNoAttempt) {
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(fail_alone(1, i % 3 == 1 ? Fate::failed : Fate::busy).attempts, 0U);
    pass_alone(2);
  }
}

TEST_F(FailurePolicyTest, AFailureWhileTheSinkIsSickNeverCounts) {
  make_sick();
  policy_->probe_sent();
  fail_alone(1);
  for (int i = 0; i < 3; ++i) pass_alone(50);
  EXPECT_EQ(fail_alone(1).attempts, 0U);
  pass_alone(50);
  EXPECT_EQ(fail_alone(1).attempts, 1U);
}

TEST_F(FailurePolicyTest, ManyBusyKeysAreASickSinkToo) {
  for (std::uint64_t key = 1; key <= options_.sick_keys; ++key) fail_alone(key, Fate::busy);
  EXPECT_TRUE(policy_->is_sick());
}

TEST_F(FailurePolicyTest, WhatWasNotTriedSaysNothing) {
  for (std::uint64_t key = 1; key <= 50; ++key) {
    EXPECT_EQ(fail_alone(key, Fate::again).attempts, 0U);
    pass_alone(100);
    EXPECT_EQ(fail_alone(key, Fate::again).attempts, 0U);
  }
  for (std::uint64_t key = 1; key <= 50; ++key) fail_alone(key, Fate::again);
  EXPECT_FALSE(policy_->is_sick());
}

TEST_F(FailurePolicyTest, WhatIsRememberedIsBoundedAndTheRestWaits) {
  options_.events_max = 10;
  restart();
  for (std::uint64_t key = 1; key <= 100; ++key) {
    const Judgement judged = fail(key);
    EXPECT_LE(judged.pause, seconds(15));
  }
  pass(1000);
  end();
  std::uint32_t counted = 0;
  for (std::uint64_t key = 1; key <= 100; ++key) counted += fail(key).attempts;
  EXPECT_EQ(counted, 10U);
  // When those end, there is room.
  for (std::uint64_t key = 1; key <= 10; ++key) pass(key);
  fail(50);
  pass(1001);
  EXPECT_EQ(fail(50).attempts, 1U);
}

// In any history: an event is parked only after attempts_max + 1 failures with another key
// confirmed after each but the last, and a wait that counts nothing is at most 15 seconds.
RC_GTEST_PROP(FailurePolicyProperties, OnlyWhatFailsWhileOthersPassIsEverParked,
              (std::uint64_t seed)) {
  Random random(seed);
  FailurePolicyOptions options;
  options.attempts_max = static_cast<std::uint32_t>(1 + random.below(4));
  FailurePolicy policy(options);
  struct Seen {
    std::uint32_t attempts = 0;
    std::uint32_t proven = 0;
    bool failed = false;
    bool other_passed = false;
  };
  std::map<std::uint64_t, Seen> seen;
  const std::uint64_t keys = 2 + random.below(10);
  TimePoint now{hours(1)};
  for (int i = 0; i < 2000; ++i) {
    const std::uint64_t key = 1 + random.below(keys);
    now += milliseconds(random.below(20'000));
    if (policy.is_sick() && now >= policy.probe_at()) policy.probe_sent();
    const std::uint64_t dice = random.below(10);
    Seen& own = seen[key];
    if (dice < 3) {
      policy.confirmed(id_of(key), key);
      own = Seen{};
      for (auto& [other, one] : seen)
        if (other != key) one.other_passed = true;
    } else if (dice < 9) {
      if (own.failed && own.other_passed) ++own.proven;
      own.failed = true;
      own.other_passed = false;
      const Judgement judged =
          policy.failed(id_of(key), key, Fate::failed, own.attempts, now, random);
      RC_ASSERT(judged.attempts <= own.proven);
      if (judged.parks) RC_ASSERT(own.proven >= options.attempts_max);
      if (judged.attempts == own.attempts) RC_ASSERT(judged.pause <= seconds(15));
      own.attempts = judged.attempts;
      if (judged.parks) own = Seen{};
    } else {
      policy.answered(id_of(key));
    }
    if (random.chance(0.7)) policy.end_batch(now, random);
    if (policy.is_sick()) RC_ASSERT(policy.probe_at() <= now + seconds(15));
  }
}

}  // namespace
}  // namespace dovetail
