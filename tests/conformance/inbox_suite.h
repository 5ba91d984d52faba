// What every inbox store must do, alone and under the core's inbox. An adapter implements
// InboxUnderTest and instantiates the suite.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "conformance/cases.h"
#include "core/event/batch.h"
#include "core/inbox/inbox.h"
#include "host/host.h"

namespace dovetail::conformance {

// The open transaction, as a test's handler gets it.
struct InboxTransaction {
  std::function<Status(const Event&)> effect{};  // one that commits with the transaction
  std::function<void()> commit{};                // tries to end it; empty: not possible
  std::function<void()> roll_back{};
};
using InboxHandler = std::function<Status(InboxTransaction&, const Event&)>;

// One database with inboxes.
class InboxUnderTest {
 public:
  virtual ~InboxUnderTest() = default;
  // A new store over the same database, like another process. Not opened. Destroying it is the
  // death of that process.
  virtual std::unique_ptr<InboxStore> make(const std::string& consumer, std::uint32_t lane,
                                           InboxHandler handler) = 0;
  // All committed effects, in order.
  virtual std::vector<EventId> effects() = 0;
  // For every consumer, events that could be applied before then may be forgotten. False: this
  // database remembers everything.
  virtual bool forget_before(WallTime) { return false; }
};

struct InboxCase {
  std::string name;
  std::unique_ptr<InboxUnderTest> (*make)();
};

class InboxSuite : public testing::TestWithParam<InboxCase> {
 protected:
  void SetUp() override { database_ = GetParam().make(); }

  static Status take(InboxTransaction& transaction, const Event& event) {
    return transaction.effect(event);
  }
  std::unique_ptr<InboxStore> open(InboxHandler handler = take,
                                   const std::string& consumer = "stock", bool clean = true) {
    auto store = database_->make(consumer, 0, std::move(handler));
    const Result<bool> opened = store->open();
    EXPECT_TRUE(opened) << (opened ? "" : opened.error().text);
    EXPECT_EQ(opened.value_or(!clean), clean);
    return store;
  }
  const Event* event(std::string_view key = "17") {
    Event one;
    one.id = new_event_id();
    one.topic = "orders";
    one.aggregate_type = "order";
    one.aggregate_id = key;
    one.type = "placed";
    one.content_type = "application/json";
    one.payload = "{}";
    one.created_at = system_clock().wall();
    return &batches_.emplace_back().append(one);
  }
  std::vector<const Event*> list(std::size_t count) {
    std::vector<const Event*> all;
    for (std::size_t i = 0; i < count; ++i) all.push_back(event());
    return all;
  }
  static std::vector<EventId> ids(const std::vector<const Event*>& of) {
    std::vector<EventId> all;
    for (const Event* one : of) all.push_back(one->id);
    return all;
  }
  static std::vector<Arrival> insert(InboxStore& store, const std::vector<const Event*>& of) {
    std::vector<Arrival> arrivals(of.size());
    const Status begun = store.begin();
    EXPECT_TRUE(begun) << (begun ? "" : begun.error().text);
    const Status inserted = store.insert(of, arrivals);
    EXPECT_TRUE(inserted) << (inserted ? "" : inserted.error().text);
    return arrivals;
  }
  static std::vector<const Event*> firsts_of(const std::vector<const Event*>& of,
                                             const std::vector<Arrival>& arrivals) {
    std::vector<const Event*> firsts;
    for (std::size_t i = 0; i < of.size(); ++i)
      if (arrivals[i] == Arrival::first) firsts.push_back(of[i]);
    return firsts;
  }
  // The whole procedure. False: it failed and was rolled back.
  static bool consume(InboxStore& store, const std::vector<const Event*>& of) {
    const std::vector<const Event*> firsts = firsts_of(of, insert(store, of));
    const bool applied = (firsts.empty() || store.apply(firsts)) &&
                         store.commit(firsts.size(), of.size() - firsts.size());
    if (!applied) store.rollback();
    return applied;
  }
  static std::vector<Outcome> deliver(Inbox& inbox, const std::vector<const Event*>& of) {
    std::vector<Outcome> outcomes(of.size());
    EXPECT_TRUE(inbox.submit(of));
    const Result<bool> collected = inbox.collect(outcomes, Duration{0});
    EXPECT_TRUE(collected && *collected) << (collected ? "" : collected.error().text);
    return outcomes;
  }

  std::unique_ptr<InboxUnderTest> database_;
  std::deque<Batch> batches_;
};

TEST_P(InboxSuite, RowAndEffectCommitTogetherOrNotAtAll) {
  auto store = open();
  const auto batch = list(3);
  insert(*store, batch);
  ASSERT_TRUE(store->apply(batch));
  store->rollback();
  EXPECT_TRUE(database_->effects().empty());
  EXPECT_EQ(insert(*store, batch), std::vector<Arrival>(3, Arrival::first)) << "no row either";
  ASSERT_TRUE(store->apply(batch));
  ASSERT_TRUE(store->commit(3, 0));
  EXPECT_EQ(database_->effects(), ids(batch)) << "in the order of the batch";
}

TEST_P(InboxSuite, AProcessThatDiesInTheMiddleLeavesNothingBehind) {
  auto store = open();
  const auto batch = list(2);
  insert(*store, batch);
  ASSERT_TRUE(store->apply(batch));
  store.reset();
  EXPECT_TRUE(database_->effects().empty());
  store = open(take, "stock", false);
  ASSERT_TRUE(consume(*store, batch));
  EXPECT_EQ(database_->effects(), ids(batch));
}

TEST_P(InboxSuite, AnEventIsADuplicateFromItsSecondArrivalOn) {
  auto store = open();
  const Event* const twice = event();
  const std::vector<const Event*> batch = {event(), twice, twice};
  EXPECT_EQ(insert(*store, batch),
            (std::vector<Arrival>{Arrival::first, Arrival::first, Arrival::duplicate}));
  ASSERT_TRUE(store->apply(std::vector<const Event*>{batch[0], batch[1]}));
  ASSERT_TRUE(store->commit(2, 1));
  EXPECT_EQ(insert(*store, batch), std::vector<Arrival>(3, Arrival::duplicate));
  ASSERT_TRUE(store->commit(0, 3));
  EXPECT_EQ(database_->effects().size(), 2U);
}

TEST_P(InboxSuite, TheSameIdWithAnotherPayloadIsNeverTakenForADuplicate) {
  auto store = open();
  const Event* const original = event();
  Event other = *original;
  other.payload = "{\"amount\":1000}";
  EXPECT_EQ(insert(*store, {original, &other}),
            (std::vector<Arrival>{Arrival::first, Arrival::conflict}))
      << "in one batch";
  ASSERT_TRUE(store->apply(std::vector<const Event*>{original}));
  ASSERT_TRUE(store->commit(1, 0));
  EXPECT_EQ(insert(*store, {&other, original}),
            (std::vector<Arrival>{Arrival::conflict, Arrival::duplicate}));
  store->rollback();
  Inbox inbox(*store, InboxOptions{});
  ASSERT_TRUE(inbox.open());
  const std::vector<Outcome> outcomes = deliver(inbox, {event("a"), &other, original});
  EXPECT_EQ(outcomes[0].fate, Fate::confirmed);
  EXPECT_EQ(outcomes[1].fate, Fate::rejected);
  EXPECT_NE(outcomes[1].reason.find("used twice"), std::string::npos) << outcomes[1].reason;
  EXPECT_EQ(outcomes[2].fate, Fate::again) << "it stands behind the other on its key";
  EXPECT_EQ(deliver(inbox, {original})[0].fate, Fate::duplicate);
  EXPECT_EQ(database_->effects().size(), 2U);
}

// It failed and was parked for longer than ids are remembered.
TEST_P(InboxSuite, WhatWasTriedAndNotAppliedIsAppliedAtAnyAge) {
  bool is_broken = true;
  auto store = open([&](InboxTransaction& transaction, const Event& one) -> Status {
    if (is_broken) return fail(Errc::rejected, "no such product; check it");
    return transaction.effect(one);
  });
  const Event* const parked = event("a");
  const Event* const never_seen = event("b");
  {
    Inbox inbox(*store, InboxOptions{});
    ASSERT_TRUE(inbox.open());
    EXPECT_EQ(deliver(inbox, {parked})[0].fate, Fate::rejected);
  }
  if (!database_->forget_before(system_clock().wall() + std::chrono::hours(1))) return;
  is_broken = false;
  Inbox inbox(*store, InboxOptions{});
  ASSERT_TRUE(inbox.open());
  EXPECT_EQ(deliver(inbox, {parked})[0].fate, Fate::confirmed);
  EXPECT_EQ(deliver(inbox, {parked})[0].fate, Fate::duplicate);
  EXPECT_EQ(deliver(inbox, {never_seen})[0].fate, Fate::rejected) << "nobody knows";
  EXPECT_EQ(database_->effects(), (std::vector<EventId>{parked->id}));
}

TEST_P(InboxSuite, ConsumersDoNotShareRows) {
  const auto batch = list(1);
  auto stock = open(take, "stock");
  ASSERT_TRUE(consume(*stock, batch));
  auto billing = open(take, "billing");
  ASSERT_TRUE(consume(*billing, batch));
  EXPECT_EQ(database_->effects().size(), 2U);
}

TEST_P(InboxSuite, WhatManyProcessesGetAtOnceIsAppliedOnce) {
  constexpr std::uint32_t kProcesses = 8;
  std::vector<std::vector<const Event*>> rounds;
  for (int round = 0; round < 10; ++round) rounds.push_back(list(3));
  {
    std::vector<std::jthread> threads;
    for (std::uint32_t i = 0; i < kProcesses; ++i)
      threads.emplace_back([&, i] {
        auto store = database_->make("stock", i, take);
        ASSERT_TRUE(store->open());
        for (auto batch : rounds) {
          if (i % 2 == 1) std::reverse(batch.begin(), batch.end());
          EXPECT_TRUE(consume(*store, batch));
        }
      });
  }
  std::vector<EventId> expected;
  for (const auto& round : rounds)
    for (const EventId& id : ids(round)) expected.push_back(id);
  std::vector<EventId> found = database_->effects();
  std::sort(expected.begin(), expected.end());
  std::sort(found.begin(), found.end());
  EXPECT_EQ(found, expected);
}

TEST_P(InboxSuite, AttemptsOutliveTheProcessAndEndWithTheEvent) {
  auto store = open();
  const auto batch = list(1);
  const EventId id = batch[0]->id;
  EXPECT_EQ(store->count_attempt(id, +1).value(), 1U);
  EXPECT_EQ(store->count_attempt(id, +1).value(), 2U);
  store.reset();
  store = open(take, "stock", false);
  EXPECT_EQ(store->count_attempt(id, +1).value(), 3U);
  EXPECT_EQ(store->count_attempt(id, -1).value(), 2U);
  insert(*store, batch);
  store->rollback();
  EXPECT_EQ(store->count_attempt(id, 0).value(), 2U)
      << "rows that were rolled back count for nothing";
  ASSERT_TRUE(consume(*store, batch));
  EXPECT_EQ(store->count_attempt(id, 0).value(), 0U);
  EXPECT_EQ(store->count_attempt(id, -5).value(), 0U) << "never below 0";
}

TEST_P(InboxSuite, ASessionThatWasNotClosedIsNoticed) {
  auto store = open();
  store.reset();
  store = open(take, "stock", false);
  EXPECT_TRUE(store->open().value()) << "a reconnect of a living session is no death";
  ASSERT_TRUE(store->close());
  open(take, "stock", true);
}

TEST_P(InboxSuite, AClosedStoreIsUnavailable) {
  auto store = open();
  ASSERT_TRUE(store->close());
  const Status begun = store->begin();
  ASSERT_FALSE(begun);
  EXPECT_EQ(begun.error().code, Errc::unavailable);
  EXPECT_TRUE(store->close()) << "and closing it again is harmless";
}

TEST_P(InboxSuite, AReconnectRollsBackWhatWasOpen) {
  auto store = open();
  const auto batch = list(1);
  insert(*store, batch);
  ASSERT_TRUE(store->apply(batch));
  ASSERT_TRUE(store->open());
  EXPECT_TRUE(database_->effects().empty());
  EXPECT_TRUE(consume(*store, batch));
}

TEST_P(InboxSuite, AnExceptionOfTheHandlerIsAFailedAttempt) {
  auto store = open([](InboxTransaction&, const Event&) -> Status {
    throw std::runtime_error("no such product");
  });
  const auto batch = list(1);
  insert(*store, batch);
  const Status applied = store->apply(batch);
  ASSERT_FALSE(applied);
  EXPECT_NE(applied.error().code, Errc::unavailable);
  EXPECT_NE(applied.error().text.find("no such product"), std::string::npos);
  store->rollback();
  EXPECT_TRUE(store->begin()) << "the store is of use again";
}

// If the commit succeeded, later events would have inbox rows without effects: lost
// events.
TEST_P(InboxSuite, AHandlerThatEndsTheTransactionIsRejectedAndCommitsNothing) {
  for (const bool commits : {true, false}) {
    bool can_be_tried = true;
    auto store = database_->make(commits ? "commits" : "rolls_back", 0,
                                 [&](InboxTransaction& transaction, const Event& one) -> Status {
                                   const auto& end =
                                       commits ? transaction.commit : transaction.roll_back;
                                   can_be_tried = static_cast<bool>(end);
                                   DOVETAIL_TRY(transaction.effect(one));
                                   if (can_be_tried) end();
                                   return {};
                                 });
    ASSERT_TRUE(store->open());
    const auto batch = list(3);
    insert(*store, batch);
    const Status applied = store->apply(batch);
    store->rollback();
    EXPECT_EQ(static_cast<bool>(applied), !can_be_tried);
    if (!applied) {
      EXPECT_EQ(applied.error().code, Errc::rejected) << applied.error().text;
    }
    EXPECT_TRUE(database_->effects().empty());
    EXPECT_EQ(insert(*store, batch), std::vector<Arrival>(3, Arrival::first));
    store->rollback();
  }
}

TEST_P(InboxSuite, APoisonEventIsFoundOutAndItsNeighboursAreApplied) {
  const Event* const poison = event("bad");
  const std::vector<const Event*> batch = {event("a"), poison, event("b"), event("bad")};
  auto store = open([&](InboxTransaction& transaction, const Event& one) -> Status {
    DOVETAIL_TRY(transaction.effect(one));
    if (one.id == poison->id) return fail(Errc::failed, "no such product; check it");
    return {};
  });
  Inbox inbox(*store, InboxOptions{.attempts_max = 3});
  ASSERT_TRUE(inbox.open());
  std::vector<Outcome> outcomes = deliver(inbox, batch);
  EXPECT_EQ(outcomes[0].fate, Fate::confirmed);
  EXPECT_EQ(outcomes[1].fate, Fate::failed);
  EXPECT_EQ(outcomes[2].fate, Fate::confirmed);
  EXPECT_EQ(outcomes[3].fate, Fate::again) << "it stands behind the poison on its key";
  EXPECT_EQ(database_->effects(), (std::vector<EventId>{batch[0]->id, batch[2]->id}));
  for (int i = 0; i < 5; ++i) {
    outcomes = deliver(inbox, batch);
    EXPECT_EQ(outcomes[0].fate, Fate::duplicate);
    EXPECT_EQ(outcomes[1].fate, Fate::failed) << "the relay judges, which sees the neighbours";
  }
  EXPECT_EQ(store->count_attempt(poison->id, 0).value(), 0U) << "its handler ended no process";
}

TEST_P(InboxSuite, AnOutageCostsNoAttempt) {
  auto store = open([](InboxTransaction&, const Event&) -> Status {
    return fail(Errc::unavailable, "the warehouse is closed; check it");
  });
  Inbox inbox(*store, InboxOptions{.attempts_max = 2});
  ASSERT_TRUE(inbox.open());
  const auto batch = list(1);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(deliver(inbox, batch)[0].fate, Fate::again);
  EXPECT_EQ(store->count_attempt(batch[0]->id, 0).value(), 0U);
}

TEST_P(InboxSuite, AHandlerThatEndsTheProcessIsFoundOut) {
  const Event* const deadly = event("bad");
  const std::vector<const Event*> batch = {event("a"), deadly, event("b")};
  const auto dies = [&](InboxTransaction& transaction, const Event& one) -> Status {
    if (one.id == deadly->id) throw 17;  // for the inbox, it never returns
    return transaction.effect(one);
  };
  // The process dies in the handler: its attempt counts, nothing else happened.
  for (int death = 0; death < 2; ++death) {
    auto store = open(dies, "stock", death == 0);
    ASSERT_TRUE(store->count_attempt(deadly->id, +1));
  }
  auto store = database_->make("stock", 0, dies);
  Inbox inbox(*store, InboxOptions{.attempts_max = 2});
  ASSERT_TRUE(inbox.open());
  std::vector<Outcome> outcomes = deliver(inbox, batch);
  EXPECT_EQ(outcomes[0].fate, Fate::confirmed);
  EXPECT_EQ(outcomes[1].fate, Fate::again) << "another may be at it just now";
  EXPECT_EQ(outcomes[2].fate, Fate::confirmed);
  outcomes = deliver(inbox, batch);
  EXPECT_EQ(outcomes[1].fate, Fate::rejected);
  EXPECT_EQ(outcomes[1].attempts, 2U);
}

TEST_P(InboxSuite, WhatMayHaveBeenForgottenIsNotAppliedAgain) {
  auto store = open();
  const auto known = list(1);
  ASSERT_TRUE(consume(*store, known));
  if (!database_->forget_before(system_clock().wall() + std::chrono::hours(1))) return;
  store = open(take, "stock", false);
  Event old = *event();
  const std::vector<const Event*> batch = {known[0], &old};
  EXPECT_EQ(insert(*store, batch), (std::vector<Arrival>{Arrival::duplicate, Arrival::forgotten}));
  store->rollback();
  Inbox inbox(*store, InboxOptions{});
  ASSERT_TRUE(inbox.open());
  const std::vector<Outcome> outcomes = deliver(inbox, batch);
  EXPECT_EQ(outcomes[0].fate, Fate::duplicate);
  EXPECT_EQ(outcomes[1].fate, Fate::rejected);
  EXPECT_EQ(database_->effects(), ids(known));
}

}  // namespace dovetail::conformance
