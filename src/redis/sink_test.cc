#include "redis/sink.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <memory>

#include "redis/test_server.h"

namespace dovetail::redis {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class RedisSinkTest : public testing::Test {
 protected:
  std::unique_ptr<RedisSink> opened(const Options& options) {
    auto sink = std::make_unique<RedisSink>(options, system_clock());
    const Status done = sink->open();
    EXPECT_TRUE(done) << (done ? "" : done.error().text);
    return sink;
  }
  // The error of open() now.
  Error refused(const Options& options) {
    RedisSink sink(options, system_clock());
    const Status done = sink.open();
    EXPECT_FALSE(done) << "it opened";
    return done ? Error{Errc::corrupt, ""} : done.error();
  }
  // A good connection fails while nothing is in flight, and later works again: no event may be
  // failed or rejected for that.
  void expect_outage(const std::string& word, const std::function<void()>& begin,
                     const std::function<void()>& end) {
    const auto sink = opened(options());
    begin();
    const Outcome outcome = send(*sink, {&events_.make("orders", "k", "1")})[0];
    EXPECT_EQ(outcome.fate, Fate::busy);
    EXPECT_NE(outcome.reason.find(word), std::string::npos) << outcome.reason;
    const Status next = sink->submit(std::vector<const Event*>{&events_.make("orders", "k", "2")});
    ASSERT_FALSE(next);
    EXPECT_EQ(next.error().code, Errc::unavailable);
    const Status again = sink->open();
    ASSERT_FALSE(again) << "open() must see that nothing can be written";
    EXPECT_EQ(again.error().code, Errc::unavailable);
    EXPECT_NE(again.error().text.find(word), std::string::npos) << again.error().text;
    end();
    ASSERT_TRUE(sink->open());
    EXPECT_EQ(send(*sink, {&events_.make("orders", "k", "3")})[0].fate, Fate::confirmed);
    EXPECT_EQ(database_.run({"XLEN", "orders"}).value().integer(), 1);
  }
  const Options& options() const { return database_.options(); }
  std::int64_t used_memory() {
    const Reply reply = database_.run({"INFO", "memory"});
    const std::string_view text = reply.value().text();
    return std::stoll(std::string(text.substr(text.find("used_memory:") + 12, 20)));
  }

  TestDatabase database_{own_server().server()};
  TestEvents events_;
};

TEST_F(RedisSinkTest, ShortMemoryIsAnOutage) {
  std::unique_ptr<Setting> setting;
  expect_outage(
      "OOM", [&] { setting = std::make_unique<Setting>(database_, "maxmemory", "1"); },
      [&] { setting.reset(); });
}

TEST_F(RedisSinkTest, WhatWasConfirmedBeforeMemoryRanShortIsToldBeforeTheOutageIs) {
  const auto sink = opened(options());
  const Event* const first = &events_.make("orders", "a", "1");
  ASSERT_TRUE(sink->submit({&first, 1}));
  ASSERT_TRUE(eventually([&] { return database_.run({"XLEN", "orders"}).value().integer() == 1; }));
  const Setting setting(database_, "maxmemory", "1");
  const Event* const second = &events_.make("orders", "b", "2");
  ASSERT_TRUE(sink->submit({&second, 1}));
  EXPECT_EQ(collect(*sink, 1)[0].fate, Fate::confirmed);
  EXPECT_EQ(collect(*sink, 1)[0].fate, Fate::busy);
}

TEST_F(RedisSinkTest, AServerThatCannotPersistIsAnOutage) {
  // Snapshots fail because their folder is not writable.
  const std::filesystem::path folder(database_.run({"CONFIG", "GET", "dir"}).value().at(1).text());
  const auto rights = std::filesystem::status(folder).permissions();
  const Setting save(database_, "save", "3600 1");
  const auto status_is = [&](std::string_view wanted) {
    const Reply info = database_.run({"INFO", "persistence"});
    return info.value().text().find("rdb_last_bgsave_status:" + std::string(wanted)) !=
               std::string_view::npos &&
           info.value().text().find("rdb_bgsave_in_progress:0") != std::string_view::npos;
  };
  expect_outage(
      "MISCONF",
      [&] {
        using std::filesystem::perms;
        std::filesystem::permissions(folder, perms::owner_read | perms::owner_exec);
        database_.run({"BGSAVE"});
        ASSERT_TRUE(eventually([&] { return status_is("err"); }));
      },
      [&] {
        std::filesystem::permissions(folder, rights);
        database_.run({"BGSAVE"});
        ASSERT_TRUE(eventually([&] { return status_is("ok"); }));
      });
}

TEST_F(RedisSinkTest, TooFewReplicasForTheServerAreAnOutage) {
  std::unique_ptr<Setting> setting;
  expect_outage(
      "NOREPLICAS",
      [&] { setting = std::make_unique<Setting>(database_, "min-replicas-to-write", "1"); },
      [&] { setting.reset(); });
}

TEST_F(RedisSinkTest, APrimaryThatBecomesAReplicaIsAnOutage) {
  expect_outage(
      "READONLY", [&] { database_.run({"REPLICAOF", "127.0.0.1", "1"}); },
      [&] { database_.run({"REPLICAOF", "NO", "ONE"}); });
}

TEST_F(RedisSinkTest, AServerBusyWithAScriptIsAnOutage) {
  const Setting patience(database_, "busy-reply-threshold", "1");
  Result<Connection> other = Connection::open(options(), system_clock());
  ASSERT_TRUE(other);
  other->command({"EVAL", "while true do end", "0"});
  ASSERT_TRUE(other->send());
  ASSERT_TRUE(eventually([&] { return database_.run({"PING"}).value().is_error(); }));
  const Error error = refused(options());
  EXPECT_EQ(error.code, Errc::unavailable);
  EXPECT_NE(error.text.find("BUSY"), std::string::npos) << error.text;
  EXPECT_EQ(database_.run({"SCRIPT", "KILL"}).value().text(), "OK");
  RedisSink sink(options(), system_clock());
  EXPECT_TRUE(eventually([&] { return static_cast<bool>(sink.open()); }));
}

TEST_F(RedisSinkTest, AServerThatReadsItsDataIsAnOutage) {
  for (int i = 0; i < 100; ++i) database_.run({"XADD", "k" + std::to_string(i), "*", "a", "b"});
  const Setting often(database_, "loading-process-events-interval-bytes", "1024");
  const Setting slow(database_, "key-load-delay", "10000");
  Result<Connection> other = Connection::open(options(), system_clock());
  ASSERT_TRUE(other);
  other->command({"DEBUG", "RELOAD"});
  ASSERT_TRUE(other->send());
  ASSERT_TRUE(eventually([&] {
    RedisSink sink(options(), system_clock());
    const Status done = sink.open();
    return !done && done.error().code == Errc::unavailable &&
           done.error().text.find("LOADING") != std::string::npos;
  }));
  ASSERT_TRUE(other->take_within(seconds(60)));
  opened(options());
}

TEST_F(RedisSinkTest, AServerOfAClusterIsRefusedInWords) {
  const servers::Started cluster("redis_cluster");
  ASSERT_FALSE(cluster.server().conninfo.empty()) << cluster.server().missing;
  const Error error = refused(options_of(cluster.server()));
  EXPECT_EQ(error.code, Errc::unavailable);
  EXPECT_NE(error.text.find("Redis Cluster is not supported"), std::string::npos) << error.text;
}

TEST_F(RedisSinkTest, AWrongPasswordIsUnavailableAndNotRepeated) {
  Options wrong = options();
  wrong.user = "full";
  wrong.password = "not-the-secret";
  const Error error = refused(wrong);
  EXPECT_EQ(error.code, Errc::unavailable);
  EXPECT_NE(error.text.find("WRONGPASS"), std::string::npos) << error.text;
  EXPECT_EQ(error.text.find("not-the-secret"), std::string::npos) << error.text;
  wrong.password = "full-secret";
  opened(wrong);
}

TEST_F(RedisSinkTest, AMissingPasswordIsUnavailable) {
  const Setting setting(database_, "requirepass", "needed");
  const Error error = refused(options());
  EXPECT_EQ(error.code, Errc::unavailable);
  EXPECT_NE(error.text.find("NOAUTH"), std::string::npos) << error.text;
  Options right = options();
  right.password = "needed";
  opened(right);
}

TEST_F(RedisSinkTest, AUserWhoMayNotAddAtAllIsUnavailable) {
  database_.run({"ACL", "SETUSER", "reader", "on", ">reader-secret", "~*", "+@all", "-xadd"});
  Options reader = options();
  reader.user = "reader";
  reader.password = "reader-secret";
  const Error error = refused(reader);
  EXPECT_EQ(error.code, Errc::unavailable);
  EXPECT_NE(error.text.find("NOPERM"), std::string::npos) << error.text;
}

TEST_F(RedisSinkTest, TheRightsThatTheReadmeNamesAreEnough) {
  database_.run({"ACL", "SETUSER", "writer", "on", ">writer-secret", "~orders", "+xadd", "+multi",
                 "+exec", "+discard", "+select"});
  Options writer = options();
  writer.user = "writer";
  writer.password = "writer-secret";
  EXPECT_EQ(send(*opened(writer), {&events_.make("orders", "a", "1")})[0].fate, Fate::confirmed);
}

TEST_F(RedisSinkTest, AForbiddenStreamIsBusyAloneAndAnAllowedOneIsServed) {
  Options narrow = options();
  narrow.user = "narrow";
  narrow.password = "narrow-secret";
  const auto sink = opened(narrow);
  const auto outcomes =
      send(*sink, {&events_.make("forbidden", "a", "1"), &events_.make("allowed", "b", "2")});
  EXPECT_EQ(outcomes[0].fate, Fate::busy);
  EXPECT_NE(outcomes[0].reason.find("NOPERM"), std::string::npos) << outcomes[0].reason;
  EXPECT_NE(outcomes[0].reason.find("forbidden"), std::string::npos) << outcomes[0].reason;
  EXPECT_EQ(outcomes[1].fate, Fate::confirmed);
}

TEST_F(RedisSinkTest, BehindAForbiddenStreamNothingOfTheKeyIsStored) {
  database_.run({"ACL", "SETUSER", "limited", "on", ">limited-secret", "~allowed", "+xadd",
                 "+multi", "+exec", "+discard", "+select"});
  Options limited = options();
  limited.user = "limited";
  limited.password = "limited-secret";
  const auto sink = opened(limited);
  const auto outcomes =
      send(*sink, {&events_.make("allowed", "a", "1"), &events_.make("forbidden", "a", "2"),
                   &events_.make("allowed", "a", "3"), &events_.make("allowed", "b", "4")});
  EXPECT_EQ(outcomes[0].fate, Fate::confirmed) << outcomes[0].reason;
  EXPECT_EQ(outcomes[1].fate, Fate::busy) << outcomes[1].reason;
  EXPECT_EQ(outcomes[2].fate, Fate::again);
  EXPECT_EQ(outcomes[3].fate, Fate::confirmed) << outcomes[3].reason;
  EXPECT_EQ(database_.run({"XLEN", "allowed"}).value().integer(), 2);
}

// Memory is short for the first event only: each command of a pipeline alone would be judged anew.
TEST_F(RedisSinkTest, AWindowIsTakenWholeOrNotAtAll) {
  const auto sink = opened(options());
  std::vector<const Event*> events;
  for (int i = 0; i < 500; ++i)
    events.push_back(&events_.make("orders", "k", std::to_string(i) + std::string(1000, 'x')));
  std::int64_t stored = 0;
  for (int i = 0; i < 20; ++i) {
    const std::string limit = std::to_string(used_memory() + 1 + 100'000 * (i % 4));
    database_.run({"CONFIG", "SET", "maxmemory", limit});
    std::vector<Outcome> outcomes(events.size());
    const bool is_sent = sink->submit(events).has_value();
    if (is_sent) outcomes = collect(*sink, events.size());
    database_.run({"CONFIG", "SET", "maxmemory", "0"});
    if (!is_sent) {
      ASSERT_TRUE(sink->open());
      continue;
    }
    const std::int64_t now = database_.run({"XLEN", "orders"}).value().integer();
    EXPECT_TRUE(now == stored || now == stored + 500) << now - stored;
    for (const Outcome& one : outcomes)
      EXPECT_EQ(one.fate, now == stored ? Fate::busy : Fate::confirmed) << one.reason;
    stored = now;
  }
}

TEST_F(RedisSinkTest, AKeyThatIsNoStreamIsBusyAloneUntilItIsRemoved) {
  database_.run({"SET", "text", "1"});
  const auto sink = opened(options());
  const auto outcomes =
      send(*sink, {&events_.make("text", "a", "1"), &events_.make("orders", "b", "2")});
  EXPECT_EQ(outcomes[0].fate, Fate::busy);
  EXPECT_NE(outcomes[0].reason.find("WRONGTYPE"), std::string::npos) << outcomes[0].reason;
  EXPECT_EQ(outcomes[1].fate, Fate::confirmed);
  database_.run({"DEL", "text"});
  EXPECT_EQ(send(*sink, {&events_.make("text", "a", "1")})[0].fate, Fate::confirmed);
}

TEST_F(RedisSinkTest, AStreamThatIsNotThereIsBusyWhereItMayNotBeMade) {
  Options strict = options();
  strict.declare = false;
  const auto sink = opened(strict);
  const Outcome before = send(*sink, {&events_.make("orders", "a", "1")})[0];
  EXPECT_EQ(before.fate, Fate::busy);
  EXPECT_NE(before.reason.find("declare"), std::string::npos) << before.reason;
  EXPECT_EQ(database_.run({"EXISTS", "orders"}).value().integer(), 0);
  database_.run({"XGROUP", "CREATE", "orders", "test", "0", "MKSTREAM"});
  EXPECT_EQ(send(*sink, {&events_.make("orders", "a", "1")})[0].fate, Fate::confirmed);
}

TEST_F(RedisSinkTest, NamesOfFieldsThatCannotBeToldApartAreRejected) {
  std::vector<Options> wrong(6, options());
  wrong[0].payload_field = "";
  wrong[1].payload_field = "key";
  wrong[2].key_header = "ce_id";
  wrong[3].payload_field = "content-type";
  wrong[4].message.headers = {{"data", "{type}"}};
  wrong[5].message.partition = "1";
  for (const Options& one : wrong) EXPECT_EQ(refused(one).code, Errc::rejected);
}

TEST_F(RedisSinkTest, AnEventWithoutTopicIsRejected) {
  const auto sink = opened(options());
  EXPECT_EQ(send(*sink, {&events_.make("", "a", "1")})[0].fate, Fate::rejected);
}

TEST_F(RedisSinkTest, AHeaderNamedLikeAFieldOfTheEntryIsRejected) {
  const auto sink = opened(options());
  Event& event = events_.make("orders", "a", "1");
  for (const char* headers : {R"({"data":"x"})", R"({"key":"x"})"}) {
    event.headers = headers;
    const Outcome outcome = send(*sink, {&event})[0];
    EXPECT_EQ(outcome.fate, Fate::rejected);
    EXPECT_NE(outcome.reason.find("header"), std::string::npos) << outcome.reason;
  }
}

TEST_F(RedisSinkTest, PayloadsUpToTheLimitArriveAndLargerOnesAreRejectedBeforeTheyAreSent) {
  Options small = options();
  small.payload_bytes_max = 1000;
  const auto sink = opened(small);
  const auto outcomes = send(*sink, {&events_.make("orders", "a", std::string(999, 'x')),
                                     &events_.make("orders", "b", std::string(1000, 'x')),
                                     &events_.make("orders", "c", std::string(1001, 'x')),
                                     &events_.make("orders", "d", "x")});
  EXPECT_EQ(outcomes[0].fate, Fate::confirmed);
  EXPECT_EQ(outcomes[1].fate, Fate::confirmed);
  EXPECT_EQ(outcomes[2].fate, Fate::rejected);
  EXPECT_EQ(outcomes[3].fate, Fate::confirmed);
  EXPECT_EQ(database_.run({"XLEN", "orders"}).value().integer(), 3);
}

TEST_F(RedisSinkTest, TheServersOwnLimitIsRespected) {
  constexpr std::size_t kLimit = 1 << 20;
  const Setting setting(database_, "proto-max-bulk-len", "1mb");
  const auto sink = opened(options());
  const auto outcomes = send(*sink, {&events_.make("orders", "a", std::string(kLimit - 1, 'x')),
                                     &events_.make("orders", "b", std::string(kLimit, 'x')),
                                     &events_.make("orders", "c", std::string(kLimit + 1, 'x')),
                                     &events_.make("orders", "d", "x")});
  EXPECT_EQ(outcomes[0].fate, Fate::confirmed);
  EXPECT_EQ(outcomes[1].fate, Fate::confirmed);
  EXPECT_EQ(outcomes[2].fate, Fate::rejected);
  EXPECT_EQ(outcomes[3].fate, Fate::confirmed);
  const Setting raised(database_, "proto-max-bulk-len", "2mb");
  Event& replayed = events_.make("orders", "c", std::string(kLimit + 1, 'x'));
  replayed.replays = 1;
  EXPECT_EQ(send(*sink, {&replayed})[0].fate, Fate::confirmed) << "a replay asks afresh";
}

// The user may not read the limit, so it shows only when the server hangs up.
TEST_F(RedisSinkTest, WhatTheServerHangsUpOnIsRejectedTheNextTime) {
  const Setting setting(database_, "proto-max-bulk-len", "1mb");
  Options narrow = options();
  narrow.user = "narrow";
  narrow.password = "narrow-secret";
  const auto sink = opened(narrow);
  const Event* const large = &events_.make("allowed", "a", std::string(1100 << 10, 'x'));
  bool rejected = false;
  ASSERT_TRUE(eventually([&] {
    std::vector<Outcome> outcomes(1);
    if (!sink->submit({&large, 1})) return static_cast<bool>(sink->open()) && false;
    const Result<bool> known = sink->collect(outcomes, seconds(30));
    if (known && *known) rejected = outcomes[0].fate == Fate::rejected;
    return rejected || (!known && !sink->open());
  }));
  EXPECT_TRUE(rejected);
  ASSERT_TRUE(sink->open());
  const auto outcomes = send(*sink, {large, &events_.make("allowed", "b", "x")});
  EXPECT_EQ(outcomes[0].fate, Fate::rejected);
  EXPECT_EQ(outcomes[1].fate, Fate::confirmed);
}

TEST_F(RedisSinkTest, AServerThatIsGoneIsUnavailable) {
  Options options = options_of(own_server().server());
  options.port = 1;
  EXPECT_EQ(refused(options).code, Errc::unavailable);
}

TEST_F(RedisSinkTest, ALostConnectionIsAnErrorAndTheNextOneWorks) {
  const auto sink = opened(options());
  database_.run({"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"});
  std::vector<Outcome> outcomes(1);
  const Event* const event = &events_.make("orders", "a", "1");
  Status failed = sink->submit({&event, 1});
  for (int i = 0; i < 300 && failed; ++i) {
    const Result<bool> known = sink->collect(outcomes, milliseconds(100));
    if (!known) failed = fail(known.error());
  }
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, Errc::unavailable);
  EXPECT_FALSE(sink->submit({&event, 1})) << "a lost connection is never repaired";
  ASSERT_TRUE(sink->open());
  EXPECT_EQ(send(*sink, {event})[0].fate, Fate::confirmed);
}

class RedisReplicaTest : public RedisSinkTest {
 protected:
  void attach() {
    const std::string port = std::to_string(options().port);
    replica_.run({"REPLICAOF", "127.0.0.1", port});
    ASSERT_TRUE(eventually([&] {
      return replica_.run({"INFO", "replication"}).value().text().find("master_link_status:up") !=
             std::string_view::npos;
    }));
  }
  Options waiting() const {
    Options options = this->options();
    options.wait_replicas = 1;
    return options;
  }

  SecondServer other_;
  TestDatabase replica_{other_.server()};
};

TEST_F(RedisReplicaTest, AnEventIsConfirmedWhenSoManyReplicasHaveIt) {
  const Error before = refused(waiting());
  EXPECT_EQ(before.code, Errc::unavailable);
  EXPECT_NE(before.text.find("wait_replicas"), std::string::npos) << before.text;

  attach();
  database_.run({"ACL", "SETUSER", "waiter", "on", ">waiter-secret", "~orders", "+xadd", "+multi",
                 "+exec", "+discard", "+select", "+wait"});
  Options as_user = waiting();
  as_user.user = "waiter";
  as_user.password = "waiter-secret";
  const auto sink = opened(as_user);
  EXPECT_EQ(send(*sink, {&events_.make("orders", "a", "1")})[0].fate, Fate::confirmed);

  kill(other_.pid(), SIGSTOP);
  std::vector<Outcome> outcomes(2);
  const Event* const events[] = {&events_.make("orders", "a", "2"),
                                 &events_.make("orders", "b", "3")};
  ASSERT_TRUE(sink->submit(events));
  const Result<bool> early = sink->collect(outcomes, milliseconds(1500));
  kill(other_.pid(), SIGCONT);
  ASSERT_TRUE(early) << early.error().text;
  EXPECT_FALSE(*early) << "the replica cannot have it";
  for (const Outcome& outcome : collect(*sink, 2)) EXPECT_EQ(outcome.fate, Fate::confirmed);
  EXPECT_EQ(database_.run({"XLEN", "orders"}).value().integer(), 3) << "nothing was sent twice";
}

}  // namespace
}  // namespace dovetail::redis
