#include "redis/examine.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "redis/source.h"
#include "redis/test_server.h"

namespace dovetail::redis {
namespace {

class RedisExamineTest : public testing::Test {
 protected:
  std::vector<Finding> findings(const Options& options) {
    const Result<std::vector<Finding>> found = examine(options, system_clock());
    EXPECT_TRUE(found) << (found ? "" : found.error().text);
    return found ? *found : std::vector<Finding>{};
  }
  const Finding* find(std::string_view code, const Options& options) {
    found_ = findings(options);
    const auto it = std::ranges::find(found_, code, &Finding::code);
    if (it == found_.end()) return nullptr;
    EXPECT_FALSE(it->what.empty());
    EXPECT_FALSE(it->what_to_do.empty());
    return &*it;
  }
  const Finding* find(std::string_view code) { return find(code, database_.options()); }

  TestDatabase database_{own_server().server()};
  std::vector<Finding> found_;
};

TEST_F(RedisExamineTest, ASafeServerHasNothingFound) {
  const Setting limit(database_, "maxmemory", "1gb");
  for (const Finding& one : findings(database_.options()))
    ADD_FAILURE() << one.code << ": " << one.what;
}

TEST_F(RedisExamineTest, AStreamKeepsEverythingUnlessWhatIsSettledIsDeleted) {
  Options options = database_.options();
  options.streams = {"orders"};
  ASSERT_EQ(retention(options).size(), 1U);
  EXPECT_FALSE(retention(options)[0].age);
  EXPECT_TRUE(retention(options)[0].comes_again);
  options.delete_settled = true;
  EXPECT_FALSE(retention(options)[0].comes_again);
}

TEST_F(RedisExamineTest, WithoutAppendOnlyFileARestartLosesEvents) {
  const Setting off(database_, "appendonly", "no");
  const Finding* const finding = find("redis-not-persistent");
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(finding->severity, Severity::error);
}

TEST_F(RedisExamineTest, ASyncOnceASecondIsAWarningAndNoneIsAnError) {
  {
    const Setting lazy(database_, "appendfsync", "everysec");
    const Finding* const finding = find("redis-fsync");
    ASSERT_NE(finding, nullptr);
    EXPECT_EQ(finding->severity, Severity::warning);
  }
  const Setting never(database_, "appendfsync", "no");
  const Finding* const finding = find("redis-fsync");
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(finding->severity, Severity::error);
}

TEST_F(RedisExamineTest, AServerThatTakesLessThanTheOutboxIsNamed) {
  const Setting limit(database_, "proto-max-bulk-len", "2mb");
  const auto is_named = [&](std::size_t payload_bytes_max) {
    const auto found = examine(database_.options(), system_clock(), payload_bytes_max);
    EXPECT_TRUE(found) << (found ? "" : found.error().text);
    return found && std::ranges::find(*found, "redis-bulk-length", &Finding::code) != found->end();
  };
  EXPECT_FALSE(is_named(2 << 20));
  EXPECT_TRUE(is_named((2 << 20) + 1));
}

TEST_F(RedisExamineTest, EvictionOfStreamsIsAnError) {
  {
    const Setting all(database_, "maxmemory-policy", "allkeys-lru");
    const Finding* const finding = find("redis-eviction");
    ASSERT_NE(finding, nullptr);
    EXPECT_EQ(finding->severity, Severity::error);
  }
  const Setting some(database_, "maxmemory-policy", "volatile-ttl");
  const Finding* const finding = find("redis-eviction");
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(finding->severity, Severity::warning);
}

TEST_F(RedisExamineTest, NoLimitOfMemoryIsANoteAndAShortOneAWarning) {
  EXPECT_NE(find("redis-no-memory-limit"), nullptr);
  const Setting limit(database_, "maxmemory", "600kb");
  EXPECT_EQ(find("redis-no-memory-limit"), nullptr);
  EXPECT_NE(find("redis-memory-short"), nullptr);
}

TEST_F(RedisExamineTest, AReplicaIsAnError) {
  EXPECT_EQ(find("redis-replica"), nullptr);
  database_.run({"REPLICAOF", "127.0.0.1", "1"});
  EXPECT_NE(find("redis-replica"), nullptr);
  database_.run({"REPLICAOF", "NO", "ONE"});
}

TEST_F(RedisExamineTest, ReplicasThatNobodyWaitsForAreAWarning) {
  const SecondServer other;
  TestDatabase replica(other.server());
  Options waiting = database_.options();
  waiting.wait_replicas = 1;
  EXPECT_NE(find("redis-replicas-missing", waiting), nullptr);
  replica.run({"REPLICAOF", "127.0.0.1", std::to_string(database_.options().port)});
  ASSERT_TRUE(eventually([&] { return find("redis-replicas-missing", waiting) == nullptr; }));
  EXPECT_NE(find("redis-failover-loses"), nullptr);
  EXPECT_EQ(find("redis-failover-loses", waiting), nullptr);
  const Setting guarded(database_, "min-replicas-to-write", "1");
  EXPECT_EQ(find("redis-failover-loses"), nullptr);
}

TEST_F(RedisExamineTest, AClusterIsAnError) {
  const servers::Started cluster("redis_cluster");
  EXPECT_NE(find("redis-cluster", options_of(cluster.server())), nullptr);
}

TEST_F(RedisExamineTest, WhatAUserMayNotAskIsSaid) {
  Options narrow = database_.options();
  narrow.user = "narrow";
  narrow.password = "narrow-secret";
  narrow.streams = {"forbidden"};
  EXPECT_NE(find("redis-config-hidden", narrow), nullptr);
  EXPECT_NE(find("redis-info-hidden", narrow), nullptr);
  EXPECT_NE(find("redis-no-permission", narrow), nullptr);
}

TEST_F(RedisExamineTest, TheRightsThatTheReadmeNamesAreEnough) {
  database_.run({"XGROUP", "CREATE", "orders", "test", "0", "MKSTREAM"});
  database_.run({"ACL", "SETUSER", "doctor", "on", ">doctor-secret", "~orders", "+select", "+info",
                 "+config|get", "+xinfo", "+type", "+pttl"});
  Options options = database_.options();
  options.user = "doctor";
  options.password = "doctor-secret";
  const Setting limit(database_, "maxmemory", "1gb");
  for (const Finding& one : findings(options)) ADD_FAILURE() << one.code << ": " << one.what;
  const Setting all(database_, "maxmemory-policy", "allkeys-lru");
  database_.run({"EXPIRE", "orders", "1000"});
  EXPECT_NE(find("redis-eviction", options), nullptr);
  EXPECT_NE(find("redis-expires", options), nullptr);
}

TEST_F(RedisExamineTest, AStreamThatExpiresOrIsNoneIsAnError) {
  database_.run({"XADD", "orders", "*", "data", "1"});
  EXPECT_EQ(find("redis-expires"), nullptr);
  database_.run({"EXPIRE", "orders", "1000"});
  EXPECT_NE(find("redis-expires"), nullptr);
  database_.run({"DEL", "orders"});
  database_.run({"SET", "orders", "1"});
  EXPECT_NE(find("redis-no-stream"), nullptr);
}

TEST_F(RedisExamineTest, EntriesThatWereTrimmedUnreadAreAnError) {
  RedisSource source(database_.options(), system_clock());
  ASSERT_TRUE(source.open());
  for (int i = 0; i < 3; ++i) database_.run({"XADD", "orders", "*", "data", "1"});
  Batch batch;
  ASSERT_TRUE(source.read(batch, Limits{2, 1 << 20, {}}, {}));
  database_.run({"XTRIM", "orders", "MAXLEN", "1"});
  EXPECT_EQ(find("redis-trimmed-unread"), nullptr) << "they were read";
  database_.run({"XADD", "orders", "*", "data", "1"});
  database_.run({"XTRIM", "orders", "MAXLEN", "1"});
  EXPECT_NE(find("redis-trimmed-unread"), nullptr);
  database_.run({"XTRIM", "orders", "MAXLEN", "0"});
  EXPECT_NE(find("redis-trimmed-unread"), nullptr);
}

TEST_F(RedisExamineTest, AnEntryThatWasDeletedUnreadIsAnError) {
  RedisSource source(database_.options(), system_clock());
  ASSERT_TRUE(source.open());
  const Reply first = database_.run({"XADD", "orders", "*", "data", "1"});
  EXPECT_EQ(find("redis-trimmed-unread"), nullptr);
  database_.run({"XDEL", "orders", first.value().text()});
  EXPECT_NE(find("redis-trimmed-unread"), nullptr);
}

TEST_F(RedisExamineTest, AConsumerThatHoldsEntriesAndIsGoneIsAWarning) {
  Options options = database_.options();
  options.redeliver_after = std::chrono::milliseconds(50);
  database_.run({"XADD", "orders", "*", "data", "1"});
  RedisSource source(options, system_clock());
  ASSERT_TRUE(source.open());
  Batch batch;
  ASSERT_TRUE(source.read(batch, Limits{}, {}));
  EXPECT_EQ(find("redis-consumer-gone"), nullptr) << "not so soon";
  EXPECT_TRUE(eventually([&] { return find("redis-consumer-gone", options) != nullptr; }));
}

TEST_F(RedisExamineTest, AServerThatIsGoneIsUnavailable) {
  Options options = database_.options();
  options.port = 1;
  const auto found = examine(options, system_clock());
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, Errc::unavailable);
}

}  // namespace
}  // namespace dovetail::redis
