// What an operator sees of queues and decides about their parked events, as `dovetail parked` does.
#include "postgres/doctor/doctor.h"
#include "postgres/operate/admin.h"
#include "postgres/testing/test_queue.h"

namespace dovetail::postgres {
namespace {

class PostgresQueueOperator : public QueueTest {
 protected:
  // Parks the first event of each key that can be had.
  void park(const std::string& reason) {
    must(owner_, "SELECT dovetail.fail('stock', id, epoch, '" + reason +
                     "', park => true) FROM dovetail.receive('stock', 100)");
  }
  std::vector<ParkedRow> parked(ParkedFilter filter = {}) {
    return list_parked(database_.conninfo, filter).value();
  }
};

TEST_F(PostgresQueueOperator, SeesWhatIsParkedAndWhy) {
  const Line a{"1", "a"};
  fill(owner_, "stock", {a, {"1", "b"}, {"2", "c"}});
  park("no such article");
  const std::vector<ParkedRow> rows = parked();
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].relay, "stock");
  EXPECT_EQ(rows[0].id, a.id);
  EXPECT_TRUE(rows[0].head);
  EXPECT_EQ(rows[0].state, EventState::parked);
  EXPECT_EQ(rows[0].reason, "no such article");
  EXPECT_EQ(rows[0].attempts, 1U);
  EXPECT_EQ(rows[0].type, "a");
  EXPECT_EQ(rows[0].payload_bytes, 2U);
  EXPECT_EQ(parked({.key = "2"}).size(), 1U);
  EXPECT_EQ(parked({.relay = "mail"}).size(), 0U);
  EXPECT_EQ(parked({.heads_only = true, .after = rows[0].number, .limit = 5}).size(), 1U);
  EXPECT_EQ(payload_of(database_.conninfo, a.id).value(), "{}");
}

TEST_F(PostgresQueueOperator, SeesHowMuchIsInAQueue) {
  fill(owner_, "stock", {{"1", "a"}, {"1", "b"}, {"2", "c"}});
  park("no");
  fill(owner_, "stock", {{"3", "d"}});
  const StoreStatus seen = status(database_.conninfo).value();
  ASSERT_EQ(seen.queues.size(), 1U);
  const QueueStatus& queue = seen.queues[0];
  EXPECT_EQ(queue.consumer, "stock");
  EXPECT_EQ(queue.events, 4U);
  EXPECT_EQ(queue.ready, 1U);
  EXPECT_EQ(queue.waiting, 1U);
  EXPECT_EQ(queue.parked, 2U);
  EXPECT_GT(queue.oldest_age, Duration::zero());
}

TEST_F(PostgresQueueOperator, ReplaysAnEventAKeyAndAFilter) {
  const Line a{"1", "a"};
  fill(owner_, "stock", {a, {"2", "b"}, {"3", "c"}});
  park("no");
  EXPECT_EQ(replay_event(database_.conninfo, "stock", a.id, {}).value(), 1U);
  EXPECT_EQ(types(receive(owner_, "stock", 10)), "a");
  EXPECT_TRUE(failed_with(replay_event(database_.conninfo, "", a.id, {}), Errc::rejected));
  const auto replay = [&](const std::string& what) {
    return number(owner_, "SELECT dovetail.replay_parked('', NULL, " + what + ", '')");
  };
  EXPECT_EQ(replay("'2', 'order', '', ''"), 1);
  EXPECT_EQ(replay("'', '', '', 'no'"), 1);
  EXPECT_EQ(types(receive(owner_, "stock", 10)), "b c");
  EXPECT_EQ(list_audit(database_.conninfo).value().size(), 3U);
}

TEST_F(PostgresQueueOperator, DiscardsAnEventAndTheNextOfItsKeyFollows) {
  const Line a{"1", "a"};
  fill(owner_, "stock", {a, {"1", "b"}});
  park("no");
  const std::string reason = "test data";
  EXPECT_TRUE(failed_with(discard(database_.conninfo, "", a.id, {}), Errc::rejected));
  ASSERT_TRUE(discard(database_.conninfo, "", a.id, reason));
  EXPECT_EQ(types(receive(owner_, "stock", 10)), "b");
  EXPECT_TRUE(parked().empty());
  const std::vector<ParkedRow> history = parked({.with_finished = true});
  ASSERT_EQ(history.size(), 1U);
  EXPECT_EQ(history[0].state, EventState::discarded);
  EXPECT_EQ(history[0].note, "test data");
  EXPECT_TRUE(failed_with(discard(database_.conninfo, "", a.id, reason), Errc::rejected));
}

TEST_F(PostgresQueueOperator, DiscardsAKeyWithWhatWaitsBehindAndAFilterWithout) {
  fill(owner_, "stock", {{"1", "a"}, {"1", "b"}, {"1", "c"}, {"2", "d"}, {"2", "e"}});
  park("no");
  const auto give_up = [&](const std::string& what) {
    return number(owner_, "SELECT dovetail.discard_parked(" + what + ", 'test data')");
  };
  EXPECT_EQ(give_up("'stock', NULL, '1', 'order', '', '', false, true"), 3);
  EXPECT_TRUE(receive(owner_, "stock", 10).value().empty());
  EXPECT_EQ(give_up("'', NULL, '', '', 'd', '', false, false"), 1);
  EXPECT_EQ(types(receive(owner_, "stock", 10)), "e");
}

TEST_F(PostgresQueueOperator, AWorkerWhoFinishesLateAfterAllIsTaken) {
  fill(owner_, "stock", {{"1", "a"}, {"1", "b"}});
  const Received slow = receive(owner_, "stock", 1, "1 h", 1).value().at(0);
  must(owner_, "UPDATE dovetail.queue SET due = now(), failures = 1 WHERE held");
  EXPECT_TRUE(receive(owner_, "stock", 1, "1 h", 1).value().empty());
  EXPECT_EQ(parked().size(), 1U);
  EXPECT_TRUE(settle(owner_, "complete", "stock", slow));
  EXPECT_TRUE(parked().empty());
  EXPECT_EQ(types(receive(owner_, "stock", 10)), "b");
}

TEST_F(PostgresQueueOperator, IsToldByTheDoctorWhatNeedsAHand) {
  const auto findings = [&] {
    std::string codes;
    const auto found = examine(database_.conninfo, {}, system_clock());
    EXPECT_TRUE(found) << text_of(found);
    for (const Finding& finding : *found)
      if (finding.code.starts_with("queue")) codes += finding.code + " ";
    return codes;
  };
  fill(owner_, "stock", {{"1", "a"}, {"1", "b"}, {"2", "c"}});
  EXPECT_EQ(findings(), "");
  must(owner_, "UPDATE dovetail.queue SET due = now() - interval '1 h' WHERE type = 'c'");
  EXPECT_EQ(findings(), "queue-backlog ");
  park("no");
  EXPECT_EQ(findings(), "queue-parked ");
  must(owner_, "DELETE FROM dovetail.queue WHERE type <> 'b'");
  EXPECT_EQ(findings(), "queue-stuck ");
  must(owner_, "UPDATE dovetail.queue SET waiting = false WHERE waiting");
  EXPECT_EQ(types(receive(owner_, "stock")), "b");
}

}  // namespace
}  // namespace dovetail::postgres
