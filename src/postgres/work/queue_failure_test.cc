// Which failures of workers count, and when an event is parked.
#include <algorithm>

#include "postgres/testing/test_queue.h"

namespace dovetail::postgres {
namespace {

class PostgresQueueFailure : public QueueTest {
 protected:
  // After a day: all leases and pauses have ended.
  std::vector<Received> take(int attempts_max = 3) {
    must(owner_, "UPDATE dovetail.queue SET due = due - interval '1 day'");
    return receive(owner_, "stock", 100, "1 h", attempts_max).value();
  }
  // A worker takes all that there is, fails with what is bad, and completes the rest.
  void work(const std::function<bool(const Received&)>& is_bad) {
    for (const Received& one : take())
      EXPECT_TRUE(settle(owner_, is_bad(one) ? "fail" : "complete", "stock", one));
  }
  std::string parked() {
    return text(owner_,
                "SELECT coalesce(string_agg(type || ' ' || attempts, ', '), '') FROM "
                "dovetail.queue_parked");
  }
  std::int64_t failures(const std::string& type) {
    return number(owner_, "SELECT failures::int8 FROM dovetail.queue WHERE type = '" + type + "'");
  }
  static bool is_poison(const Received& one) { return one.type == "poison"; }
};

TEST_F(PostgresQueueFailure, AWholeConsumerThatFailsParksNothingAndHeals) {
  fill(owner_, "stock", {{"1", "a"}, {"2", "b"}, {"3", "c"}, {"3", "d"}, {"", "e"}});
  for (int round = 0; round < 20; ++round) work([](const Received&) { return true; });
  EXPECT_EQ(parked(), "");
  for (int round = 0; round < 2; ++round) work(is_poison);
  EXPECT_EQ(parked(), "");
  EXPECT_EQ(number(owner_, "SELECT count(*) FROM dovetail.queue"), 0);
}

TEST_F(PostgresQueueFailure, OnePoisonAmongGoodOnesIsParkedAlone) {
  fill(owner_, "stock", {{"1", "poison"}, {"1", "behind"}});
  for (int round = 0; round < 4; ++round) {
    EXPECT_EQ(parked(), "");
    fill(owner_, "stock", {{"2", "good"}, {"", "fine"}});
    work(is_poison);
  }
  EXPECT_EQ(parked(), "poison 4");
  EXPECT_EQ(number(owner_, "SELECT count(*) FROM dovetail.queue"), 2);
  // It begins anew when it is replayed.
  must(owner_, "SELECT dovetail.replay('stock', id) FROM dovetail.queue_parked");
  work(is_poison);
  EXPECT_EQ(parked(), "");
}

TEST_F(PostgresQueueFailure, AFailureCountsOnceAnEventOfAnotherKeyIsCompleted) {
  fill(owner_, "stock", {{"1", "poison"}});
  const std::vector<Received> first = take();
  ASSERT_TRUE(settle(owner_, "fail", "stock", first.at(0)));
  EXPECT_EQ(failures("poison"), 0);
  fill(owner_, "stock", {{"2", "good"}, {"3", "fine"}});
  work([](const Received&) { return true; });
  EXPECT_EQ(failures("poison"), 0) << "no neighbour has passed";
  fill(owner_, "stock", {{"", "other"}});
  const std::vector<Received> taken = take();
  const auto other = std::find_if(taken.begin(), taken.end(),
                                  [](const Received& one) { return one.type == "other"; });
  ASSERT_NE(other, taken.end());
  must(owner_, "BEGIN");
  ASSERT_TRUE(settle(owner_, "complete", "stock", *other));
  must(owner_, "ROLLBACK");
  EXPECT_EQ(failures("poison"), 0) << "it was not completed after all";
  ASSERT_TRUE(settle(owner_, "complete", "stock", *other));
  EXPECT_EQ(failures("poison"), 1) << "also while a worker has it";
}

TEST_F(PostgresQueueFailure, ARefusalIsParkedAtOnce) {
  fill(owner_, "stock", {{"1", "a"}});
  must(owner_,
       "SELECT dovetail.fail('stock', id, epoch, 'never', park => true) FROM "
       "dovetail.receive('stock')");
  EXPECT_EQ(parked(), "a 1");
}

TEST_F(PostgresQueueFailure, AnEventThatKillsItsWorkersIsParkedAndItsNeighboursAreDone) {
  fill(owner_, "stock", {{"2", "poison"}, {"2", "behind"}});
  int deaths = 0;
  // Each worker takes what it gets and completes it, until it meets the bad one, which kills it.
  for (int round = 0; round < 30; ++round) {
    fill(owner_, "stock", {{"1", "good"}});
    const std::vector<Received> taken = take();
    if (std::any_of(taken.begin(), taken.end(), is_poison)) {
      ++deaths;
      // What it had with it comes out alone, and is done by others.
      continue;
    }
    for (const Received& one : taken) EXPECT_TRUE(settle(owner_, "complete", "stock", one));
  }
  EXPECT_GE(deaths, 3);
  EXPECT_LE(deaths, 10);
  for (std::vector<Received> left = take(); !left.empty(); left = take())
    for (const Received& one : left) EXPECT_TRUE(settle(owner_, "complete", "stock", one));
  EXPECT_EQ(text(owner_, "SELECT string_agg(type, ' ' ORDER BY number) FROM dovetail.queue"),
            "poison behind");
  EXPECT_TRUE(contains(text(owner_, "SELECT type || ': ' || reason FROM dovetail.queue_parked"),
                       "attempts: the last worker had it until its lease ended"));
}

TEST_F(PostgresQueueFailure, WorkersThatAllDieParkNothing) {
  fill(owner_, "stock", {{"1", "a"}, {"2", "b"}});
  for (int round = 0; round < 20; ++round) EXPECT_FALSE(take().empty());
  EXPECT_EQ(parked(), "");
}

TEST_F(PostgresQueueFailure, ByDefaultAttemptsTakeAboutAnHourAndAnOutageIsTriedEvery15Seconds) {
  const auto total = [&](const std::string& suspect) {
    return number(owner_, "SELECT (EXTRACT(epoch FROM sum(dovetail.queue_pause(i, " + suspect +
                              "))) / 60)::int8 FROM generate_series(1, 15) AS i");
  };
  EXPECT_GE(total("false"), 45);
  EXPECT_LE(total("false"), 75);
  EXPECT_LE(number(owner_, "SELECT EXTRACT(epoch FROM dovetail.queue_pause(1000, true))::int8"),
            15);
}

TEST_F(PostgresQueueFailure, AFailedEventWaitsShorterWhileNoNeighbourPasses) {
  fill(owner_, "stock", {{"1", "poison"}});
  must(owner_, "UPDATE dovetail.queue SET attempts = 20");
  const auto pause = [&] {
    return number(owner_,
                  "SELECT EXTRACT(epoch FROM due - clock_timestamp())::int8 FROM "
                  "dovetail.queue WHERE type = 'poison'");
  };
  work(is_poison);
  EXPECT_GT(pause(), 60);
  work(is_poison);
  EXPECT_LE(pause(), 15);
  fill(owner_, "stock", {{"2", "good"}});
  for (int round = 0; round < 2; ++round) work(is_poison);
  EXPECT_GT(pause(), 60);
}

// As where two consumers fill one queue: the second of a key was committed, and taken, first.
TEST_F(PostgresQueueFailure, ACompletionOfItsOwnKeyCountsNoFailure) {
  fill(owner_, "stock", {{"2", "good"}});
  work(is_poison);
  Connection other = database_.connect();
  must(other, "BEGIN");
  fill(other, "stock", {{"1", "poison"}});
  fill(owner_, "stock", {{"1", "behind"}});
  const std::vector<Received> behind = take();
  ASSERT_EQ(types(behind), "behind");
  must(other, "COMMIT");
  const std::vector<Received> poison = receive(other, "stock").value();
  ASSERT_EQ(types(poison), "poison");
  ASSERT_TRUE(settle(other, "fail", "stock", poison.at(0)));
  ASSERT_TRUE(settle(owner_, "complete", "stock", behind.at(0)));
  EXPECT_EQ(failures("poison"), 0);
  fill(owner_, "stock", {{"2", "good"}});
  work(is_poison);
  EXPECT_EQ(failures("poison"), 1);
}

// Its snapshot does not show that the suspect was tried again meanwhile.
TEST_F(PostgresQueueFailure, ACompletionUnderRepeatableReadIsNotFailedByASuspect) {
  fill(owner_, "stock", {{"1", "poison"}, {"2", "good"}});
  const std::vector<Received> taken = take();
  ASSERT_TRUE(settle(owner_, "fail", "stock", taken.at(0)));
  Connection other = database_.connect();
  must(other, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1 FROM dovetail.queue");
  must(owner_, "UPDATE dovetail.queue SET due = now() WHERE type = 'poison'");
  const Status done = settle(other, "complete", "stock", taken.at(1));
  EXPECT_TRUE(done) << text_of(done);
  must(other, "COMMIT");
  EXPECT_EQ(number(owner_, "SELECT count(*) FROM dovetail.queue"), 1);
}

}  // namespace
}  // namespace dovetail::postgres
