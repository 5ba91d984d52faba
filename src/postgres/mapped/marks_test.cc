// What a row says about its event at each step.
#include "postgres/testing/test_mapped.h"

namespace dovetail::postgres {
namespace {

using namespace std::chrono_literals;

// One row of the layout with a status, and its event.
class MappedMarks : public MappedTest {
 protected:
  // An operator's decisions.
  void replay() { decide("SELECT dovetail.replay_parked('', NULL, '', '', '', '', 'healed')"); }
  void discard() {
    decide("SELECT dovetail.discard_parked('', NULL, '', '', '', '', false, false, 'no use')");
  }
  std::string status() {
    return text(application,
                "SELECT string_agg(status, ' ' ORDER BY created_at) FROM outbox_events");
  }
  // What a relay does from time to time gives the row this status.
  bool becomes(MappedLane& lane, const std::string& wanted) {
    return eventually([&] {
      EXPECT_TRUE(lane.source.keep_alive());
      return status() == wanted;
    });
  }
  // The lane's process dies, and another one takes over.
  MappedLane& restart(MappedLane& lane, const TableMapping& own) {
    EXPECT_TRUE(lane.lease.release());
    return serve(own);
  }
  Status delivered(MappedLane& lane, const EventId& id) { return lane.parking.delivered({&id, 1}); }
  std::size_t due(MappedLane& lane) {
    Batch batch;
    std::vector<std::uint32_t> attempts;
    EXPECT_TRUE(lane.parking.take_due(batch, attempts, {}));
    return batch.size();
  }

  TableMapping mapping = *mapping_preset("status");

 private:
  void decide(const std::string& sql) { EXPECT_EQ(number(application, sql), 1); }
};

TEST_F(MappedMarks, EventThatWaitsForItsNextTryIsPending) {
  make(kStatusTable);
  insert_status("{}");
  MappedLane& lane = serve(mapping);
  Batch batch;
  ASSERT_EQ(lane.read(batch).size(), 1u);
  park(lane, batch.events()[0], ParkState::waiting);
  EXPECT_EQ(status(), "PENDING");
  ASSERT_TRUE(lane.settle(batch, Settled::parked));
  EXPECT_EQ(status(), "PENDING");
  // It goes out from parking and is not read as well.
  EXPECT_TRUE(lane.read().empty());
  MappedLane& next = restart(lane, mapping);
  EXPECT_TRUE(next.read().empty());
  EXPECT_EQ(due(next), 1u);
  ASSERT_TRUE(delivered(next, batch.events()[0].id));
  EXPECT_EQ(status(), "SENT");
  EXPECT_EQ(number(application, "SELECT count(*) FROM outbox_events WHERE sent_at IS NULL"), 0);
}

TEST_F(MappedMarks, ParkedRowIsMarkedAlsoWhenTheRelayDiesBeforeItsBatchIsSettled) {
  make(kStatusTable);
  insert_status("{}");
  MappedLane& lane = serve(mapping);
  Batch batch;
  ASSERT_EQ(lane.read(batch).size(), 1u);
  park(lane, batch.events()[0]);
  EXPECT_EQ(status(), "FAILED");
  MappedLane& next = restart(lane, mapping);
  EXPECT_TRUE(next.read().empty());
  EXPECT_EQ(status(), "FAILED");
  ASSERT_TRUE(delivered(next, batch.events()[0].id));
  EXPECT_EQ(status(), "SENT");
}

TEST_F(MappedMarks, EventThatIsParkedAfterItsLastTryIsMarkedThen) {
  make(kStatusTable);
  insert_status("{}");
  MappedLane& lane = serve(mapping);
  Batch batch;
  ASSERT_EQ(lane.read(batch).size(), 1u);
  park(lane, batch.events()[0], ParkState::waiting);
  ASSERT_TRUE(lane.settle(batch, Settled::parked));
  // From parking, like the relay: there is no batch to settle.
  MappedLane& next = restart(lane, mapping);
  park(next, batch.events()[0]);
  EXPECT_EQ(status(), "FAILED");
}

TEST_F(MappedMarks, ReplayedEventIsPendingUntilItIsDeliveredOrFailsAgain) {
  make(kStatusTable);
  insert_status("{}");
  MappedLane& lane = serve(mapping);
  Batch batch;
  ASSERT_EQ(lane.read(batch).size(), 1u);
  park(lane, batch.events()[0]);
  ASSERT_TRUE(lane.settle(batch, Settled::parked));
  replay();
  EXPECT_TRUE(becomes(lane, "PENDING"));
  EXPECT_TRUE(lane.read().empty());
  park(lane, batch.events()[0]);
  EXPECT_EQ(status(), "FAILED");
  // While no relay runs, the row cannot be marked; the next relay marks it at once.
  EXPECT_TRUE(lane.lease.release());
  replay();
  MappedLane& next = serve(mapping);
  EXPECT_EQ(status(), "PENDING");
  ASSERT_TRUE(delivered(next, batch.events()[0].id));
  EXPECT_EQ(status(), "SENT");
}

TEST_F(MappedMarks, DiscardedEventIsMarkedSoWhereverItStood) {
  make(kStatusTable);
  insert_status("1", 1);
  insert_status("2", 2);
  mapping.when_discarded = {{"status", Assignment::Value::text, "GONE"}};
  MappedLane& lane = serve(mapping);
  Batch batch;
  ASSERT_EQ(lane.read(batch).size(), 2u);
  park(lane, batch.events()[0]);
  ASSERT_TRUE(lane.settle(batch, Settled::parked));
  EXPECT_EQ(status(), "FAILED FAILED");
  discard();
  EXPECT_TRUE(lane.read().empty());
  EXPECT_TRUE(becomes(lane, "GONE FAILED"));
  make("UPDATE outbox_events SET status = 'PENDING' WHERE payload = '2'");
  Batch second;
  ASSERT_EQ(lane.read(second).size(), 1u);
  park(lane, second.events()[0], ParkState::waiting);
  ASSERT_TRUE(lane.settle(second, Settled::parked));
  EXPECT_EQ(status(), "GONE PENDING");
  discard();
  EXPECT_TRUE(lane.read().empty());
  EXPECT_TRUE(becomes(lane, "GONE GONE"));
  // A row that is set back goes out again.
  make("UPDATE outbox_events SET status = 'PENDING' WHERE payload = '1'");
  Batch again;
  EXPECT_EQ(lane.read(again), std::vector<std::string>{"1"});
  ASSERT_TRUE(lane.settle(again));
  MappedLane& next = restart(lane, mapping);
  EXPECT_TRUE(next.read().empty());
  EXPECT_EQ(status(), "SENT GONE");
}

TEST_F(MappedMarks, WhatParkingHasSetIsTakenBackWhenTheEventIsSent) {
  make(
      "CREATE TABLE t (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), payload text, sent_at "
      "timestamptz, failed_at timestamptz); INSERT INTO t (payload) VALUES ('x')");
  TableMapping own;
  own.table = "t";
  own.pending = {{"sent_at"}, {"failed_at"}};
  own.when_delivered = {{"sent_at", Assignment::Value::now}};
  own.when_parked = {{"failed_at", Assignment::Value::now}};
  const auto marks = [&] {
    return text(application,
                "SELECT concat_ws(' ', CASE WHEN sent_at IS NOT NULL THEN 'sent' END, "
                "CASE WHEN failed_at IS NOT NULL THEN 'failed' END) FROM t");
  };
  MappedLane& lane = serve(own);
  Batch batch;
  ASSERT_EQ(lane.read(batch).size(), 1u);
  park(lane, batch.events()[0]);
  EXPECT_EQ(marks(), "failed");
  replay();
  ASSERT_TRUE(delivered(lane, batch.events()[0].id));
  EXPECT_EQ(marks(), "sent");
}

TEST_F(MappedMarks, RowOfANumberHasTheSameMarks) {
  make(kNumberTable);
  insert_number("k", "x");
  TableMapping own = number_mapping();
  own.when_discarded = {{"state", Assignment::Value::text, "done"},
                        {"why", Assignment::Value::reason}};
  const auto state = [&] { return text(application, "SELECT state::text FROM shop.events"); };
  MappedLane& lane = serve(own);
  Batch batch;
  ASSERT_EQ(lane.read(batch).size(), 1u);
  const EventId id = batch.events()[0].id;
  park(lane, batch.events()[0], ParkState::waiting);
  EXPECT_EQ(state(), "new");
  park(lane, batch.events()[0]);
  EXPECT_EQ(state(), "bad");
  replay();
  MappedLane& next = restart(lane, own);
  EXPECT_EQ(state(), "new");
  park(next, batch.events()[0]);
  EXPECT_EQ(state(), "bad");
  discard();
  MappedLane& last = restart(next, own);
  EXPECT_EQ(state(), "done");
  EXPECT_EQ(text(application, "SELECT why FROM shop.events"), "it is 'refused'");
  EXPECT_TRUE(last.read().empty());
  EXPECT_EQ(id, batch.events()[0].id);
}

TEST_F(MappedMarks, RowThatIsDeletedWhenItIsDoneStaysUntilThen) {
  make(kDebeziumTable);
  make("INSERT INTO outbox (aggregatetype, aggregateid, type) VALUES ('order', '1', 'placed')");
  MappedLane& lane = serve(*mapping_preset("debezium"));
  const auto rows = [&] { return number(application, "SELECT count(*) FROM outbox"); };
  Batch batch;
  ASSERT_EQ(lane.read(batch).size(), 1u);
  park(lane, batch.events()[0], ParkState::waiting);
  ASSERT_TRUE(lane.settle(batch, Settled::parked));
  EXPECT_EQ(rows(), 1);
  EXPECT_TRUE(lane.read().empty());
  ASSERT_TRUE(delivered(lane, batch.events()[0].id));
  EXPECT_EQ(rows(), 0);
}

TEST_F(MappedMarks, WhatAnEarlierVersionParkedIsMarkedAtTheNextStart) {
  make(kStatusTable);
  make(kNumberTable);
  insert_status("{}");
  insert_number("k", "x");
  for (const TableMapping& own : {mapping, number_mapping()}) {
    MappedLane& lane = serve(own);
    Batch batch;
    ASSERT_EQ(lane.read(batch).size(), 1u);
    park(lane, batch.events()[0]);
    // It also marked rows that wait for their next try, and did not record which row an event has.
    make("UPDATE dovetail.parked SET state = 'waiting', row_state = NULL, row_id = NULL");
    restart(lane, own);
    EXPECT_EQ(text(application, own.table == "shop.events" ? "SELECT state::text FROM shop.events"
                                                           : "SELECT status FROM outbox_events"),
              own.pending[0].values[0]);
    make("DELETE FROM dovetail.parked; UPDATE dovetail.relay_lane SET owner = ''");
  }
}

TEST_F(MappedMarks, RowsThatAreOneEventByTheirIdAreSentAndMarkedEachForItself) {
  make(
      "CREATE TABLE t (n int PRIMARY KEY, id text UNIQUE, payload text, state text DEFAULT 'new'); "
      "INSERT INTO t VALUES (1, '0190AAAA-0000-7000-8000-000000000001', 'a'), "
      "(2, '0190aaaa-0000-7000-8000-000000000001', 'b'), "
      "(3, '0190AAAA-0000-7000-8000-000000000002', 'c'), "
      "(4, '0190aaaa-0000-7000-8000-000000000002', 'd')");
  TableMapping own;
  own.table = "t";
  own.order_by = "n";
  own.pending = {{"state", {"new"}}};
  own.when_delivered = {{"state", Assignment::Value::text, "sent"}};
  own.when_parked = {{"state", Assignment::Value::text, "bad"}};
  MappedLane& lane = serve(own);
  const auto states = [&] {
    return text(application, "SELECT string_agg(state, ' ' ORDER BY n) FROM t");
  };
  // In flight at the same time, in different batches.
  Batch first;
  Batch second;
  ASSERT_EQ(lane.read(first, 1), (std::vector<std::string>{"a"}));
  ASSERT_EQ(lane.read(second, 1), (std::vector<std::string>{"b"}));
  EXPECT_EQ(first.events()[0].id, second.events()[0].id);
  ASSERT_TRUE(lane.settle(first));
  EXPECT_EQ(states(), "sent new new new");
  ASSERT_TRUE(lane.settle(second));
  EXPECT_EQ(states(), "sent sent new new");
  // In one batch, which is parked: the second waits for an operator, with its own id.
  Batch both;
  ASSERT_EQ(lane.read(both), (std::vector<std::string>{"c", "d"}));
  park(lane, both.events()[0]);
  park(lane, both.events()[1]);
  ASSERT_TRUE(lane.settle(both, Settled::parked));
  EXPECT_EQ(states(), "sent sent bad bad");
  ASSERT_TRUE(delivered(lane, both.events()[0].id));
  EXPECT_EQ(states(), "sent sent sent bad");
  replay();
  MappedLane& next = restart(lane, own);
  EXPECT_EQ(states(), "sent sent sent new");
  EXPECT_TRUE(next.read().empty());
  Batch due;
  std::vector<std::uint32_t> attempts;
  ASSERT_TRUE(next.parking.take_due(due, attempts, {}));
  ASSERT_EQ(due.size(), 1u);
  EXPECT_EQ(due.events()[0].payload, "d");
  ASSERT_TRUE(delivered(next, due.events()[0].id));
  EXPECT_EQ(states(), "sent sent sent sent");
}

// As in a table that is partitioned, or that numbers rows per tenant.
TEST_F(MappedMarks, RowThatSharesItsIdWithAnotherOneIsNotMarkedWithIt) {
  for (const std::string type : {"uuid", "int", "text"}) {
    const std::string id = type == "uuid" ? "0190aaaa-0000-7000-8000-000000000001" : "1";
    make("CREATE TABLE t (tenant text, id " + type +
         ", n int, payload text, state text DEFAULT 'new', PRIMARY KEY (tenant, id)); "
         "INSERT INTO t VALUES ('a', '" +
         id + "', 1, 'x')");
    TableMapping own;
    own.table = "t";
    own.aggregate_id = "tenant";
    own.order_by = "n";
    own.pending = {{"state", {"new"}}};
    own.when_delivered = {{"state", Assignment::Value::text, "sent"}};
    own.when_parked = {{"state", Assignment::Value::text, "bad"}};
    MappedLane& lane = serve(own);
    const auto states = [&] {
      return text(application, "SELECT string_agg(state, ' ' ORDER BY n) FROM t");
    };
    Batch first;
    ASSERT_EQ(lane.read(first).size(), 1u);
    make("INSERT INTO t VALUES ('b', '" + id + "', 2, 'y')");
    ASSERT_TRUE(lane.settle(first));
    EXPECT_EQ(states(), "sent new") << type;
    Batch second;
    ASSERT_EQ(lane.read(second), std::vector<std::string>{"y"}) << type;
    park(lane, second.events()[0], ParkState::waiting);
    make("UPDATE t SET state = 'new' WHERE tenant = 'a'");
    // It waits until no event with its id is parked.
    EXPECT_TRUE(lane.read().empty());
    park(lane, second.events()[0]);
    EXPECT_EQ(states(), "new bad") << type;
    ASSERT_TRUE(delivered(lane, second.events()[0].id));
    EXPECT_EQ(states(), "new sent") << type;
    EXPECT_EQ(lane.read(), std::vector<std::string>{"x"});
    EXPECT_TRUE(lane.lease.release());
    make("DROP TABLE t; DELETE FROM dovetail.parked");
  }
}

TEST_F(MappedMarks, StaleOwnerMarksNothing) {
  make(kStatusTable);
  insert_status("{}");
  MappedLane& stale = serve(mapping);
  Batch batch;
  ASSERT_EQ(stale.read(batch).size(), 1u);
  park(stale, batch.events()[0], ParkState::waiting);
  make("UPDATE dovetail.relay_lane SET epoch = epoch + 1, owner = 'another'");
  ASSERT_TRUE(failed_with(stale.settle(batch), Errc::stopped));
  EXPECT_TRUE(failed_with(stale.settle(batch, Settled::parked), Errc::stopped));
  EXPECT_TRUE(failed_with(delivered(stale, batch.events()[0].id), Errc::stopped));
  make("UPDATE dovetail.parked SET state = 'parked'");
  Status tended;
  EXPECT_TRUE(eventually([&] { return !(tended = stale.source.keep_alive()); }));
  EXPECT_TRUE(failed_with(tended, Errc::stopped));
  EXPECT_TRUE(failed_with(stale.source.open(), Errc::stopped));
  EXPECT_EQ(status(), "PENDING");
  EXPECT_EQ(number(application, "SELECT delivered_total FROM dovetail.relay_lane"), 0);
}

TEST_F(MappedMarks, EventDeliveredFromParkingBeforeItsBatchIsSettledStaysSent) {
  make(kStatusTable);
  insert_status("{}");
  MappedLane& lane = serve(mapping);
  Batch batch;
  ASSERT_EQ(lane.read(batch).size(), 1u);
  park(lane, batch.events()[0], ParkState::waiting);
  ASSERT_TRUE(delivered(lane, batch.events()[0].id));
  ASSERT_TRUE(lane.settle(batch, Settled::parked));
  EXPECT_EQ(status(), "SENT");
}

TEST_F(MappedMarks, ParkedRowIsNotReadAgainWhereTheTableHasNoWordForIt) {
  make(kSentAtTable);
  make("INSERT INTO outbox_events (event_type, payload) VALUES ('placed', '{}')");
  MappedLane& lane = serve(*mapping_preset("sent_at"));
  Batch batch;
  ASSERT_EQ(lane.read(batch).size(), 1u);
  park(lane, batch.events()[0]);
  ASSERT_TRUE(lane.settle(batch, Settled::parked));
  ASSERT_TRUE(lane.source.open());
  EXPECT_TRUE(lane.read().empty());
  EXPECT_EQ(number(application, "SELECT count(*) FROM outbox_events WHERE sent_at IS NULL"), 1);
  // Once an operator discards it, the row is not pending any more.
  discard();
  ASSERT_TRUE(lane.source.open());
  EXPECT_TRUE(lane.read().empty());
  EXPECT_EQ(number(application, "SELECT count(*) FROM outbox_events WHERE sent_at IS NULL"), 0);
}

}  // namespace
}  // namespace dovetail::postgres
