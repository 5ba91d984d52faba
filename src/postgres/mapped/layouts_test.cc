// Common layouts of tables, and what a custom mapping may contain.
#include <algorithm>

#include "postgres/testing/test_mapped.h"

namespace dovetail::postgres {
namespace {

using namespace std::chrono_literals;

using MappedLayouts = MappedTest;

TEST_F(MappedLayouts, LayoutWithStatusIsServedAsItStands) {
  make(kStatusTable);
  insert_status("{\"n\": 1}");
  insert_status("{\"n\": 2}");
  insert_status("{\"n\": 3}", 1, "SENT");
  MappedLane& lane = serve(*mapping_preset("status"));
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
  EXPECT_EQ(number(application, "SELECT delivered_total FROM dovetail.relay_lane"), 2);
}

TEST_F(MappedLayouts, AStatusMayHaveAFixedLength) {
  make(kStatusTable);
  must(application, "ALTER TABLE outbox_events ALTER COLUMN status TYPE char(10)");
  insert_status("{\"n\": 1}");
  insert_status("{\"n\": 2}", 1, "SENT");
  MappedLane& lane = serve(*mapping_preset("status"));
  Batch batch;
  EXPECT_EQ(lane.read(batch), (std::vector<std::string>{"{\"n\": 1}"}));
  ASSERT_TRUE(lane.settle(batch));
  EXPECT_EQ(number(application, "SELECT count(*) FROM outbox_events WHERE status = 'SENT'"), 2);
}

TEST_F(MappedLayouts, LayoutWithSentAtIsServedAsItStands) {
  make(kSentAtTable);
  make("INSERT INTO outbox_events (event_type, payload) VALUES ('placed', '{}')");
  MappedLane& lane = serve(*mapping_preset("sent_at"));
  Batch batch;
  ASSERT_EQ(lane.read(batch).size(), 1u);
  EXPECT_EQ(batch.events()[0].type, "placed");
  EXPECT_EQ(batch.events()[0].aggregate_type, "outbox_events");
  EXPECT_FALSE(batch.events()[0].has_key());
  ASSERT_TRUE(lane.settle(batch));
  EXPECT_EQ(number(application, "SELECT count(*) FROM outbox_events WHERE sent_at IS NULL"), 0);
}

TEST_F(MappedLayouts, LayoutWithMixedCaseIsServedAsItStands) {
  make(kMessageTable);
  make(
      "INSERT INTO \"OutboxMessage\" (\"MessageType\", \"Payload\", \"CorrelationId\", "
      "\"Destination\") VALUES ('Placed', 'plain', '00000000-0000-0000-0000-000000000009', "
      "'orders'), ('Placed', 'other', NULL, NULL)");
  MappedLane& lane = serve(*mapping_preset("message"));
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

  for (const Event& event : batch.events()) park(lane, event);
  ASSERT_TRUE(lane.settle(batch, Settled::parked));
  EXPECT_EQ(number(application,
                   "SELECT count(*) FROM \"OutboxMessage\" WHERE \"RetryCount\" = 5 "
                   "AND \"Error\" = 'it is ''refused''' AND \"ProcessedOn\" IS NULL"),
            2);
  EXPECT_TRUE(lane.read().empty());
}

TEST_F(MappedLayouts, NamesWithoutQuotesAreFoundInLowerCase) {
  make(
      "CREATE TABLE OutboxMessage (Id bigint PRIMARY KEY, OccurredOn timestamp, MessageType text, "
      "Payload text, CorrelationId text, Destination text, ProcessedOn timestamp, RetryCount int, "
      "Error text); INSERT INTO OutboxMessage VALUES (7, now(), 'Placed', 'x')");
  MappedLane& lane = serve(*mapping_preset("message"));
  Batch batch;
  EXPECT_EQ(lane.read(batch), std::vector<std::string>{"x"});
  ASSERT_TRUE(lane.settle(batch));
  EXPECT_EQ(number(application, "SELECT count(*) FROM OutboxMessage WHERE ProcessedOn IS NULL"), 0);
}

TEST_F(MappedLayouts, LayoutWithProcessedAtIsServedAsItStands) {
  make(kProcessedAtTable);
  make(
      "INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload) SELECT 'order', 'k', "
      "'placed', to_jsonb(i) FROM generate_series(1, 5) AS i");
  MappedLane& lane = serve(*mapping_preset("processed_at"));
  Batch batch;
  EXPECT_EQ(lane.read(batch), (std::vector<std::string>{"1", "2", "3", "4", "5"}));
  std::vector<Settled> fates(5, Settled::delivered);
  fates[4] = Settled::parked;
  park(lane, batch.events()[4]);
  ASSERT_TRUE(lane.source.settle(batch, fates));
  EXPECT_EQ(number(application,
                   "SELECT count(*) FROM outbox WHERE status = 'processed' AND "
                   "processed_at IS NOT NULL"),
            4);
  EXPECT_EQ(text(application, "SELECT status FROM outbox WHERE payload = '5'"), "failed");
  EXPECT_EQ(number(application, "SELECT parked_total FROM dovetail.relay_lane"), 1);
}

TEST_F(MappedLayouts, DebeziumsRowsAreDeletedOnceTheyAreDone) {
  make(kDebeziumTable);
  make(
      "INSERT INTO outbox (aggregatetype, aggregateid, type, payload) VALUES ('order', '1', "
      "'placed', '{}'), ('order', '2', 'placed', NULL)");
  MappedLane& lane = serve(*mapping_preset("debezium"));
  Batch batch;
  ASSERT_EQ(lane.read(batch).size(), 2u);
  EXPECT_EQ(batch.events()[0].aggregate_type, "order");
  for (const Event& event : batch.events())
    EXPECT_EQ(event.payload, event.aggregate_id == "2" ? "" : "{}");
  park(lane, batch.events()[1]);
  ASSERT_TRUE(lane.source.settle(batch, std::vector<Settled>{Settled::delivered, Settled::parked}));
  EXPECT_EQ(number(application, "SELECT count(*) FROM outbox"), 0);
}

TEST_F(MappedLayouts, TableIsMappedByHand) {
  make(kNumberTable);
  make(
      "INSERT INTO shop.events (who, what, body, meta, rev, state) VALUES ('k', 'changed', "
      "'\\x00ff', '{\"a\": \"b\", \"n\": 1, \"none\": null}', 3, 'again'), (NULL, '', '\\x01', "
      "NULL, "
      "NULL, 'new'), ('k', 'x', 'x', NULL, 4, 'done')");
  MappedLane& lane = serve(number_mapping());
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
  park(lane, batch.events()[0]);
  ASSERT_TRUE(lane.source.settle(batch, std::vector<Settled>{Settled::parked, Settled::delivered}));
  EXPECT_EQ(text(application,
                 "SELECT string_agg(state || ':' || coalesce(why, '-') || ':' || "
                 "coalesce(tries, 0), ',' ORDER BY n) FROM shop.events"),
            "bad:it is 'refused':5,done:-:0,done:-:0");
}

TEST_F(MappedLayouts, RowsWithoutAUuidAlwaysHaveTheSameEventId) {
  make(kNumberTable);
  insert_number("k", "x");
  Batch first;
  Batch second;
  for (Batch* batch : {&first, &second}) {
    MappedLane& lane = serve(number_mapping());
    ASSERT_EQ(lane.read(*batch).size(), 1u);
    ASSERT_TRUE(lane.lease.release());
  }
  EXPECT_EQ(first.events()[0].id, second.events()[0].id);
  // Version 8, and always this: the first 16 bytes of SHA-256 over "dovetail:shop.events:1".
  EXPECT_EQ(first.events()[0].id.bytes[6] >> 4, 8);
  EXPECT_EQ(first.events()[0].id.bytes[8] >> 6, 2);
  EXPECT_EQ(first.events()[0].id.to_string().substr(0, 13),
            text(application,
                 "SELECT regexp_replace(left(encode(sha256('dovetail:shop.events:1'), "
                 "'hex'), 12), '(.{8})', '\\1-')"));
}

TEST_F(MappedLayouts, UuidStoredAsTextIsTheEventId) {
  make("CREATE TABLE t (id varchar(36) PRIMARY KEY, payload text, sent_at timestamptz)");
  make("INSERT INTO t VALUES ('0190AAAA-0000-7000-8000-000000000001', 'x'), ('it''s \"7\"', 'y')");
  TableMapping mapping = *mapping_preset("sent_at", "t");
  mapping.type.clear();
  MappedLane& lane = serve(mapping);
  Batch batch;
  ASSERT_EQ(lane.read(batch), (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(batch.events()[0].id.to_string(), "0190aaaa-0000-7000-8000-000000000001");
  EXPECT_TRUE(lane.read().empty());
  ASSERT_TRUE(lane.settle(batch));
  EXPECT_EQ(number(application, "SELECT count(*) FROM t WHERE sent_at IS NULL"), 0);
}

TEST_F(MappedLayouts, DomainsCountAsWhatTheyAreMadeOf) {
  make(
      "CREATE DOMAIN key AS uuid; CREATE DOMAIN body AS jsonb; CREATE TABLE t (id key PRIMARY KEY "
      "DEFAULT gen_random_uuid(), payload body, sent_at timestamptz); INSERT INTO t (payload) "
      "VALUES ('{}')");
  TableMapping mapping = *mapping_preset("sent_at", "t");
  mapping.type.clear();
  MappedLane& lane = serve(mapping);
  Batch batch;
  ASSERT_EQ(lane.read(batch).size(), 1u);
  const Status settled = lane.settle(batch);
  ASSERT_TRUE(settled) << text_of(settled);
  EXPECT_TRUE(lane.read().empty());
}

TEST_F(MappedLayouts, MissingSchemaIsNamed) {
  make("DROP SCHEMA dovetail CASCADE");
  make(kSentAtTable);
  refused(*mapping_preset("sent_at"), "dovetail init");
}

TEST_F(MappedLayouts, RelayOfTheOutboxCannotServeATable) {
  make(kSentAtTable);
  make("INSERT INTO dovetail.relay_lane (relay, lane, lanes) VALUES ('shop-relay', 0, 1)");
  refused(*mapping_preset("sent_at"), "another name");
}

TEST_F(MappedLayouts, ValuesAreNeverSql) {
  make(kStatusTable);
  make("CREATE TABLE victim (x int); INSERT INTO victim VALUES (1)");
  const std::string attack = "x'; DROP TABLE victim; --\\";
  insert_status("{}");
  must(application, "UPDATE outbox_events SET status = 'P''\\'");
  TableMapping mapping = *mapping_preset("status");
  mapping.pending[0].values = {"P'\\", attack.substr(0, 20)};
  mapping.when_delivered[0].literal = attack.substr(0, 20);
  mapping.when_delivered[0].literal[0] = 'y';
  mapping.default_type = mapping.default_content_type = mapping.default_aggregate_type = attack;
  mapping.type.clear();
  MappedLane& lane = serve(mapping);
  Batch batch;
  ASSERT_EQ(lane.read(batch).size(), 1u);
  EXPECT_EQ(batch.events()[0].type, attack);
  ASSERT_TRUE(lane.settle(batch));
  EXPECT_EQ(text(application, "SELECT status FROM outbox_events"),
            mapping.when_delivered[0].literal);
  EXPECT_EQ(number(application, "SELECT count(*) FROM victim"), 1);
}

TEST_F(MappedLayouts, ValueThatIsNotOfTheColumnsTypeIsAnError) {
  make(kNumberTable);
  TableMapping mapping = number_mapping();
  mapping.pending[0].values = {"nowhere"};
  refused(mapping, "nowhere");
}

}  // namespace
}  // namespace dovetail::postgres
