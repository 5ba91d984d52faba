#include "redis/source.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <set>

#include "redis/test_server.h"

namespace dovetail::redis {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class RedisSourceTest : public testing::Test {
 protected:
  std::unique_ptr<RedisSource> opened(const Options& options) {
    auto source = std::make_unique<RedisSource>(options, system_clock());
    const Status done = source->open();
    EXPECT_TRUE(done) << (done ? "" : done.error().text);
    return source;
  }
  Options named(std::string consumer) const {
    Options options = database_.options();
    options.consumer = std::move(consumer);
    return options;
  }
  // A consumer that shares the group and takes over soon.
  Options sharing(std::string consumer) const {
    Options options = named(std::move(consumer));
    options.exclusive = false;
    options.redeliver_after = milliseconds(300);
    return options;
  }
  void add(std::string_view payload, std::string_view stream = "orders") {
    const Reply reply = database_.run({"XADD", stream, "*", "key", "k", "data", payload});
    ASSERT_FALSE(reply.value().is_error()) << reply.value().text();
  }
  void add_many(int first, int last) {
    for (int i = first; i <= last; ++i) add(std::to_string(i));
  }
  std::vector<std::string> read(RedisSource& source, std::size_t events_max = 1000,
                                Duration wait_max = Duration{0}) {
    Batch& batch = batches_.emplace_back();
    const Status done =
        source.read(batch, Limits{events_max, 4 << 20, wait_max}, std::stop_token{});
    EXPECT_TRUE(done) << (done ? "" : done.error().text);
    std::vector<std::string> payloads;
    for (const Event& event : batch.events()) payloads.emplace_back(event.payload);
    return payloads;
  }
  // Until that many came, or until the time limit.
  std::vector<std::string> read_until(RedisSource& source, std::size_t count) {
    std::vector<std::string> all;
    const auto end = std::chrono::steady_clock::now() + seconds(30);
    while (all.size() < count && std::chrono::steady_clock::now() < end)
      for (std::string& one : read(source, 1000, milliseconds(100))) all.push_back(std::move(one));
    return all;
  }
  void settle_last(RedisSource& source) {
    const Batch& batch = batches_.back();
    ASSERT_TRUE(source.settle(batch, std::vector<Settled>(batch.size(), Settled::delivered)));
    const Status done = source.flush();
    ASSERT_TRUE(done) << done.error().text;
  }
  std::int64_t pending() {
    return database_.run({"XPENDING", "orders", "test"}).value().at(0).integer();
  }

  TestDatabase database_{own_server().server()};
  std::deque<Batch> batches_;
};

using Texts = std::vector<std::string>;

TEST_F(RedisSourceTest, ANewGroupBeginsWithWhatTheStreamHolds) {
  add_many(1, 3);
  EXPECT_EQ(read(*opened(named("a"))), (Texts{"1", "2", "3"}));
}

TEST_F(RedisSourceTest, ANewGroupBeginsAtTheEndWhereThatIsWanted) {
  add_many(1, 3);
  Options options = named("a");
  options.from_end = true;
  const auto source = opened(options);
  add("4");
  EXPECT_EQ(read(*source), (Texts{"4"}));
}

TEST_F(RedisSourceTest, AnEntryIsAcknowledgedByFlushAndNotBefore) {
  add_many(1, 3);
  const auto source = opened(named("a"));
  ASSERT_EQ(read(*source, 2).size(), 2U);
  EXPECT_EQ(pending(), 2);
  ASSERT_TRUE(source->settle(batches_.back(), std::vector<Settled>(2, Settled::delivered)));
  EXPECT_EQ(pending(), 2);
  ASSERT_TRUE(source->flush());
  EXPECT_EQ(pending(), 0);
  EXPECT_EQ(database_.run({"XLEN", "orders"}).value().integer(), 3);
}

TEST_F(RedisSourceTest, WhatIsSettledIsDeletedWhereThatIsWanted) {
  add_many(1, 3);
  Options options = named("a");
  options.delete_settled = true;
  const auto source = opened(options);
  ASSERT_EQ(read(*source, 2).size(), 2U);
  settle_last(*source);
  EXPECT_EQ(pending(), 0);
  EXPECT_EQ(database_.run({"XLEN", "orders"}).value().integer(), 1);
}

TEST_F(RedisSourceTest, WhatTheLastProcessLeftPendingComesBeforeWhatIsNew) {
  add_many(1, 3);
  ASSERT_EQ(read(*opened(named("a"))).size(), 3U);
  add_many(4, 5);
  const auto source = opened(named("a"));
  EXPECT_EQ(read_until(*source, 5), (Texts{"1", "2", "3", "4", "5"}));
}

TEST_F(RedisSourceTest, PositionsAreTheSameInEverySession) {
  add_many(1, 3);
  ASSERT_EQ(read(*opened(named("a"))).size(), 3U);
  ASSERT_EQ(read(*opened(named("a"))).size(), 3U);
  for (std::size_t i = 0; i < 3; ++i)
    EXPECT_EQ(batches_[0].events()[i].position, batches_[1].events()[i].position);
}

TEST_F(RedisSourceTest, WhatADeadConsumerHoldsComesBeforeWhatIsNew) {
  add_many(1, 3);
  ASSERT_EQ(read(*opened(named("dead"))).size(), 3U);
  add_many(4, 5);
  Options options = named("alive");
  options.redeliver_after = milliseconds(500);
  const auto source = opened(options);
  EXPECT_EQ(read_until(*source, 5), (Texts{"1", "2", "3", "4", "5"}));
}

TEST_F(RedisSourceTest, AnExclusiveConsumerReadsNothingNewBesideOneThatHoldsSomething) {
  add_many(1, 3);
  const auto other = opened(named("other"));
  ASSERT_EQ(read(*other).size(), 3U);
  const Batch& held = batches_.back();
  add("4");
  const auto source = opened(named("a"));  // it would take over after a minute
  EXPECT_EQ(read(*source, 1000, milliseconds(300)), Texts{});
  ASSERT_TRUE(other->settle(held, std::vector<Settled>(3, Settled::delivered)));
  ASSERT_TRUE(other->flush());
  EXPECT_EQ(read_until(*source, 1), (Texts{"4"}));
}

TEST_F(RedisSourceTest, TwoExclusiveConsumersThatLiveWaitForEachOther) {
  const auto one = opened(named("one"));
  const auto other = opened(named("other"));
  ASSERT_EQ(read(*one), Texts{});
  ASSERT_EQ(read(*other), Texts{});
  add_many(1, 3);
  ASSERT_EQ(read(*one), (Texts{"1", "2", "3"}));
  const Batch& first = batches_.back();
  add_many(4, 6);
  EXPECT_EQ(read(*other, 1000, milliseconds(200)), Texts{}) << "before 1 to 3 are settled";
  add_many(7, 9);
  EXPECT_EQ(read(*one, 1000, milliseconds(200)), Texts{}) << "before 4 to 6 are settled";
  ASSERT_TRUE(one->settle(first, std::vector<Settled>(3, Settled::delivered)));
  ASSERT_TRUE(one->flush());
  EXPECT_EQ(read_until(*other, 3), (Texts{"4", "5", "6"}));
  const Batch& second = batches_.back();
  EXPECT_EQ(read(*one, 1000, milliseconds(200)), Texts{}) << "4 to 6 still are not";
  ASSERT_TRUE(other->settle(second, std::vector<Settled>(3, Settled::delivered)));
  ASSERT_TRUE(other->flush());
  EXPECT_EQ(read_until(*one, 3), (Texts{"7", "8", "9"}));
}

TEST_F(RedisSourceTest, AnExclusiveConsumerTakesOverAlsoWhileNothingIsNew) {
  Options options = named("alive");
  options.redeliver_after = milliseconds(300);
  const auto source = opened(options);
  ASSERT_EQ(read(*source), Texts{});
  add("1");
  ASSERT_EQ(read(*opened(sharing("dead"))), (Texts{"1"}));
  EXPECT_EQ(read_until(*source, 1), (Texts{"1"}));
}

TEST_F(RedisSourceTest, AConsumerThatSharesReadsOnAndTakesOverWhenAnotherDies) {
  add_many(1, 3);
  ASSERT_EQ(read(*opened(named("dead"))).size(), 3U);
  add_many(4, 5);
  Options options = named("alive");
  options.exclusive = false;
  options.redeliver_after = seconds(1);
  const auto source = opened(options);
  Texts all = read_until(*source, 5);
  std::ranges::sort(all);
  EXPECT_EQ(all, (Texts{"1", "2", "3", "4", "5"}));
  add("6");
  EXPECT_EQ(read_until(*source, 1), (Texts{"6"}));
}

TEST_F(RedisSourceTest, WhatAConsumerHoldsLongItDoesNotTakeOverFromItself) {
  add_many(1, 3);
  const auto source = opened(sharing("alive"));
  ASSERT_EQ(read(*source).size(), 3U);
  // An entry that another consumer holds makes the source look for entries to take over.
  add("4");
  ASSERT_EQ(read(*opened(sharing("dead"))), (Texts{"4"}));
  EXPECT_EQ(read_until(*source, 1), (Texts{"4"}));
  EXPECT_EQ(read(*source, 1000, milliseconds(500)), Texts{});
}

TEST_F(RedisSourceTest, TwoConsumersShareAStreamAndNothingIsLostWhenOneDies) {
  constexpr std::size_t kEvents = 1000;
  std::jthread producer([&] {
    TestDatabase database(database_);
    for (std::size_t i = 1; i <= kEvents; ++i)
      database.run({"XADD", "orders", "*", "data", std::to_string(i)});
  });
  // Applies each id once, like an inbox.
  std::map<EventId, std::string> applied;
  const auto living = opened(sharing("living"));
  auto dying = opened(sharing("dying"));
  const auto turn = [&](RedisSource& source, bool settles) {
    read(source, 20, milliseconds(20));
    for (const Event& event : batches_.back().events()) applied.emplace(event.id, event.payload);
    if (settles) settle_last(source);
  };
  for (int i = 0; i < 6; ++i) {
    turn(*living, true);
    turn(*dying, i < 3);  // it dies with entries applied and not acknowledged
  }
  dying.reset();
  EXPECT_GT(pending(), 0);
  EXPECT_TRUE(eventually([&] {
    turn(*living, true);
    return applied.size() == kEvents && pending() == 0;
  }));
  EXPECT_EQ(applied.size(), kEvents);
}

TEST_F(RedisSourceTest, PendingEntriesThatWereDeletedAreAcknowledgedAndCounted) {
  add_many(1, 3);
  ASSERT_EQ(read(*opened(named("a"))).size(), 3U);
  const Reply entries = database_.run({"XRANGE", "orders", "-", "+"});
  database_.run({"XDEL", "orders", entries.value().at(1).at(0).text()});
  const auto source = opened(named("a"));
  EXPECT_EQ(read_until(*source, 2), (Texts{"1", "3"}));
  EXPECT_EQ(source->deleted(), 1U);
  ASSERT_TRUE(source->flush());
  EXPECT_EQ(pending(), 2);
}

TEST_F(RedisSourceTest, AGroupThatIsDestroyedIsMadeAgainAndEverythingComesAgain) {
  add_many(1, 3);
  const auto source = opened(named("a"));
  ASSERT_EQ(read(*source).size(), 3U);
  settle_last(*source);
  database_.run({"XGROUP", "DESTROY", "orders", "test"});
  Batch batch;
  const Status lost = source->read(batch, Limits{}, std::stop_token{});
  ASSERT_FALSE(lost);
  EXPECT_EQ(lost.error().code, Errc::unavailable);
  ASSERT_TRUE(source->open());
  EXPECT_EQ(read(*source), (Texts{"1", "2", "3"}));
}

TEST_F(RedisSourceTest, SeveralStreamsAreReadTogether) {
  Options options = named("a");
  options.streams = {"orders", "payments"};
  const auto source = opened(options);
  add("1", "orders");
  add("2", "payments");
  std::set<std::string> topics;
  ASSERT_EQ(read_until(*source, 2).size(), 2U);
  for (const Batch& batch : batches_)
    for (const Event& event : batch.events()) topics.emplace(event.topic);
  EXPECT_EQ(topics, (std::set<std::string>{"orders", "payments"}));
}

TEST_F(RedisSourceTest, AnEntryWithoutPayloadIsGivenWithItsDefect) {
  database_.run({"XADD", "orders", "*", "user", "5"});
  const auto source = opened(named("a"));
  ASSERT_EQ(read(*source).size(), 1U);
  const Event& event = batches_.back().events()[0];
  EXPECT_NE(event.defect.find("payload_field"), std::string_view::npos) << event.defect;
}

TEST_F(RedisSourceTest, AnEntryWithoutIdHasTheSameOneEveryTime) {
  add("1");
  ASSERT_EQ(read(*opened(named("a"))).size(), 1U);
  ASSERT_EQ(read(*opened(named("a"))).size(), 1U);
  EXPECT_EQ(batches_[0].events()[0].id, batches_[1].events()[0].id);
  EXPECT_NE(batches_[0].events()[0].id, EventId{});
  EXPECT_EQ(batches_[0].events()[0].defect, "");
}

TEST_F(RedisSourceTest, AKeyThatIsNoStreamIsUnavailableInWords) {
  database_.run({"SET", "orders", "1"});
  RedisSource source(named("a"), system_clock());
  const Status done = source.open();
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, Errc::unavailable);
  EXPECT_NE(done.error().text.find("WRONGTYPE"), std::string::npos) << done.error().text;
  database_.run({"DEL", "orders"});
  ASSERT_TRUE(source.open()) << "it heals by itself";
  add_many(1, 2);
  EXPECT_EQ(read_until(source, 2), (Texts{"1", "2"}));
}

TEST_F(RedisSourceTest, TheRightsThatTheReadmeNamesAreEnough) {
  add_many(1, 2);
  ASSERT_EQ(read(*opened(named("dead")), 1).size(), 1U);
  database_.run({"ACL", "SETUSER", "reader", "on", ">reader-secret", "~orders", "+xgroup|create",
                 "+xreadgroup", "+xack", "+xpending", "+xautoclaim", "+xdel", "+select"});
  Options options = named("a");
  options.user = "reader";
  options.password = "reader-secret";
  options.delete_settled = true;
  options.redeliver_after = milliseconds(1);
  const auto source = opened(options);
  std::size_t count = 0;
  EXPECT_TRUE(eventually([&] {
    count += read(*source).size();
    settle_last(*source);
    return count == 2;
  }));
  EXPECT_EQ(pending(), 0);
}

TEST_F(RedisSourceTest, ARightThatIsTakenAndGivenBackHeals) {
  database_.run({"ACL", "SETUSER", "fickle", "on", ">fickle-secret", "~*", "+@all"});
  Options options = named("a");
  options.user = "fickle";
  options.password = "fickle-secret";
  const auto source = opened(options);
  database_.run({"ACL", "SETUSER", "fickle", "-@stream"});
  add_many(1, 2);
  Batch batch;
  const Status refused = source->read(batch, Limits{10, 4 << 20, milliseconds(100)}, {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::unavailable) << refused.error().text;
  database_.run({"ACL", "SETUSER", "fickle", "+@stream"});
  ASSERT_TRUE(source->open());
  EXPECT_EQ(read_until(*source, 2), (Texts{"1", "2"}));
}

TEST_F(RedisSourceTest, AForbiddenStreamIsUnavailableInWords) {
  Options options = named("a");
  options.user = "narrow";
  options.password = "narrow-secret";
  RedisSource source(options, system_clock());
  const Status done = source.open();
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, Errc::unavailable);
  EXPECT_NE(done.error().text.find("NOPERM"), std::string::npos) << done.error().text;
}

TEST_F(RedisSourceTest, LargeEntriesAreFetchedFewAtATime) {
  const std::string large(200'000, 'x');
  for (int i = 0; i < 200; ++i) add(large);
  const auto source = opened(named("a"));
  std::size_t given = 0;
  while (given < 200) {
    const std::size_t count = read(*source, 1000, milliseconds(100)).size();
    ASSERT_GT(count, 0U);
    given += count;
    batches_.clear();
    // Pending entries that were not read are in our memory.
    if (given > 64) {
      EXPECT_LE(static_cast<std::size_t>(pending()), given + 64);
    }
  }
}

}  // namespace
}  // namespace dovetail::redis
