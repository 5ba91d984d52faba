// The order of a queue along its keys, where workers, completions and arrivals meet.
#include "postgres/testing/test_queue.h"

namespace dovetail::postgres {
namespace {

class PostgresQueueOrder : public QueueTest {
 protected:
  std::string waiting() {
    return text(owner_,
                "SELECT coalesce(string_agg(type, ' ' ORDER BY number), '') FROM dovetail.queue "
                "WHERE waiting");
  }

  Connection worker_ = database_.connect();
  Connection other_ = database_.connect();
};

TEST_F(PostgresQueueOrder, AKeyGivesOneEventAtATimeInOrderAndOthersAreNotHeldUp) {
  fill(owner_, "stock", {{"1", "a"}, {"1", "b"}, {"2", "c"}, {"", "d"}, {"1", "e"}, {"", "f"}});
  const auto first = receive(worker_, "stock", 10).value();
  EXPECT_EQ(types(first), "a c d f");
  EXPECT_EQ(types(receive(other_, "stock", 10)), "");
  EXPECT_TRUE(settle(worker_, "complete", "stock", first[0]));
  const auto second = receive(other_, "stock", 10).value();
  EXPECT_EQ(types(second), "b");
  EXPECT_TRUE(settle(other_, "complete", "stock", second[0]));
  EXPECT_EQ(types(receive(other_, "stock", 10)), "e");
}

TEST_F(PostgresQueueOrder, WhatArrivesBehindAHeldEventWaitsForIt) {
  fill(owner_, "stock", {{"1", "a"}});
  const Received a = receive(worker_, "stock").value().at(0);
  fill(owner_, "stock", {{"1", "b"}, {"2", "c"}});
  fill(owner_, "stock", {{"1", "d"}});
  EXPECT_EQ(types(receive(other_, "stock", 10)), "c");
  EXPECT_EQ(waiting(), "b d");
  EXPECT_TRUE(settle(worker_, "complete", "stock", a));
  EXPECT_EQ(types(receive(other_, "stock", 10)), "b");
}

// The dangerous moment: the event before it is being completed, by a transaction that does not see
// this one, and that a receiver does not see.
TEST_F(PostgresQueueOrder, WhatArrivesDuringACompletionIsNotForgotten) {
  fill(owner_, "stock", {{"1", "a"}});
  const Received a = receive(worker_, "stock").value().at(0);
  must(worker_, "BEGIN");
  EXPECT_TRUE(settle(worker_, "complete", "stock", a));
  fill(owner_, "stock", {{"1", "b"}});
  EXPECT_EQ(types(receive(other_, "stock", 10)), "") << "a is not completed yet";
  EXPECT_EQ(waiting(), "") << "a sees to nothing any more";
  must(worker_, "COMMIT");
  EXPECT_EQ(types(receive(other_, "stock", 10)), "b");
}

TEST_F(PostgresQueueOrder, ACompletionThatIsRolledBackLeavesTheOrder) {
  fill(owner_, "stock", {{"1", "a"}, {"1", "b"}});
  const Received a = receive(worker_, "stock").value().at(0);
  must(worker_, "BEGIN");
  EXPECT_TRUE(settle(worker_, "complete", "stock", a));
  EXPECT_EQ(types(receive(other_, "stock", 10)), "");
  must(worker_, "ROLLBACK");
  EXPECT_EQ(types(receive(other_, "stock", 10)), "");
  EXPECT_TRUE(settle(worker_, "complete", "stock", a));
  EXPECT_EQ(types(receive(other_, "stock", 10)), "b");
}

TEST_F(PostgresQueueOrder, UnderRepeatableReadNothingIsForgottenEither) {
  fill(owner_, "stock", {{"1", "a"}});
  const Received a = receive(worker_, "stock").value().at(0);
  must(worker_, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM dovetail.queue");
  fill(owner_, "stock", {{"1", "b"}});
  EXPECT_EQ(types(receive(other_, "stock", 10)), "");
  ASSERT_EQ(waiting(), "b");
  const Status old = settle(worker_, "complete", "stock", a);
  EXPECT_TRUE(failed_with(old, Errc::unavailable)) << "it does not see that b waits for it";
  EXPECT_TRUE(contains(text_of(old), "40001")) << text_of(old);
  must(worker_, "ROLLBACK; BEGIN ISOLATION LEVEL SERIALIZABLE");
  EXPECT_TRUE(settle(worker_, "complete", "stock", a));
  must(worker_, "COMMIT");
  EXPECT_EQ(types(receive(other_, "stock", 10)), "b");
}

TEST_F(PostgresQueueOrder, AnEventThatCommitsLateInTheMiddleOfItsKeyHoldsUpNobody) {
  Connection late = database_.connect();
  fill(owner_, "stock", {{"1", "a"}});
  must(late, "BEGIN");
  fill(late, "stock", {{"1", "b"}});
  fill(owner_, "stock", {{"1", "c"}});
  const Received a = receive(worker_, "stock").value().at(0);
  EXPECT_EQ(types(receive(other_, "stock")), "") << "c waits for a";
  must(late, "COMMIT");
  EXPECT_TRUE(settle(worker_, "complete", "stock", a));
  const auto b = receive(worker_, "stock", 10).value();
  EXPECT_EQ(types(b), "b");
  EXPECT_TRUE(settle(worker_, "complete", "stock", b[0]));
  EXPECT_EQ(types(receive(worker_, "stock", 10)), "c");
}

TEST_F(PostgresQueueOrder, AnEventThatIsStillThereMayBePutInAgain) {
  const Line a{"1", "a"};
  fill(owner_, "stock", {a});
  const Received held = receive(worker_, "stock").value().at(0);
  std::vector<Event> again(2);
  again[0].id = a.id;
  again[1].id = new_event_id();
  for (Event& event : again) event.aggregate_type = "order", event.aggregate_id = "1";
  again[1].type = "b";
  const Event* events[] = {&again[0], &again[1]};
  EXPECT_EQ(owner_.query(kEnqueue, enqueue_params("stock", events)).value().int8(0, 0), 1);
  EXPECT_EQ(waiting(), "") << "nobody has promised to see to it";
  EXPECT_TRUE(settle(worker_, "complete", "stock", held));
  EXPECT_EQ(types(receive(worker_, "stock", 10)), "b");
}

TEST_F(PostgresQueueOrder, AWorkerMayReceiveAndCompleteInOneTransaction) {
  fill(owner_, "stock", {{"1", "a"}, {"1", "b"}, {"2", "c"}});
  must(worker_, "BEGIN");
  const auto a = receive(worker_, "stock").value();
  EXPECT_EQ(types(a), "a");
  EXPECT_EQ(types(receive(other_, "stock", 10)), "c") << "the key is taken";
  EXPECT_TRUE(settle(worker_, "complete", "stock", a[0]));
  must(worker_, "COMMIT");
  EXPECT_EQ(types(receive(other_, "stock", 10)), "b");
}

}  // namespace
}  // namespace dovetail::postgres
