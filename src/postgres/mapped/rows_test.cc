#include "postgres/mapped/rows.h"

#include <string>
#include <vector>

#include "postgres/mapped/event.h"
#include "postgres/testing/test_database.h"
#include "postgres/testing/test_version.h"

namespace dovetail::postgres {
namespace {

// All of an event except its position.
std::string shown(const Event& event, bool with_time) {
  std::string all = event.id.to_string();
  for (const std::string_view field :
       {event.topic, event.aggregate_type, event.aggregate_id, event.type, event.content_type,
        event.headers, event.payload, event.defect})
    all += " | " + std::string(field);
  all += " | " + std::to_string(event.aggregate_version);
  if (with_time) all += " | " + std::to_string(event.created_at.time_since_epoch().count());
  return all;
}

// A table, a publication and a slot, whose changes are read by SQL in pgoutput's form.
class MappedRowsTest : public ::testing::Test {
 protected:
  void TearDown() override {
    if (has_slot) must(connection, "SELECT pg_drop_replication_slot('" + slot() + "')");
  }
  std::string slot() const { return database.name; }

  // From here on the server keeps WAL.
  void publish(const std::string& tables, const std::string& with = "publish = 'insert'") {
    must(connection, "CREATE PUBLICATION p FOR " + tables + " WITH (" + with + ")");
    must(connection, "SELECT pg_create_logical_replication_slot('" + slot() + "', 'pgoutput')");
    has_slot = true;
  }
  void look() {
    Result<CatalogTable> found = look_up(connection, mapping);
    ASSERT_TRUE(found) << text_of(found);
    table = std::move(*found);
  }
  // The events in the WAL, which stays. PostgreSQL 13 has no binary form.
  Status from_wal(bool binary, Batch& out) {
    const std::unique_ptr<WalRows> rows = mapped_rows(table, mapping, last_position);
    const Result<Rows> changes =
        connection.query("SELECT data FROM pg_logical_slot_peek_binary_changes('" + slot() +
                         "', NULL, NULL, 'proto_version', '1', 'publication_names', 'p'" +
                         (binary && !is_before(connection, 14) ? ", 'binary', 'true')" : ")"));
    EXPECT_TRUE(changes) << text_of(changes);
    std::vector<pgoutput::Value> values;
    pgoutput::Begin transaction;
    for (std::size_t i = 0; i < changes->size(); ++i) {
      const Result<pgoutput::Decoded> decoded = pgoutput::decode(changes->bytea(i, 0), values);
      EXPECT_TRUE(decoded) << text_of(decoded);
      if (const auto* begin = std::get_if<pgoutput::Begin>(&*decoded)) transaction = *begin;
      if (const auto* relation = std::get_if<pgoutput::Relation>(&*decoded))
        DOVETAIL_TRY(rows->describe(*relation));
      if (const auto* insert = std::get_if<pgoutput::Insert>(&*decoded))
        DOVETAIL_TRY(rows->append(insert->relation, values, transaction, out));
    }
    return {};
  }
  std::vector<std::string> logged(bool binary) {
    Batch batch;
    const Status read = from_wal(binary, batch);
    EXPECT_TRUE(read) << text_of(read);
    return shown_all(batch);
  }
  // The same rows, read from the table.
  std::vector<std::string> read_from_table() {
    const Result<Rows> keys =
        connection.query(gap_keys_sql(table, mapping), Params().boolean(true).int8(0).int8(0));
    EXPECT_TRUE(keys) << text_of(keys);
    std::vector<std::string_view> places;
    std::vector<std::int64_t> parts;
    for (std::size_t i = 0; i < keys->size(); ++i) {
      places.push_back(keys->text(i, 0));
      parts.push_back(keys->int8(i, 1));
    }
    const Result<Rows> rows = connection.query(gap_page_sql(table, mapping),
                                               Params().text_array(places).int8_array(parts));
    EXPECT_TRUE(rows) << text_of(rows);
    Batch batch;
    for (std::size_t i = 0; i < rows->size(); ++i)
      append_mapped_event(*rows, i, mapping, static_cast<std::int64_t>(i), batch);
    return shown_all(batch);
  }
  std::vector<std::string> shown_all(const Batch& batch) const {
    std::vector<std::string> all;
    for (const Event& event : batch.events())
      all.push_back(shown(event, !mapping.created_at.empty()));
    return all;
  }
  void expect_same_in_both_forms(std::size_t rows) {
    look();
    const std::vector<std::string> wanted = read_from_table();
    ASSERT_EQ(wanted.size(), rows);
    EXPECT_EQ(logged(false), wanted);
    if (can_be_binary(table, mapping)) {
      EXPECT_EQ(logged(true), wanted);
    }
  }

  TestDatabase database;
  Connection connection = database.connect();
  TableMapping mapping;
  CatalogTable table;
  std::int64_t last_position = 0;
  bool has_slot = false;
};

TableMapping debezium() {
  TableMapping mapping = *mapping_preset("debezium");
  mapping.delete_when_done = false;
  mapping.from_wal = true;
  return mapping;
}

constexpr std::string_view kDebeziumTable =
    "CREATE TABLE outbox (id uuid PRIMARY KEY, aggregatetype varchar(255) NOT NULL, aggregateid "
    "varchar(255) NOT NULL, type varchar(255) NOT NULL, payload jsonb)";

TEST_F(MappedRowsTest, RowsOfDebeziumsLayoutAreTheSameEventsAsInTheTable) {
  must(connection, std::string(kDebeziumTable));
  mapping = debezium();
  publish("TABLE outbox");
  must(connection,
       "INSERT INTO outbox SELECT ('018f0000-0000-7000-8000-0000000000' || 10 + n)::uuid, 'order', "
       "n % 3, 'placed', jsonb_build_object('n', n, 'text', E'a\"\\u00e4', 'x', 1.50) FROM "
       "generate_series(1, 9) AS n");
  must(connection,
       "INSERT INTO outbox VALUES ('018f0000-0000-7000-8000-000000000030', 'order', '', "
       "'emptied', NULL)");
  expect_same_in_both_forms(10);
  EXPECT_TRUE(can_be_binary(table, mapping));
}

TEST_F(MappedRowsTest, BytesNumbersAndHeadersAreTheSameEventsAsInTheTable) {
  must(connection,
       "CREATE TABLE events (n bigint PRIMARY KEY, who text, what text, body bytea, meta jsonb, "
       "rev int, kind smallint)");
  mapping.table = "events";
  mapping.id = "n";
  mapping.aggregate_id = "who";
  mapping.aggregate_version = "rev";
  mapping.type = "what";
  mapping.payload = "body";
  mapping.headers = "meta";
  mapping.header_columns = {{"kind", "x-kind"}};
  mapping.default_aggregate_type = "thing";
  mapping.from_wal = true;
  publish("TABLE events");
  must(connection,
       "INSERT INTO events VALUES (-4, 'b', 'x', '\\x01', '{\"only\": null}', -1, -7), (1, 'a', "
       "'made', '\\x00ff5c27', '{\"a\": 1, \"b\": true, \"c\": "
       "null, \"d\": {\"e\": [1, \"x, }\"]}, \"f\": \"q\\\"u\\\\o\\u00e4\", \"g\": []}', 7, 3), "
       "(2, NULL, '', '', '{}', NULL, NULL), (3, 'b', 'made', NULL, '[1]', 0, 0),"
       " (5, 'b', 'x', '\\x5c', NULL, 1, NULL)");
  expect_same_in_both_forms(5);
  EXPECT_TRUE(can_be_binary(table, mapping));
}

TEST_F(MappedRowsTest, ValuesWhoseTextOnlyTheServerKnowsComeAsText) {
  must(connection,
       "CREATE TYPE colour AS ENUM ('red', 'green'); CREATE DOMAIN key_text AS varchar(40); CREATE "
       "TABLE many (id text PRIMARY KEY, who key_text, how_much numeric(10, 2), flag boolean, pad "
       "char(6), hue colour, at timestamp, day date, place interval, body json, seen timestamptz)");
  mapping.table = "many";
  mapping.aggregate_id = "who";
  mapping.payload = "body";
  mapping.created_at = "at";
  mapping.order_by = "id";
  mapping.default_type = "seen";
  mapping.from_wal = true;
  mapping.header_columns = {{"flag", "flag"}, {"pad", "pad"}, {"hue", "hue"}};
  publish("TABLE many");
  must(
      connection,
      "INSERT INTO many VALUES ('018f0000-0000-7000-8000-00000000000A', 'k', 12.50, true, 'ab', "
      "'green', '2026-01-02 03:04:05.678', '2026-02-03', '1 day', '{\"a\" :  1}', "
      "'2026-01-02 03:04:05+02'), ('b', NULL, NULL, false, '', 'red', '1999-12-31 23:59:59', NULL, "
      "NULL, 'null', NULL)");
  expect_same_in_both_forms(2);
  EXPECT_TRUE(can_be_binary(table, mapping));
  mapping.header_columns = {
      {"how_much", "how-much"}, {"place", "place"}, {"day", "day"}, {"seen", "seen"}};
  expect_same_in_both_forms(2);
  EXPECT_FALSE(can_be_binary(table, mapping));
}

TEST(MappedHeaders, WhatIsNoObjectStaysAsItIs) {
  for (const char* text :
       {"", "null", "[1, 2]", "{", "{\"a\"", "{\"a\": ", "{\"a\": }", "{]}", "{\"a\": ]}",
        "{\"a\": 1} x", "{\"a\": 1,}", "{\"a\": \"b}", "\"a\"", "{a: 1}", "{\"a\": [1}"})
    EXPECT_EQ(flat_headers(text), text);
  EXPECT_EQ(flat_headers("{}"), "");
  EXPECT_EQ(flat_headers(R"({"a": "x", "b": {"c": "}"}, "d": null})"),
            R"({"a": "x", "b": "{\"c\": \"}\"}"})");
}

TEST_F(MappedRowsTest, RowsDeletedInTheSameTransactionAreEvents) {
  must(connection, std::string(kDebeziumTable));
  mapping = debezium();
  publish("TABLE outbox");
  must(connection,
       "BEGIN; INSERT INTO outbox VALUES (gen_random_uuid(), 'order', '1', 'placed', '{}'); DELETE "
       "FROM outbox; COMMIT");
  look();
  EXPECT_EQ(logged(true).size(), 1u);
  EXPECT_EQ(read_from_table().size(), 0u);
}

TEST_F(MappedRowsTest, RowsOfOtherTablesAndOtherChangesAreLeftAlone) {
  must(connection,
       std::string(kDebeziumTable) + "; CREATE TABLE other (LIKE outbox INCLUDING ALL)");
  mapping = debezium();
  publish("TABLE outbox, other", "publish = 'insert, update, delete'");
  must(connection,
       "INSERT INTO other VALUES (gen_random_uuid(), 'order', '1', 'placed', '{}'); INSERT INTO "
       "outbox VALUES (gen_random_uuid(), 'order', '1', 'placed', '1'); UPDATE outbox SET payload "
       "= '2'; DELETE FROM outbox");
  look();
  Batch batch;
  ASSERT_TRUE(from_wal(true, batch));
  ASSERT_EQ(batch.size(), 1u);
  EXPECT_EQ(batch.events()[0].payload, "1");
}

TEST_F(MappedRowsTest, TableThatWasRenamedIsStillTheSame) {
  must(connection, std::string(kDebeziumTable));
  mapping = debezium();
  publish("TABLE outbox");
  look();
  must(connection, "ALTER TABLE outbox RENAME TO outbox_2");
  must(connection, "INSERT INTO outbox_2 VALUES (gen_random_uuid(), 'o', '1', 'placed', '1')");
  EXPECT_EQ(logged(true).size(), 1u);
}

TEST_F(MappedRowsTest, PartitionsOfATableAreTheTable) {
  must(connection,
       "CREATE TABLE outbox (id uuid, aggregatetype text, aggregateid text, type text, payload "
       "text, day int) PARTITION BY LIST (day); CREATE TABLE one PARTITION OF outbox FOR VALUES IN "
       "(1)");
  mapping = debezium();
  publish("TABLE outbox");
  must(connection, "INSERT INTO outbox VALUES (gen_random_uuid(), 'o', '1', 'placed', '1', 1)");
  look();
  EXPECT_EQ(logged(true).size(), 1u);
}

TEST_F(MappedRowsTest, ColumnsThatAreAddedAndDroppedMoveNothing) {
  must(connection, std::string(kDebeziumTable));
  must(connection, "ALTER TABLE outbox ADD COLUMN spare text");
  mapping = debezium();
  publish("TABLE outbox");
  const std::string insert =
      "INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload) VALUES "
      "(gen_random_uuid(), 'order', '1', 'placed', '1')";
  must(connection, insert);
  must(connection, "ALTER TABLE outbox DROP COLUMN spare");
  must(connection, insert);
  must(connection, "ALTER TABLE outbox ADD COLUMN first text DEFAULT 'x'");
  must(connection, insert);
  look();
  Batch batch;
  ASSERT_TRUE(from_wal(true, batch));
  ASSERT_EQ(batch.size(), 3u);
  for (const Event& event : batch.events()) {
    EXPECT_EQ(event.aggregate_id, "1");
    EXPECT_EQ(event.payload, "1");
    EXPECT_EQ(event.defect, "");
  }
}

TEST_F(MappedRowsTest, ColumnThatTheLogDoesNotHaveIsNamed) {
  must(connection, std::string(kDebeziumTable));
  mapping = debezium();
  publish("TABLE outbox");
  look();
  must(connection, "ALTER TABLE outbox RENAME aggregateid TO key");
  must(connection, "INSERT INTO outbox VALUES (gen_random_uuid(), 'o', '1', 'placed', '1')");
  Batch batch;
  const Status read = from_wal(true, batch);
  EXPECT_TRUE(failed_with(read, Errc::rejected)) << text_of(read);
  EXPECT_TRUE(contains(text_of(read), "\"aggregateid\"")) << text_of(read);
}

TEST_F(MappedRowsTest, RowWithoutAnIdIsParkedAndNotLost) {
  must(connection, "CREATE TABLE outbox (id text, payload text)");
  mapping.table = "outbox";
  mapping.from_wal = true;
  publish("TABLE outbox");
  must(connection, "INSERT INTO outbox VALUES (NULL, 'a'), (NULL, 'b')");
  look();
  Batch batch;
  ASSERT_TRUE(from_wal(true, batch));
  ASSERT_EQ(batch.size(), 2u);
  EXPECT_TRUE(contains(batch.events()[0].defect, "id")) << batch.events()[0].defect;
  EXPECT_NE(batch.events()[0].id, batch.events()[1].id);
  Batch again;
  ASSERT_TRUE(from_wal(true, again));
  EXPECT_EQ(batch.events()[1].id, again.events()[1].id) << "the same each time";
  EXPECT_GT(again.events()[0].position, batch.events()[1].position);
}

}  // namespace
}  // namespace dovetail::postgres
