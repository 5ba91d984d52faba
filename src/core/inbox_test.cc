#include "core/inbox.h"

#include <gtest/gtest.h>

#include "core/batch.h"
#include "memory/inbox_store.h"

namespace dovetail {
namespace {

class InboxTest : public testing::Test {
 protected:
  void SetUp() override { reopen(); }

  // As after a restart of the process: only what was committed is left.
  void reopen() {
    store_ = std::make_unique<MemoryInboxStore>(
        database_, "stock", [this](const Event& event, MemoryTransaction& transaction) -> Status {
          ++handler_runs_;
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

TEST_F(InboxTest, AFailureLeavesNoTraceAndStopsItsKeyOnly) {
  trouble_["bad"] = Errc::in_doubt;
  const auto outcomes = deliver(
      {event(1, "k", "a"), event(2, "k", "bad"), event(3, "k", "c"), event(4, "other", "d")});
  EXPECT_EQ(outcomes[0].fate, Fate::confirmed);
  EXPECT_EQ(outcomes[1].fate, Fate::failed);
  EXPECT_EQ(outcomes[1].attempts, 1U);
  EXPECT_EQ(outcomes[1].reason, "trouble with it");
  EXPECT_EQ(outcomes[2].fate, Fate::again);
  EXPECT_EQ(outcomes[3].fate, Fate::confirmed);
  EXPECT_EQ(effects_, (Effects{"a", "d"}));
}

TEST_F(InboxTest, ALaterBatchAlreadySubmittedDoesNotOvertakeAFailure) {
  trouble_["bad"] = Errc::in_doubt;
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
  trouble_["away"] = Errc::in_doubt;
  EXPECT_EQ(deliver({away})[0].attempts, 1U);
}

TEST_F(InboxTest, AHandlerCanRejectForGood) {
  trouble_["never"] = Errc::rejected;
  EXPECT_EQ(deliver({event(1, "k", "never")})[0].fate, Fate::rejected);
}

TEST_F(InboxTest, AnEventThatKillsTheProcessIsRejectedAndReplayable) {
  // The process dies inside the handler: the attempt was counted, nothing else is left.
  const Event* killer = event(1, "k", "killer");
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(store_->count_attempt(killer->id, +1).has_value());
    reopen();
  }
  const int runs = handler_runs_;
  const auto outcomes = deliver({killer, event(2, "other", "fine")});
  EXPECT_EQ(outcomes[0].fate, Fate::rejected);
  EXPECT_NE(outcomes[0].reason.find("ended the process 3 times"), std::string::npos);
  EXPECT_EQ(outcomes[1].fate, Fate::confirmed);
  EXPECT_EQ(handler_runs_, runs + 1) << "only the neighbour's handler ran";
  EXPECT_EQ(deliver({killer})[0].fate, Fate::confirmed) << "a replay runs the handler again";
}

TEST_F(InboxTest, AfterADeadSessionEventsAreTriedAloneAndCountedFirst) {
  reopen();  // the session before was never closed
  const auto outcomes = deliver({event(1, "k", "a"), event(2, "k", "b")});
  EXPECT_EQ(outcomes[1].fate, Fate::confirmed);
  EXPECT_EQ(*store_->count_attempt(batches_[0].events()[0].id, 0), 1U) << "counted before it ran";
}

TEST_F(InboxTest, AfterAClosedSessionNothingIsSuspected) {
  ASSERT_TRUE(inbox_->close().has_value());
  reopen();
  EXPECT_EQ(deliver({event(1, "k", "a")})[0].fate, Fate::confirmed);
  EXPECT_EQ(*store_->count_attempt(batches_[0].events()[0].id, 0), 0U);
}

}  // namespace
}  // namespace dovetail
