#include "postgres/mapped_source.h"

#include <algorithm>
#include <memory>
#include <set>

#include "host/host.h"
#include "postgres/lease.h"
#include "postgres/schema.h"
#include "postgres/test_database.h"

namespace dovetail::postgres {
namespace {

using namespace std::chrono_literals;

// The four layouts and Debezium's, as people have them.
constexpr std::string_view kStatusTable =
    "CREATE TABLE outbox_events (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), aggregate_id uuid "
    "NOT NULL, aggregate_type varchar(255) NOT NULL, event_type varchar(255) NOT NULL, payload "
    "jsonb NOT NULL, status varchar(20) NOT NULL DEFAULT 'PENDING', created_at timestamp NOT NULL "
    "DEFAULT now(), sent_at timestamp)";
constexpr std::string_view kSentAtTable =
    "CREATE TABLE outbox_events (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), event_type text "
    "NOT "
    "NULL, payload jsonb NOT NULL, sent_at timestamptz)";
constexpr std::string_view kMessageTable =
    "CREATE TABLE \"OutboxMessage\" (\"Id\" uuid PRIMARY KEY DEFAULT gen_random_uuid(), "
    "\"OccurredOn\" timestamptz NOT NULL DEFAULT clock_timestamp(), \"MessageType\" text NOT NULL, "
    "\"Payload\" text NOT NULL, \"CorrelationId\" uuid, \"Destination\" text, \"ProcessedOn\" "
    "timestamptz, \"RetryCount\" integer NOT NULL DEFAULT 0, \"Error\" text); CREATE INDEX ON "
    "\"OutboxMessage\" (\"OccurredOn\") WHERE \"ProcessedOn\" IS NULL";
constexpr std::string_view kProcessedAtTable =
    "CREATE TABLE outbox (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), aggregate_type text NOT "
    "NULL, aggregate_id text NOT NULL, event_type text NOT NULL, payload jsonb NOT NULL, "
    "created_at "
    "timestamptz NOT NULL DEFAULT clock_timestamp(), processed_at timestamptz, status text NOT "
    "NULL "
    "DEFAULT 'pending')";
constexpr std::string_view kDebeziumTable =
    "CREATE TABLE outbox (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), aggregatetype "
    "varchar(255) "
    "NOT NULL, aggregateid varchar(255) NOT NULL, type varchar(255) NOT NULL, payload jsonb)";
// By hand: a number as id, bytes as payload.
constexpr std::string_view kNumberTable =
    "CREATE SCHEMA shop; CREATE TYPE shop.progress AS ENUM ('new', 'again', 'done', 'bad'); CREATE "
    "TABLE shop.events (n bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, who text, what text, "
    "body bytea, meta jsonb, rev int, state shop.progress NOT NULL DEFAULT 'new', why text, tries "
    "smallint)";

TableMapping number_mapping() {
  TableMapping mapping;
  mapping.table = "shop.events";
  mapping.id = "n";
  mapping.aggregate_id = "who";
  mapping.aggregate_version = "rev";
  mapping.type = "what";
  mapping.payload = "body";
  mapping.headers = "meta";
  mapping.default_aggregate_type = "thing";
  mapping.pending = {{"state", {"new", "again"}}};
  mapping.when_sent = {{"state", Assignment::Value::text, "done"}};
  mapping.when_parked = {{"state", Assignment::Value::text, "bad"},
                         {"why", Assignment::Value::reason},
                         {"tries", Assignment::Value::attempts}};
  mapping.when_discarded = mapping.when_parked;
  return mapping;
}

// One lane: its reader, lease and source.
struct Lane {
  Lane(const std::string& conninfo, TableMapping mapping, std::uint32_t lane = 0,
       std::uint32_t lanes = 1, const std::string& name = "shop-relay")
      : reader{conninfo, name, lane, lanes},
        source(reader, std::move(mapping), system_clock()),
        lease(reader, system_clock(), "test", 30s) {}

  Status open() {
    DOVETAIL_TRY(lease.acquire());
    return source.open();
  }
  std::vector<std::string> read(Batch& batch, std::size_t count = 1000) {
    const Status done = source.read(batch, Limits{count}, {});
    EXPECT_TRUE(done) << text_of(done);
    std::vector<std::string> payloads;
    for (const Event& event : batch.events()) payloads.emplace_back(event.payload);
    return payloads;
  }
  std::vector<std::string> read(std::size_t count = 1000) {
    Batch batch;
    return read(batch, count);
  }
  Status settle(const Batch& batch, Settled fate = Settled::delivered) {
    return source.settle(batch, std::vector<Settled>(batch.size(), fate));
  }

  Reader reader;
  MappedSource source;
  PostgresLease lease;
};

class Mapped : public ::testing::Test {
 protected:
  Mapped() {
    const Status made = create_schema(application);
    EXPECT_TRUE(made) << text_of(made);
  }
  void make(std::string_view sql) { must(application, std::string(sql)); }
  void insert_status(const std::string& payload, int key = 1,
                     const std::string& status = "PENDING") {
    must(application,
         "INSERT INTO outbox_events (aggregate_id, aggregate_type, event_type, payload, status, "
         "created_at) VALUES ('00000000-0000-0000-0000-" +
             std::string(12 - std::to_string(key).size(), '0') + std::to_string(key) +
             "', 'order', 'placed', '" + payload + "', '" + status + "', clock_timestamp())");
  }
  void insert_number(const std::string& who, const std::string& body) {
    must(application, "INSERT INTO shop.events (who, what, body) VALUES ('" + who +
                          "', 'changed', '" + body + "')");
  }
  // As the relay's parking does it.
  void park(const Event& event, const std::string& state = "parked", bool finished = false) {
    const Result<Rows> done = application.query(
        "INSERT INTO dovetail.parked (relay, id, position, topic, aggregate_type, aggregate_id, "
        "type, content_type, headers, payload, aggregate_version, created_at, state, at_head, "
        "attempts, reason, retry_at, finished_at) VALUES ('shop-relay', $1, $2, '', $3, $4, $5, "
        "'x', '', '', 0, now(), $6, true, 5, 'it is ''refused''', now(), CASE WHEN $7 THEN now() "
        "END)",
        Params()
            .uuid(event.id)
            .int8(event.position)
            .text(event.aggregate_type)
            .text(event.aggregate_id)
            .text(event.type)
            .text(state)
            .boolean(finished));
    ASSERT_TRUE(done) << text_of(done);
  }
  // A lane over the table, open.
  Lane& serve(const TableMapping& mapping, std::uint32_t lane = 0, std::uint32_t lanes = 1) {
    Lane& made =
        *lanes_.emplace_back(std::make_unique<Lane>(database.conninfo, mapping, lane, lanes));
    const Status opened = made.open();
    EXPECT_TRUE(opened) << text_of(opened);
    return made;
  }
  // It is not served, and the error says this.
  void refused(const TableMapping& mapping, std::string_view says) {
    const Status opened = Lane(database.conninfo, mapping).open();
    EXPECT_TRUE(failed_with(opened, Errc::rejected)) << text_of(opened);
    EXPECT_TRUE(contains(text_of(opened), says)) << text_of(opened);
  }

  TestDatabase database;
  Connection application = database.connect();

 private:
  std::vector<std::unique_ptr<Lane>> lanes_;
};

TEST_F(Mapped, LayoutWithStatusIsServedAsItStands) {
  make(kStatusTable);
  insert_status("{\"n\": 1}");
  insert_status("{\"n\": 2}");
  insert_status("{\"n\": 3}", 1, "SENT");
  Lane& lane = serve(*mapping_preset("status"));
  Batch batch;
  EXPECT_EQ(lane.read(batch), (std::vector<std::string>{"{\"n\": 1}", "{\"n\": 2}"}));
  const Event& event = batch.events()[0];
  EXPECT_EQ(event.aggregate_type, "order");
  EXPECT_EQ(event.aggregate_id, "00000000-0000-0000-0000-000000000001");
  EXPECT_EQ(event.type, "placed");
  EXPECT_EQ(event.content_type, "application/json");
  EXPECT_EQ(event.topic, "");
  EXPECT_EQ(event.headers, "");
  EXPECT_TRUE(event.has_key());
  EXPECT_EQ(event.id.to_string(),
            text(application, "SELECT id::text FROM outbox_events ORDER BY created_at LIMIT 1"));
  EXPECT_LT(system_clock().wall() - event.created_at, 60s);
  EXPECT_GT(system_clock().wall() - event.created_at, -60s);
  EXPECT_LT(batch.events()[0].position, batch.events()[1].position);

  ASSERT_TRUE(lane.settle(batch));
  EXPECT_EQ(number(application, "SELECT count(*) FROM outbox_events WHERE status = 'SENT'"), 3);
  EXPECT_EQ(number(application, "SELECT count(*) FROM outbox_events WHERE sent_at IS NOT NULL"), 2);
  EXPECT_TRUE(lane.read().empty());
  EXPECT_EQ(number(application, "SELECT settled_total FROM dovetail.reader"), 2);
}

TEST_F(Mapped, LayoutWithSentAtIsServedAsItStands) {
  make(kSentAtTable);
  make("INSERT INTO outbox_events (event_type, payload) VALUES ('placed', '{}')");
  Lane& lane = serve(*mapping_preset("sent_at"));
  Batch batch;
  ASSERT_EQ(lane.read(batch).size(), 1u);
  EXPECT_EQ(batch.events()[0].type, "placed");
  EXPECT_EQ(batch.events()[0].aggregate_type, "outbox_events");
  EXPECT_FALSE(batch.events()[0].has_key());
  ASSERT_TRUE(lane.settle(batch));
  EXPECT_EQ(number(application, "SELECT count(*) FROM outbox_events WHERE sent_at IS NULL"), 0);
}

TEST_F(Mapped, LayoutWithMixedCaseIsServedAsItStands) {
  make(kMessageTable);
  make(
      "INSERT INTO \"OutboxMessage\" (\"MessageType\", \"Payload\", \"CorrelationId\", "
      "\"Destination\") VALUES ('Placed', 'plain', '00000000-0000-0000-0000-000000000009', "
      "'orders'), ('Placed', 'other', NULL, NULL)");
  Lane& lane = serve(*mapping_preset("message"));
  Batch batch;
  ASSERT_EQ(lane.read(batch).size(), 2u);
  const auto plain = std::find_if(batch.events().begin(), batch.events().end(),
                                  [](const Event& event) { return event.payload == "plain"; });
  ASSERT_NE(plain, batch.events().end());
  EXPECT_EQ(plain->topic, "orders");
  EXPECT_EQ(plain->type, "Placed");
  EXPECT_EQ(decode_headers(plain->headers).value(),
            (std::vector<Header>{{"correlation-id", "00000000-0000-0000-0000-000000000009"}}));
  const Event& other = plain == batch.events().begin() ? batch.events()[1] : batch.events()[0];
  EXPECT_EQ(other.topic, "");
  EXPECT_EQ(other.headers, "");

  for (const Event& event : batch.events()) park(event);
  ASSERT_TRUE(lane.settle(batch, Settled::parked));
  EXPECT_EQ(number(application,
                   "SELECT count(*) FROM \"OutboxMessage\" WHERE \"RetryCount\" = 5 "
                   "AND \"Error\" = 'it is ''refused''' AND \"ProcessedOn\" IS NULL"),
            2);
  EXPECT_TRUE(lane.read().empty());
}

TEST_F(Mapped, NamesWithoutQuotesAreFoundInLowerCase) {
  make(
      "CREATE TABLE OutboxMessage (Id bigint PRIMARY KEY, OccurredOn timestamp, MessageType text, "
      "Payload text, CorrelationId text, Destination text, ProcessedOn timestamp, RetryCount int, "
      "Error text); INSERT INTO OutboxMessage VALUES (7, now(), 'Placed', 'x')");
  Lane& lane = serve(*mapping_preset("message"));
  Batch batch;
  EXPECT_EQ(lane.read(batch), std::vector<std::string>{"x"});
  ASSERT_TRUE(lane.settle(batch));
  EXPECT_EQ(number(application, "SELECT count(*) FROM OutboxMessage WHERE ProcessedOn IS NULL"), 0);
}

TEST_F(Mapped, LayoutWithProcessedAtIsServedAsItStands) {
  make(kProcessedAtTable);
  make(
      "INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload) SELECT 'order', 'k', "
      "'placed', to_jsonb(i) FROM generate_series(1, 5) AS i");
  Lane& lane = serve(*mapping_preset("processed_at"));
  Batch batch;
  EXPECT_EQ(lane.read(batch), (std::vector<std::string>{"1", "2", "3", "4", "5"}));
  std::vector<Settled> fates(5, Settled::delivered);
  fates[4] = Settled::parked;
  park(batch.events()[4]);
  ASSERT_TRUE(lane.source.settle(batch, fates));
  EXPECT_EQ(number(application,
                   "SELECT count(*) FROM outbox WHERE status = 'processed' AND "
                   "processed_at IS NOT NULL"),
            4);
  EXPECT_EQ(text(application, "SELECT status FROM outbox WHERE payload = '5'"), "failed");
  EXPECT_EQ(number(application, "SELECT parked_total FROM dovetail.reader"), 1);
}

TEST_F(Mapped, DebeziumsRowsAreDeletedOnceTheyAreDone) {
  make(kDebeziumTable);
  make(
      "INSERT INTO outbox (aggregatetype, aggregateid, type, payload) VALUES ('order', '1', "
      "'placed', '{}'), ('order', '2', 'placed', NULL)");
  Lane& lane = serve(*mapping_preset("debezium"));
  Batch batch;
  ASSERT_EQ(lane.read(batch).size(), 2u);
  EXPECT_EQ(batch.events()[0].aggregate_type, "order");
  for (const Event& event : batch.events())
    EXPECT_EQ(event.payload, event.aggregate_id == "2" ? "" : "{}");
  park(batch.events()[1]);
  ASSERT_TRUE(lane.source.settle(batch, std::vector<Settled>{Settled::delivered, Settled::parked}));
  EXPECT_EQ(number(application, "SELECT count(*) FROM outbox"), 0);
}

TEST_F(Mapped, TableIsMappedByHand) {
  make(kNumberTable);
  make(
      "INSERT INTO shop.events (who, what, body, meta, rev, state) VALUES ('k', 'changed', "
      "'\\x00ff', '{\"a\": \"b\", \"n\": 1, \"none\": null}', 3, 'again'), (NULL, '', '\\x01', "
      "NULL, "
      "NULL, 'new'), ('k', 'x', 'x', NULL, 4, 'done')");
  Lane& lane = serve(number_mapping());
  Batch batch;
  EXPECT_EQ(lane.read(batch), (std::vector<std::string>{std::string("\0\xff", 2), "\x01"}));
  EXPECT_EQ(batch.events()[0].aggregate_type, "thing");
  EXPECT_EQ(batch.events()[0].aggregate_id, "k");
  EXPECT_EQ(batch.events()[0].aggregate_version, 3);
  EXPECT_EQ(batch.events()[0].content_type, "application/octet-stream");
  const Result<std::vector<Header>> headers = decode_headers(batch.events()[0].headers);
  ASSERT_TRUE(headers) << text_of(headers);
  EXPECT_EQ(*headers, (std::vector<Header>{{"a", "b"}, {"n", "1"}}));
  EXPECT_EQ(batch.events()[1].type, "event");
  EXPECT_FALSE(batch.events()[1].has_key());
  park(batch.events()[0]);
  ASSERT_TRUE(lane.source.settle(batch, std::vector<Settled>{Settled::parked, Settled::delivered}));
  EXPECT_EQ(text(application,
                 "SELECT string_agg(state || ':' || coalesce(why, '-') || ':' || "
                 "coalesce(tries, 0), ',' ORDER BY n) FROM shop.events"),
            "bad:it is 'refused':5,done:-:0,done:-:0");
}

TEST_F(Mapped, RowsWithoutAUuidAlwaysHaveTheSameEventId) {
  make(kNumberTable);
  insert_number("k", "x");
  Batch first;
  Batch second;
  for (Batch* batch : {&first, &second}) {
    Lane& lane = serve(number_mapping());
    ASSERT_EQ(lane.read(*batch).size(), 1u);
    ASSERT_TRUE(lane.lease.release());
  }
  EXPECT_EQ(first.events()[0].id, second.events()[0].id);
  // Version 8, and for ever this: the first 16 bytes of SHA-256 over "dovetail:shop.events:1".
  EXPECT_EQ(first.events()[0].id.bytes[6] >> 4, 8);
  EXPECT_EQ(first.events()[0].id.bytes[8] >> 6, 2);
  EXPECT_EQ(first.events()[0].id.to_string().substr(0, 13),
            text(application,
                 "SELECT regexp_replace(left(encode(sha256('dovetail:shop.events:1'), "
                 "'hex'), 12), '(.{8})', '\\1-')"));
}

TEST_F(Mapped, UuidStoredAsTextIsTheEventId) {
  make("CREATE TABLE t (id varchar(36) PRIMARY KEY, payload text, sent_at timestamptz)");
  make("INSERT INTO t VALUES ('0190AAAA-0000-7000-8000-000000000001', 'x'), ('it''s \"7\"', 'y')");
  TableMapping mapping = *mapping_preset("sent_at", "t");
  mapping.type.clear();
  Lane& lane = serve(mapping);
  Batch batch;
  ASSERT_EQ(lane.read(batch), (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(batch.events()[0].id.to_string(), "0190aaaa-0000-7000-8000-000000000001");
  EXPECT_TRUE(lane.read().empty());
  ASSERT_TRUE(lane.settle(batch));
  EXPECT_EQ(number(application, "SELECT count(*) FROM t WHERE sent_at IS NULL"), 0);
}

TEST_F(Mapped, TwoSpellingsOfAUuidAreBothSentAndMarked) {
  make(
      "CREATE TABLE t (n int PRIMARY KEY, id text UNIQUE, payload text, state text DEFAULT 'new'); "
      "INSERT INTO t VALUES (1, '0190AAAA-0000-7000-8000-000000000001', 'a'), "
      "(2, '0190aaaa-0000-7000-8000-000000000001', 'b'), "
      "(3, '0190AAAA-0000-7000-8000-000000000002', 'c'), "
      "(4, '0190aaaa-0000-7000-8000-000000000002', 'd')");
  TableMapping mapping;
  mapping.table = "t";
  mapping.id = "id";
  mapping.payload = "payload";
  mapping.order_by = "n";
  mapping.pending = {{"state", {"new"}}};
  mapping.when_sent = {{"state", Assignment::Value::text, "sent"}};
  mapping.when_parked = {{"state", Assignment::Value::text, "bad"}};
  Lane& lane = serve(mapping);
  const auto states = [&] {
    return text(application, "SELECT string_agg(state, ' ' ORDER BY n) FROM t");
  };
  // In flight at the same time, in batches of their own.
  Batch first;
  Batch second;
  ASSERT_EQ(lane.read(first, 1), (std::vector<std::string>{"a"}));
  ASSERT_EQ(lane.read(second, 1), (std::vector<std::string>{"b"}));
  EXPECT_EQ(first.events()[0].id, second.events()[0].id);
  ASSERT_TRUE(lane.settle(first));
  EXPECT_EQ(states(), "sent new new new");
  ASSERT_TRUE(lane.settle(second));
  EXPECT_EQ(states(), "sent sent new new");
  // In one batch, which is parked, and delivered later.
  Batch both;
  ASSERT_EQ(lane.read(both), (std::vector<std::string>{"c", "d"}));
  ASSERT_TRUE(lane.settle(both, Settled::parked));
  EXPECT_EQ(states(), "sent sent bad bad");
  const EventId ids[] = {both.events()[0].id};
  ASSERT_TRUE(lane.source.mark_delivered(ids));
  EXPECT_EQ(states(), "sent sent sent sent");
}

TEST_F(Mapped, LateCommitIsNeverSkipped) {
  make(kNumberTable);
  Connection late = database.connect();
  must(late, "BEGIN; INSERT INTO shop.events (who, what, body) VALUES ('a', 'x', 'late')");
  insert_number("b", "early");
  Lane& lane = serve(number_mapping());
  Batch batch;
  EXPECT_EQ(lane.read(batch), std::vector<std::string>{"early"});
  ASSERT_TRUE(lane.settle(batch));
  EXPECT_TRUE(lane.read().empty());
  must(late, "COMMIT");
  EXPECT_EQ(lane.read(), std::vector<std::string>{"late"});
}

TEST_F(Mapped, PositionGrowsAlsoForALateCommit) {
  make(kNumberTable);
  Connection late = database.connect();
  must(late, "BEGIN; INSERT INTO shop.events (who, what, body) VALUES ('a', 'x', 'late')");
  for (int i = 0; i < 5; ++i) insert_number("a", "early");
  Lane& lane = serve(number_mapping());
  Batch early;
  ASSERT_EQ(lane.read(early).size(), 5u);
  must(late, "COMMIT");
  Batch batch;
  ASSERT_EQ(lane.read(batch).size(), 1u);
  EXPECT_GT(batch.events()[0].position, early.events()[4].position);
}

TEST_F(Mapped, WhatIsInFlightIsNotReadTwiceUntilReopened) {
  make(kNumberTable);
  for (int i = 1; i <= 6; ++i) insert_number("k", std::to_string(i));
  Lane& lane = serve(number_mapping());
  Batch first;
  Batch second;
  EXPECT_EQ(lane.read(first, 2), (std::vector<std::string>{"1", "2"}));
  EXPECT_EQ(lane.read(second, 3), (std::vector<std::string>{"3", "4", "5"}));
  ASSERT_TRUE(lane.settle(first));
  EXPECT_EQ(lane.read(), std::vector<std::string>{"6"});
  EXPECT_TRUE(lane.read().empty());
  ASSERT_TRUE(lane.source.open());
  EXPECT_EQ(lane.read(), (std::vector<std::string>{"3", "4", "5", "6"}));
}

TEST_F(Mapped, BatchKeepsItsLimitOfBytes) {
  make(kNumberTable);
  for (int i = 0; i < 5; ++i) insert_number("k", std::string(1000, 'x'));
  Lane& lane = serve(number_mapping());
  Limits limits;
  limits.bytes_max = 2500;
  Batch batch;
  ASSERT_TRUE(lane.source.read(batch, limits, {}));
  EXPECT_EQ(batch.size(), 2u);
  // A single larger event is read alone.
  limits.bytes_max = 10;
  Batch large;
  ASSERT_TRUE(lane.source.read(large, limits, {}));
  EXPECT_EQ(large.size(), 1u);
}

TEST_F(Mapped, ReadWaitsForARow) {
  make(kNumberTable);
  Lane& lane = serve(number_mapping());
  std::thread writer([&] {
    Connection connection = database.connect();
    must(connection, "INSERT INTO shop.events (who, what, body) VALUES ('k', 'x', 'y')");
  });
  Batch batch;
  Limits limits;
  limits.wait_max = 30s;
  EXPECT_TRUE(lane.source.read(batch, limits, {}));
  EXPECT_EQ(batch.size(), 1u);
  writer.join();
}

TEST_F(Mapped, LanesShareTheRowsAndKeepAKeyTogether) {
  make(kNumberTable);
  make(
      "INSERT INTO shop.events (who, what, body) SELECT 'key' || i % 20, 'x', i::text::bytea FROM "
      "generate_series(1, 400) AS i; INSERT INTO shop.events (who, what, body) SELECT NULL, 'x', "
      "'none' FROM generate_series(1, 50)");
  std::size_t read = 0;
  std::size_t lanes_used = 0;
  std::set<std::string> keys;
  for (std::uint32_t i = 0; i < 4; ++i) {
    Lane& lane = serve(number_mapping(), i, 4);
    Batch batch;
    lane.read(batch);
    read += batch.size();
    lanes_used += batch.empty() ? 0 : 1;
    std::set<std::string> of_lane;
    for (const Event& event : batch.events())
      if (event.has_key()) of_lane.emplace(event.aggregate_id);
    for (const std::string& key : of_lane) EXPECT_TRUE(keys.insert(key).second) << key;
    for (const Event& event : batch.events()) park(event);
    EXPECT_EQ(number(application, "SELECT count(*) FROM dovetail.parked WHERE slot * 4 / 256 <> " +
                                      std::to_string(i)),
              0);
    make("DELETE FROM dovetail.parked");
  }
  EXPECT_EQ(read, 450u);
  EXPECT_EQ(keys.size(), 20u);
  EXPECT_EQ(lanes_used, 4u);
}

TEST_F(Mapped, StaleOwnerMarksNothing) {
  make(kStatusTable);
  insert_status("{}");
  Lane& stale = serve(*mapping_preset("status"));
  Batch batch;
  ASSERT_EQ(stale.read(batch).size(), 1u);
  make("UPDATE dovetail.reader SET epoch = epoch + 1, owner = 'another'");
  EXPECT_TRUE(failed_with(stale.settle(batch), Errc::stopped));
  EXPECT_TRUE(failed_with(stale.settle(batch, Settled::parked), Errc::stopped));
  const EventId ids[] = {batch.events()[0].id};
  EXPECT_TRUE(failed_with(stale.source.mark_delivered(ids), Errc::stopped));
  EXPECT_EQ(text(application, "SELECT status FROM outbox_events"), "PENDING");
  EXPECT_EQ(number(application, "SELECT settled_total FROM dovetail.reader"), 0);
}

TEST_F(Mapped, ParkedRowIsMarkedAndSentOnceItIsDelivered) {
  make(kStatusTable);
  insert_status("{}");
  Lane& lane = serve(*mapping_preset("status"));
  Batch batch;
  ASSERT_EQ(lane.read(batch).size(), 1u);
  park(batch.events()[0]);
  ASSERT_TRUE(lane.settle(batch, Settled::parked));
  EXPECT_EQ(text(application, "SELECT status FROM outbox_events"), "FAILED");
  const EventId ids[] = {batch.events()[0].id};
  ASSERT_TRUE(lane.source.mark_delivered(ids));
  EXPECT_EQ(text(application, "SELECT status FROM outbox_events"), "SENT");
}

TEST_F(Mapped, EventDeliveredFromParkingBeforeItsBatchIsSettledStaysSent) {
  make(kStatusTable);
  insert_status("{}");
  Lane& lane = serve(*mapping_preset("status"));
  Batch batch;
  ASSERT_EQ(lane.read(batch).size(), 1u);
  const EventId ids[] = {batch.events()[0].id};
  ASSERT_TRUE(lane.source.mark_delivered(ids));
  park(batch.events()[0], "delivered", true);
  ASSERT_TRUE(lane.settle(batch, Settled::parked));
  EXPECT_EQ(text(application, "SELECT status FROM outbox_events"), "SENT");
}

TEST_F(Mapped, RowOfANumberIsMarkedAfterARestartToo) {
  make(kNumberTable);
  insert_number("k", "x");
  EventId id;
  {
    Lane& lane = serve(number_mapping());
    Batch batch;
    ASSERT_EQ(lane.read(batch).size(), 1u);
    id = batch.events()[0].id;
    park(batch.events()[0]);
    ASSERT_TRUE(lane.settle(batch, Settled::parked));
    ASSERT_TRUE(lane.lease.release());
  }
  Lane& lane = serve(number_mapping());
  const EventId ids[] = {id};
  ASSERT_TRUE(lane.source.mark_delivered(ids));
  EXPECT_EQ(text(application, "SELECT state::text FROM shop.events"), "done");
}

TEST_F(Mapped, ParkedRowIsNotReadAgainWhereTheTableHasNoWordForIt) {
  make(kSentAtTable);
  make("INSERT INTO outbox_events (event_type, payload) VALUES ('placed', '{}')");
  Lane& lane = serve(*mapping_preset("sent_at"));
  Batch batch;
  ASSERT_EQ(lane.read(batch).size(), 1u);
  park(batch.events()[0]);
  ASSERT_TRUE(lane.settle(batch, Settled::parked));
  ASSERT_TRUE(lane.source.open());
  EXPECT_TRUE(lane.read().empty());
  EXPECT_EQ(number(application, "SELECT count(*) FROM outbox_events WHERE sent_at IS NULL"), 1);
  // Once an operator gives it up, the row is no longer pending.
  make("UPDATE dovetail.parked SET state = 'discarded', finished_at = clock_timestamp()");
  ASSERT_TRUE(lane.source.open());
  EXPECT_TRUE(lane.read().empty());
  EXPECT_EQ(number(application, "SELECT count(*) FROM outbox_events WHERE sent_at IS NULL"), 0);
}

TEST_F(Mapped, WhatComesAfterAParkedEventStandsBehindIt) {
  make(kNumberTable);
  insert_number("k", "x");
  {
    Lane& lane = serve(number_mapping());
    Batch batch;
    ASSERT_EQ(lane.read(batch).size(), 1u);
    batch.events()[0].position = 1'000'000;
    park(batch.events()[0]);
    ASSERT_TRUE(lane.settle(batch, Settled::parked));
    ASSERT_TRUE(lane.lease.release());
  }
  insert_number("k", "y");
  Lane& lane = serve(number_mapping());
  Batch batch;
  ASSERT_EQ(lane.read(batch).size(), 1u);
  EXPECT_GT(batch.events()[0].position, 1'000'000);
}

TEST_F(Mapped, DomainsCountAsWhatTheyAreMadeOf) {
  make(
      "CREATE DOMAIN key AS uuid; CREATE DOMAIN body AS jsonb; CREATE TABLE t (id key PRIMARY KEY "
      "DEFAULT gen_random_uuid(), payload body, sent_at timestamptz); INSERT INTO t (payload) "
      "VALUES ('{}')");
  TableMapping mapping = *mapping_preset("sent_at", "t");
  mapping.type.clear();
  Lane& lane = serve(mapping);
  Batch batch;
  ASSERT_EQ(lane.read(batch).size(), 1u);
  const Status settled = lane.settle(batch);
  ASSERT_TRUE(settled) << text_of(settled);
  EXPECT_TRUE(lane.read().empty());
}

TEST_F(Mapped, MissingSchemaIsNamed) {
  make("DROP SCHEMA dovetail CASCADE");
  make(kSentAtTable);
  refused(*mapping_preset("sent_at"), "dovetail init");
}

TEST_F(Mapped, RelayOfTheOutboxCannotServeATable) {
  make(kSentAtTable);
  make("INSERT INTO dovetail.reader (relay, lane, lanes) VALUES ('shop-relay', 0, 1)");
  refused(*mapping_preset("sent_at"), "another name");
}

TEST_F(Mapped, ValuesAreNeverSql) {
  make(kStatusTable);
  make("CREATE TABLE victim (x int); INSERT INTO victim VALUES (1)");
  const std::string attack = "x'; DROP TABLE victim; --\\";
  insert_status("{}");
  must(application, "UPDATE outbox_events SET status = 'P''\\'");
  TableMapping mapping = *mapping_preset("status");
  mapping.pending[0].values = {"P'\\", attack.substr(0, 20)};
  mapping.when_sent[0].literal = attack.substr(0, 20);
  mapping.when_sent[0].literal[0] = 'y';
  mapping.default_type = mapping.default_content_type = mapping.default_aggregate_type = attack;
  mapping.type.clear();
  Lane& lane = serve(mapping);
  Batch batch;
  ASSERT_EQ(lane.read(batch).size(), 1u);
  EXPECT_EQ(batch.events()[0].type, attack);
  ASSERT_TRUE(lane.settle(batch));
  EXPECT_EQ(text(application, "SELECT status FROM outbox_events"), mapping.when_sent[0].literal);
  EXPECT_EQ(number(application, "SELECT count(*) FROM victim"), 1);
}

TEST_F(Mapped, ValueThatIsNotOfTheColumnsTypeIsAnError) {
  make(kNumberTable);
  TableMapping mapping = number_mapping();
  mapping.pending[0].values = {"nowhere"};
  refused(mapping, "nowhere");
}

}  // namespace
}  // namespace dovetail::postgres
