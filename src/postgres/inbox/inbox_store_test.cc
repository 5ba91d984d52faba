#include "postgres/inbox/inbox_store.h"

#include "postgres/testing/test_inbox.h"

namespace dovetail::postgres {
namespace {

class PostgresInbox : public InboxTest {};

TEST_F(PostgresInbox, RowAndEffectCommitTogetherOrNotAtAll) {
  auto store = store_with(count_one);
  const std::vector<const Event*> batch = {event(), event(), event()};
  ASSERT_TRUE(apply(*store, batch));
  store->rollback();
  EXPECT_EQ(effects() + inbox(), 0);

  ASSERT_TRUE(apply(*store, batch));
  EXPECT_EQ(effects() + inbox(), 0) << "nothing is visible before the commit";
  ASSERT_TRUE(store->commit(3, 0));
  EXPECT_EQ(effects(), 3);
  EXPECT_EQ(inbox(), 3);

  EXPECT_EQ(insert(*store, batch), std::vector<Arrival>(3, Arrival::duplicate));
  ASSERT_TRUE(store->commit(0, 3));
  EXPECT_EQ(text(connection, "SELECT applied || ',' || duplicates FROM dovetail.consumer_session"),
            "3,3");
}

TEST_F(PostgresInbox, AnEventThatNoHandlerWantsIsNotCountedAsApplied) {
  InboxStoreOptions of_placed = options(count_one);
  of_placed.handlers[0].types = {"placed"};
  auto store = opened(std::move(of_placed));
  ASSERT_TRUE(apply(*store, {event("placed"), event("cancelled"), event("cancelled")}));
  ASSERT_TRUE(store->commit(3, 0));
  EXPECT_EQ(effects(), 1);
  EXPECT_EQ(text(connection, "SELECT applied || ',' || duplicates FROM dovetail.consumer_session"),
            "1,0");
}

TEST_F(PostgresInbox, WhatTheSourceIsToldIsOnDiskWhateverTheServersDefaultIs) {
  must(connection, "ALTER DATABASE " + database.name + " SET synchronous_commit = off");
  auto store = store_with([](Invocation& invocation, const Event&) {
    return invocation.queue(
        "INSERT INTO effect (n) VALUES ((current_setting('synchronous_commit') = 'on')::int)");
  });
  ASSERT_TRUE(apply(*store, {event()}));
  ASSERT_TRUE(store->commit(1, 0));
  EXPECT_EQ(number(connection, "SELECT sum(n) FROM effect"), 1);
  must(connection, "ALTER DATABASE " + database.name + " RESET synchronous_commit");
}

TEST_F(PostgresInbox, OneEventTwiceInABatchIsAppliedOnce) {
  auto store = store_with(count_one);
  const Event* const twice = event();
  const std::vector<const Event*> batch = {event(), twice, event(), twice};
  EXPECT_EQ(insert(*store, batch), (std::vector<Arrival>{Arrival::first, Arrival::first,
                                                         Arrival::first, Arrival::duplicate}));
  const std::vector<const Event*> firsts(batch.begin(), batch.begin() + 3);
  ASSERT_TRUE(store->apply(firsts));
  ASSERT_TRUE(store->commit(3, 1));
  EXPECT_EQ(effects(), 3);
}

TEST_F(PostgresInbox, EachHandlerAppliesWhatItWantsInItsOrderAndOnce) {
  std::vector<std::string> seen;
  const auto note = [&](std::string name) {
    return [&seen, name](Invocation&, const Event& one) {
      seen.push_back(name + ":" + std::string(one.aggregate_id));
      return Status{};
    };
  };
  InboxStoreOptions two = options(note("all"));
  two.handlers[0].name = "stock.all";
  two.handlers.push_back(cpp_handler("stock.placed", {"placed", "return.*"}, note("placed")));
  auto store = opened(two);
  const std::vector<const Event*> batch = {event("placed", "3"), event("paid", "2"),
                                           event("return.asked", "1")};
  ASSERT_TRUE(apply(*store, batch));
  ASSERT_TRUE(store->commit(3, 0));
  EXPECT_EQ(seen, (std::vector<std::string>{"all:3", "all:2", "all:1", "placed:3", "placed:1"}));
  EXPECT_EQ(inbox(), 5);

  // A handler that is added later gets repeated events; the others do not.
  seen.clear();
  ASSERT_TRUE(store->close());
  two.handlers.push_back(cpp_handler("stock.late", {"paid"}, note("late")));
  store = opened(two);
  EXPECT_EQ(insert(*store, batch),
            (std::vector<Arrival>{Arrival::duplicate, Arrival::first, Arrival::duplicate}));
  const Event* const paid[] = {batch[1]};
  ASSERT_TRUE(store->apply(paid));
  ASSERT_TRUE(store->commit(1, 2));
  EXPECT_EQ(seen, std::vector<std::string>{"late:2"});
}

TEST_F(PostgresInbox, AnEventThatNobodyWantsIsAppliedByNobody) {
  InboxStoreOptions picky = options(count_one);
  picky.handlers[0].types = {"paid"};
  auto store = opened(picky);
  const std::vector<const Event*> batch = {event("placed")};
  EXPECT_EQ(insert(*store, batch), std::vector<Arrival>{Arrival::first});
  ASSERT_TRUE(store->apply(batch));
  ASSERT_TRUE(store->commit(1, 0));
  EXPECT_EQ(effects() + inbox(), 0);
}

TEST_F(PostgresInbox, ConsumersDoNotShareRows) {
  auto stock = store_with(count_one);
  InboxStoreOptions other = options(count_one);
  other.consumer = other.handlers[0].name = "billing";
  auto billing = opened(other);
  const std::vector<const Event*> batch = {event()};
  ASSERT_TRUE(apply(*stock, batch));
  ASSERT_TRUE(stock->commit(1, 0));
  ASSERT_TRUE(apply(*billing, batch));
  ASSERT_TRUE(billing->commit(1, 0));
  EXPECT_EQ(effects(), 2);
}

TEST_F(PostgresInbox, ManyStoresThatInsertTheSameAtOnceApplyItOnce) {
  constexpr int kStores = 16;
  constexpr int kRounds = 20;
  std::vector<std::vector<const Event*>> rounds;
  for (int round = 0; round < kRounds; ++round) rounds.push_back({event(), event(), event()});
  std::atomic<int> applied{0};
  std::atomic<int> refused{0};
  {
    std::vector<std::jthread> threads;
    for (std::uint32_t i = 0; i < kStores; ++i)
      threads.emplace_back([&, i] {
        PostgresInboxStore store(options(count_one, i));
        ASSERT_TRUE(store.open());
        for (auto batch : rounds) {
          // In any order: rows are inserted in a fixed order, so that nobody waits in a circle.
          if (i % 2 == 1) std::reverse(batch.begin(), batch.end());
          const std::vector<Arrival> arrivals = insert(store, batch);
          std::vector<const Event*> firsts;
          for (std::size_t n = 0; n < batch.size(); ++n)
            if (arrivals[n] == Arrival::first) firsts.push_back(batch[n]);
          ASSERT_TRUE(firsts.empty() || store.apply(firsts));
          ASSERT_TRUE(store.commit(firsts.size(), batch.size() - firsts.size()));
          applied += static_cast<int>(firsts.size());
          refused += static_cast<int>(batch.size() - firsts.size());
        }
      });
  }
  EXPECT_EQ(applied, kRounds * 3);
  EXPECT_EQ(refused, kRounds * 3 * (kStores - 1));
  EXPECT_EQ(effects(), kRounds * 3);
}

TEST_F(PostgresInbox, ASessionThatWasNotClosedIsNoticedOnItsLane) {
  {
    auto store = store_with(count_one);
  }
  EXPECT_TRUE(store_with(count_one, true, 1)->close()) << "another lane did not die";
  auto store = store_with(count_one, false);
  EXPECT_TRUE(store->open().value()) << "a reconnect of a living session is no death";
  ASSERT_TRUE(store->close());
  EXPECT_TRUE(store_with(count_one, true)->close());
}

TEST_F(PostgresInbox, AttemptsAreCountedDurablyAndForgottenWhenApplied) {
  auto store = store_with(count_one);
  const std::vector<const Event*> batch = {event()};
  const EventId id = batch[0]->id;
  EXPECT_EQ(store->count_attempt(id, +1).value(), 1U);
  EXPECT_EQ(store->count_attempt(id, +1).value(), 2U);
  store = store_with(count_one, false);
  EXPECT_EQ(store->count_attempt(id, +1).value(), 3U);
  EXPECT_EQ(store->count_attempt(id, -1).value(), 2U);
  ASSERT_TRUE(apply(*store, batch));
  store->rollback();
  EXPECT_EQ(number(connection, "SELECT attempts FROM dovetail.attempt"), 2);
  ASSERT_TRUE(apply(*store, batch));
  ASSERT_TRUE(store->commit(1, 0));
  EXPECT_EQ(number(connection, "SELECT count(*) FROM dovetail.attempt"), 0);
  EXPECT_EQ(store->count_attempt(id, -5).value(), 0U) << "never below 0";
  EXPECT_EQ(number(connection, "SELECT count(*) FROM dovetail.attempt"), 0);
}

TEST_F(PostgresInbox, AConnectionLostBeforeTheAnswerToCommitIsInDoubt) {
  auto store = store_with(count_one);
  ASSERT_TRUE(apply(*store, {event()}));
  must(connection,
       "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND "
       "datname = current_database()");
  const Status committed = store->commit(1, 0);
  EXPECT_TRUE(failed_with(committed, Errc::in_doubt)) << text_of(committed);
}

TEST_F(PostgresInbox, WhatIsTooOldToBeRememberedIsForgottenUnlessItIsRemembered) {
  auto store = store_with(count_one);
  const Event* const known = event();
  ASSERT_TRUE(apply(*store, {known}));
  ASSERT_TRUE(store->commit(1, 0));
  Event* const old = &events.emplace_back(*event());
  old->id.bytes[0] = 1;  // years ago, as its id says
  Event* const foreign = &events.emplace_back(*event());
  foreign->id.bytes[6] = 0x4f;  // not a UUIDv7: its own time counts
  const std::vector<const Event*> batch = {known, old, foreign};
  EXPECT_EQ(insert(*store, batch),
            (std::vector<Arrival>{Arrival::duplicate, Arrival::first, Arrival::first}));
  store->rollback();
  must(connection, "UPDATE dovetail.inbox_state SET forgotten_before = now() + interval '1 day'");
  must(connection, "UPDATE dovetail.consumer SET created_at = now() + interval '1 day'");
  ASSERT_TRUE(store->open());
  EXPECT_EQ(insert(*store, batch),
            (std::vector<Arrival>{Arrival::duplicate, Arrival::first, Arrival::first}))
      << "nothing of a later consumer was forgotten";
  store->rollback();
  must(connection, "UPDATE dovetail.consumer SET created_at = now()");
  ASSERT_TRUE(store->open());
  for (int again = 0; again < 2; ++again) {
    EXPECT_EQ(insert(*store, batch),
              (std::vector<Arrival>{Arrival::duplicate, Arrival::forgotten, Arrival::forgotten}));
    ASSERT_TRUE(store->commit(0, 1));
    EXPECT_EQ(inbox(), 1) << "a forgotten event gets no row";
  }
  foreign->created_at = WallTime{};
  EXPECT_EQ(insert(*store, batch),
            (std::vector<Arrival>{Arrival::duplicate, Arrival::forgotten, Arrival::first}))
      << "of an unknown age";
}

TEST_F(PostgresInbox, AVersionGuardLeavesWhatIsLateAlone) {
  InboxStoreOptions guarded = options(count_one);
  guarded.version_guard = true;
  auto store = opened(guarded);
  const auto version = [&](std::int64_t number, std::string_view key = "17") {
    Event& made = events.emplace_back(*event("placed", key));
    made.aggregate_version = number;
    return &made;
  };
  const auto both = [&](std::vector<const Event*> batch, std::vector<Arrival> expected) {
    EXPECT_EQ(insert(*store, batch), expected);
    std::vector<const Event*> firsts;
    for (std::size_t i = 0; i < batch.size(); ++i)
      if (expected[i] == Arrival::first) firsts.push_back(batch[i]);
    EXPECT_TRUE(store->apply(firsts));
    EXPECT_TRUE(store->commit(firsts.size(), batch.size() - firsts.size()));
  };
  constexpr Arrival kFirst = Arrival::first;
  constexpr Arrival kLate = Arrival::superseded;
  // Within a batch its own order counts, not the order of ids.
  const Event* const third = version(3);
  both({version(2), third, version(1), version(1, "18"), version(0)},
       {kFirst, kFirst, kLate, kFirst, kFirst});
  const Event* const late = version(3);
  both({late, version(4)}, {kLate, kFirst});
  both({third, late, version(2, "18")}, {Arrival::duplicate, Arrival::duplicate, kFirst});
  EXPECT_EQ(text(connection,
                 "SELECT string_agg(aggregate_id || '=' || version, ' ' ORDER BY aggregate_id) "
                 "FROM dovetail.applied_version"),
            "17=4 18=2");
  EXPECT_EQ(text(connection,
                 "SELECT concat_ws(',', applied, duplicates, superseded) FROM "
                 "dovetail.consumer_session"),
            "6,2,2");

  ASSERT_TRUE(apply(*store, {version(9)}));
  store->rollback();
  both({version(5)}, {kFirst});

  // The guard remembers what the inbox has forgotten.
  must(connection, "UPDATE dovetail.inbox_state SET forgotten_before = now() + interval '1 day'");
  EXPECT_EQ(insert(*store, std::vector<const Event*>{version(5), version(6)}),
            (std::vector<Arrival>{kLate, Arrival::forgotten}));
}

TEST_F(PostgresInbox, TheGuardsOfTwoStoresSeeEachOther) {
  constexpr int kVersions = 40;
  std::vector<const Event*> all;
  for (int i = 1; i <= kVersions; ++i) {
    Event& made = events.emplace_back(*event());
    made.aggregate_version = i;
    all.push_back(&made);
  }
  must(connection, "CREATE TABLE state (version bigint); INSERT INTO state VALUES (0)");
  InboxStoreOptions guarded = options([](Invocation& invocation, const Event& one) -> Status {
    DOVETAIL_TRY(invocation.queue("INSERT INTO effect SELECT 1 FROM state WHERE version >= $1",
                                  {one.aggregate_version}));
    return invocation.queue("UPDATE state SET version = $1", {one.aggregate_version});
  });
  guarded.version_guard = true;
  {
    std::vector<std::jthread> threads;
    for (std::uint32_t lane = 0; lane < 2; ++lane)
      threads.emplace_back([&, lane] {
        InboxStoreOptions own = guarded;
        own.lane = lane;
        PostgresInboxStore store(own);
        ASSERT_TRUE(store.open());
        for (std::size_t i = lane; i < all.size(); i += 2) {
          const std::vector<const Event*> one = {all[i]};
          const bool is_first = insert(store, one)[0] == Arrival::first;
          ASSERT_TRUE(!is_first || store.apply(one));
          ASSERT_TRUE(store.commit(is_first ? 1 : 0, is_first ? 0 : 1));
        }
      });
  }
  EXPECT_EQ(number(connection, "SELECT version FROM state"), kVersions);
  EXPECT_EQ(effects(), 0) << "nothing went back";
}

TEST_F(PostgresInbox, TwoHandlersOfOneNameAreRefused) {
  InboxStoreOptions two = options(count_one);
  two.handlers.push_back(two.handlers[0]);
  PostgresInboxStore store(two);
  EXPECT_TRUE(failed_with(store.open(), Errc::rejected));
}

TEST_F(PostgresInbox, TheRelaysRoleMayDoAllOfIt) {
  const Status made = create_roles(connection);
  ASSERT_TRUE(made) << text_of(made);
  const std::string user = "consumer_" + database.name;
  must(connection, "CREATE ROLE " + user + " LOGIN IN ROLE dovetail_relay");
  must(connection, "GRANT ALL ON effect TO " + user);
  InboxStoreOptions limited = options([](Invocation& invocation, const Event& one) -> Status {
    DOVETAIL_TRY(count_one(invocation, one));
    const Result<pg_conn*> own = invocation.connection();
    return own ? Status{} : fail(own.error());
  });
  limited.conninfo += " user=" + user;
  {
    auto store = opened(limited);
    const std::vector<const Event*> batch = {event()};
    EXPECT_TRUE(store->count_attempt(batch[0]->id, 1));
    const Status applied = apply(*store, batch);
    EXPECT_TRUE(applied) << text_of(applied);
    EXPECT_TRUE(store->commit(1, 0));
    EXPECT_TRUE(store->close());
  }
  must(connection, "DROP OWNED BY " + user + "; DROP ROLE " + user);
}

}  // namespace
}  // namespace dovetail::postgres
