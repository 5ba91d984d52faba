// What a worker can do with the events that it receives, and what becomes of those it does not.
#include "postgres/work/queue.h"

#include "postgres/testing/test_queue.h"

namespace dovetail::postgres {
namespace {

class PostgresQueue : public QueueTest {
 protected:
  std::vector<Received> take(int events_max = 1, const std::string& lease = "1 h") {
    return receive(owner_, "stock", events_max, lease).value();
  }
  // As time would: all leases have ended.
  void expire() { must(owner_, "UPDATE dovetail.queue SET due = now() WHERE held"); }
  std::int64_t left() { return number(owner_, "SELECT count(*) FROM dovetail.queue"); }
};

TEST_F(PostgresQueue, AWorkerReceivesTheWholeEvent) {
  Event event;
  event.id = new_event_id();
  event.topic = "orders";
  event.aggregate_type = "order";
  event.aggregate_id = "17";
  event.type = "placed";
  event.content_type = "application/octet-stream";
  event.headers = R"({"traceparent": "00-1"})";
  event.payload = std::string_view("\0\xff", 2);
  event.aggregate_version = 4;
  event.created_at = WallTime(std::chrono::seconds(1'700'000'000));
  const Event* events[] = {&event};
  ASSERT_TRUE(owner_.query(kEnqueue, enqueue_params("stock", events)));
  EXPECT_EQ(text(owner_,
                 "SELECT concat_ws(' ', attempts, topic, aggregate_type, aggregate_id, type, "
                 "content_type, headers, payload, aggregate_version, extract(epoch FROM "
                 "created_at)::bigint) FROM dovetail.receive('stock')"),
            "1 orders order 17 placed application/octet-stream {\"traceparent\": \"00-1\"} \\x00ff "
            "4 1700000000");
}

TEST_F(PostgresQueue, AnEventThatTheDatabaseCannotHoldFailsBeforeItIsInTheQueue) {
  Event event;
  event.headers = R"({"a": "\u0000"})";
  const Event* events[] = {&event};
  EXPECT_TRUE(failed_with(owner_.query(kEnqueue, enqueue_params("stock", events)), Errc::rejected));
}

// Through the inbox, as a consumer does it.
TEST_F(PostgresQueue, ADuplicateNeverGetsIntoTheQueueAgain) {
  PostgresInboxStore store({database_.conninfo,
                            "shop",
                            0,
                            false,
                            {queue_handler("stock", {"order.*"}), queue_handler("mail", {})}});
  Inbox inbox(store, InboxOptions{});
  ASSERT_TRUE(inbox.open());
  std::vector<Event> events(4);
  std::vector<const Event*> batch;
  for (Event& event : events) {
    event.id = new_event_id();
    event.aggregate_type = "order";
    event.type = "order.placed";
    event.payload = "{}";
    batch.push_back(&event);
  }
  events[1].type = "user.added";
  events[2].headers = "no object";
  std::vector<Outcome> outcomes(batch.size());
  for (const Fate fate : {Fate::confirmed, Fate::duplicate}) {
    ASSERT_TRUE(inbox.submit(batch));
    const Result<bool> collected = inbox.collect(outcomes, std::chrono::seconds(90));
    ASSERT_TRUE(collected) << text_of(collected);
    EXPECT_EQ(outcomes[0].fate, fate);
    EXPECT_EQ(outcomes[1].fate, fate);
    EXPECT_NE(outcomes[2].fate, Fate::confirmed) << "the database cannot hold it";
    EXPECT_EQ(outcomes[3].fate, fate);
    const auto taken = receive(owner_, "stock", 10).value();
    EXPECT_EQ(types(taken), fate == Fate::confirmed ? "order.placed order.placed" : "");
    for (const Received& one : taken) EXPECT_TRUE(settle(owner_, "complete", "stock", one));
  }
  EXPECT_EQ(number(owner_, "SELECT count(*) FROM dovetail.queue"), 3) << "of mail";
}

TEST_F(PostgresQueue, ACompletedEventIsGoneTogetherWithItsEffect) {
  fill(owner_, "stock", {{"1", "a"}});
  const Received one = take().at(0);
  EXPECT_TRUE(take().empty()) << "it is held";
  must(owner_, "BEGIN; INSERT INTO effect VALUES (NULL, 1)");
  EXPECT_TRUE(settle(owner_, "complete", "stock", one));
  must(owner_, "ROLLBACK");
  EXPECT_EQ(left(), 1);
  EXPECT_TRUE(settle(owner_, "complete", "stock", one));
  EXPECT_EQ(left(), 0);
  EXPECT_TRUE(failed_with(settle(owner_, "complete", "stock", one), Errc::stopped)) << "again";
}

TEST_F(PostgresQueue, AZombiesEffectIsRolledBack) {
  fill(owner_, "stock", {{"1", "a"}});
  const Received zombie = take().at(0);
  expire();
  const Received heir = take().at(0);
  EXPECT_EQ(heir.attempts, 2);
  must(owner_, "BEGIN; INSERT INTO effect VALUES (NULL, 1)");
  const Status late = settle(owner_, "complete", "stock", zombie);
  EXPECT_TRUE(failed_with(late, Errc::stopped)) << text_of(late);
  EXPECT_TRUE(contains(text_of(late), "DT001"));
  must(owner_, "COMMIT");
  EXPECT_EQ(effects(), 0);
  EXPECT_TRUE(failed_with(settle(owner_, "fail", "stock", zombie), Errc::stopped));
  EXPECT_TRUE(failed_with(settle(owner_, "release", "stock", zombie), Errc::stopped));
  EXPECT_TRUE(settle(owner_, "complete", "stock", heir));
}

TEST_F(PostgresQueue, AWorkerThatIsLateButAloneMayStillComplete) {
  fill(owner_, "stock", {{"1", "a"}});
  const Received one = take().at(0);
  expire();
  EXPECT_TRUE(settle(owner_, "complete", "stock", one));
  EXPECT_EQ(left(), 0);
}

TEST_F(PostgresQueue, ALeaseCanBeExtended) {
  fill(owner_, "stock", {{"1", "a"}});
  const Received one = take(1, "20 ms").at(0);
  ASSERT_TRUE(owner_.query("SELECT dovetail.extend('stock', $1, $2, '1 h')",
                           Params().uuid(one.id).int8(one.epoch)));
  EXPECT_EQ(number(owner_, "SELECT count(*) FROM dovetail.queue WHERE due > now() + '50 min'"), 1);
  expire();
  take();
  EXPECT_FALSE(owner_.query("SELECT dovetail.extend('stock', $1, $2, '1 h')",
                            Params().uuid(one.id).int8(one.epoch)));
}

TEST_F(PostgresQueue, AFailedEventComesAgainLater) {
  fill(owner_, "stock", {{"1", "a"}, {"1", "b"}, {"2", "c"}});
  const Received one = take().at(0);
  const std::string fail = "SELECT dovetail.fail('stock', $1, $2, 'no stock', $3)";
  EXPECT_EQ(
      owner_.query(fail, Params().uuid(one.id).int8(one.epoch).unknown("0")).value().text(0, 0),
      "retry");
  EXPECT_TRUE(failed_with(settle(owner_, "complete", "stock", one), Errc::stopped))
      << "it was given back";
  EXPECT_EQ(types(receive(owner_, "stock", 10)), "a c") << "the key waits for its first";
  must(
      owner_,
      "BEGIN; SELECT dovetail.fail('stock', event_id, epoch, 'no stock') FROM dovetail.queue WHERE "
      "type = 'a'");
  EXPECT_EQ(text(owner_,
                 "SELECT (due >= now() + interval '1.5 s')::text FROM dovetail.queue WHERE "
                 "type = 'a'"),
            "true")
      << "later, by default";
  must(owner_, "COMMIT");
  must(owner_, "UPDATE dovetail.queue SET due = now() WHERE type = 'a'");
  EXPECT_EQ(take().at(0).attempts, 3);
}

TEST_F(PostgresQueue, AReleasedEventComesAgainAtOnceAndNothingCounts) {
  fill(owner_, "stock", {{"1", "a"}});
  for (int round = 0; round < 5; ++round) {
    const Received one = take().at(0);
    EXPECT_EQ(one.attempts, 1);
    EXPECT_TRUE(settle(owner_, "release", "stock", one));
  }
}

TEST_F(PostgresQueue, ManyAreCompletedInOneCallOrNone) {
  fill(owner_, "stock", {{"1", "a"}, {"2", "b"}});
  const std::vector<Received> both = take(2);
  const EventId ids[] = {both[0].id, both[1].id};
  const std::int64_t wrong[] = {both[0].epoch, both[1].epoch + 100};
  const std::int64_t epochs[] = {both[0].epoch, both[1].epoch};
  const std::string complete = "SELECT dovetail.complete_many('stock', $1, $2)";
  EXPECT_TRUE(failed_with(owner_.query(complete, Params().uuid_array(ids).int8_array(wrong)),
                          Errc::stopped));
  EXPECT_EQ(left(), 2);
  EXPECT_TRUE(owner_.query(complete, Params().uuid_array(ids).int8_array(epochs)));
  EXPECT_EQ(left(), 0);
}

// As drivers do that leave the types of parameters to the server.
TEST_F(PostgresQueue, EveryFunctionTakesParametersWithoutTypes) {
  fill(owner_, "stock", {{"1", "a"}});
  const auto ask = [&](const std::string& sql, const std::vector<std::string>& values) {
    Params params;
    for (const std::string& value : values) params.unknown(value);
    const Result<Rows> rows = owner_.query(sql, params);
    EXPECT_TRUE(rows) << sql << ": " << text_of(rows);
    return rows && !rows->empty() && !rows->is_null(0, 0) ? std::string(rows->text(0, 0)) : "";
  };
  const std::string id = new_event_id().to_string();
  EXPECT_EQ(ask("SELECT dovetail.claim($1, $2)", {"mail", id}), "first");
  EXPECT_EQ(ask("SELECT epoch::text FROM dovetail.claim($1, $2, $3)", {"mail", id, "30 s"}), "");
  const std::string held = new_event_id().to_string();
  const std::string epoch =
      ask("SELECT epoch::text FROM dovetail.claim($1, $2, $3)", {"web", held, "30 s"});
  ask("SELECT dovetail.extend($1, $2, $3, $4)::text", {"web", held, epoch, "1 min"});
  ask("SELECT dovetail.complete($1, $2, $3)::text", {"web", held, epoch});
  const auto one = [&] {
    return ask("SELECT id || ' ' || epoch FROM dovetail.receive($1, $2, $3)",
               {"stock", "5", "1 min"});
  };
  std::string got = one();
  ASSERT_EQ(got.size() > 37, true) << got;
  ask("SELECT dovetail.release($1, $2, $3)::text", {"stock", got.substr(0, 36), got.substr(37)});
  got = one();
  EXPECT_EQ(ask("SELECT dovetail.fail($1, $2, $3, $4, $5)",
                {"stock", got.substr(0, 36), got.substr(37), "no", "0 s"}),
            "retry");
  got = one();
  ask("SELECT dovetail.complete_many($1, $2, $3)::text",
      {"stock", "{" + got.substr(0, 36) + "}", "{" + got.substr(37) + "}"});
  EXPECT_EQ(left(), 0);
}

TEST_F(PostgresQueue, AWrongNameIsToldAndNotTakenForAnEmptyQueue) {
  fill(owner_, "stock", {{"1", "a"}});
  const auto wrong = receive(owner_, "stokc");
  EXPECT_TRUE(failed_with(wrong, Errc::rejected));
  EXPECT_TRUE(contains(text_of(wrong), "there are: stock")) << text_of(wrong);
  EXPECT_FALSE(receive(owner_, "stock", 0));
  EXPECT_FALSE(receive(owner_, "stock", 1, "0"));
}

TEST_F(PostgresQueue, ConsumersDoNotSeeEachOthersEvents) {
  const Line line{"1", "a"};
  fill(owner_, "stock", {line});
  fill(owner_, "mail", {line});
  EXPECT_TRUE(settle(owner_, "complete", "stock", take().at(0)));
  EXPECT_TRUE(take().empty());
  EXPECT_EQ(types(receive(owner_, "mail")), "a");
}

TEST_F(PostgresQueue, AnOperatorReplaysAndDiscardsBySql) {
  fill(owner_, "stock", {{"1", "a"}, {"1", "b"}});
  must(owner_,
       "SELECT dovetail.fail('stock', id, epoch, 'never', park => true) FROM "
       "dovetail.receive('stock')");
  EXPECT_TRUE(take().empty());
  must(owner_, "SELECT dovetail.replay(consumer, id) FROM dovetail.queue_parked");
  const Received one = take().at(0);
  EXPECT_EQ(one.attempts, 1);
  EXPECT_FALSE(owner_.execute("SELECT dovetail.replay('stock', '" + one.id.to_string() + "')"))
      << "it is not parked";
  must(owner_, "SELECT dovetail.fail('stock', '" + one.id.to_string() + "', " +
                   std::to_string(one.epoch) + ", 'never', park => true)");
  EXPECT_FALSE(
      owner_.execute("SELECT dovetail.discard(consumer, id, ' ') FROM "
                     "dovetail.queue_parked"));
  must(owner_, "SELECT dovetail.discard(consumer, id, 'test data') FROM dovetail.queue_parked");
  EXPECT_EQ(types(receive(owner_, "stock")), "b") << "what waits behind it follows";
  EXPECT_EQ(text(owner_,
                 "SELECT concat_ws(' ', relay, type, state, reason, note) FROM "
                 "dovetail.parked"),
            "stock a discarded never test data");
  EXPECT_EQ(text(owner_, "SELECT string_agg(what, ' ' ORDER BY number) FROM dovetail.audit"),
            "replay discard");
}

TEST_F(PostgresQueue, TheViewsSayHowMuchThereIs) {
  fill(owner_, "stock", {{"1", "a"}, {"1", "b"}, {"2", "c"}, {"3", "d"}, {"4", "e"}});
  must(owner_,
       "SELECT dovetail.fail('stock', id, epoch, park => true) FROM dovetail.receive('stock')");
  take();
  must(owner_,
       "SELECT dovetail.fail('stock', id, epoch, '', '1 h') FROM dovetail.receive('stock')");
  EXPECT_EQ(text(owner_,
                 "SELECT concat_ws(' ', consumer, events, ready, held, later, waiting, parked, "
                 "oldest_age < '1 min') FROM dovetail.queues"),
            "stock 5 1 1 1 1 1 t");
}

}  // namespace
}  // namespace dovetail::postgres
