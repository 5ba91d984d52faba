// Mapped tables for tests: the layouts, and a lane that serves one.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "host/host.h"
#include "postgres/lane/lease.h"
#include "postgres/mapped/source.h"
#include "postgres/schema/schema.h"
#include "postgres/testing/test_database.h"

namespace dovetail::postgres {

// The four layouts and Debezium's, as they are used.
inline constexpr std::string_view kStatusTable =
    "CREATE TABLE outbox_events (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), aggregate_id uuid "
    "NOT NULL, aggregate_type varchar(255) NOT NULL, event_type varchar(255) NOT NULL, payload "
    "jsonb NOT NULL, status varchar(20) NOT NULL DEFAULT 'PENDING', created_at timestamp NOT NULL "
    "DEFAULT now(), sent_at timestamp)";
inline constexpr std::string_view kSentAtTable =
    "CREATE TABLE outbox_events (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), event_type text "
    "NOT "
    "NULL, payload jsonb NOT NULL, sent_at timestamptz)";
inline constexpr std::string_view kMessageTable =
    "CREATE TABLE \"OutboxMessage\" (\"Id\" uuid PRIMARY KEY DEFAULT gen_random_uuid(), "
    "\"OccurredOn\" timestamptz NOT NULL DEFAULT clock_timestamp(), \"MessageType\" text NOT NULL, "
    "\"Payload\" text NOT NULL, \"CorrelationId\" uuid, \"Destination\" text, \"ProcessedOn\" "
    "timestamptz, \"RetryCount\" integer NOT NULL DEFAULT 0, \"Error\" text); CREATE INDEX ON "
    "\"OutboxMessage\" (\"OccurredOn\") WHERE \"ProcessedOn\" IS NULL";
inline constexpr std::string_view kProcessedAtTable =
    "CREATE TABLE outbox (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), aggregate_type text NOT "
    "NULL, aggregate_id text NOT NULL, event_type text NOT NULL, payload jsonb NOT NULL, "
    "created_at "
    "timestamptz NOT NULL DEFAULT clock_timestamp(), processed_at timestamptz, status text NOT "
    "NULL "
    "DEFAULT 'pending')";
inline constexpr std::string_view kDebeziumTable =
    "CREATE TABLE outbox (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), aggregatetype "
    "varchar(255) "
    "NOT NULL, aggregateid varchar(255) NOT NULL, type varchar(255) NOT NULL, payload jsonb)";
// A table for a mapping by hand: a number as id, bytes as payload.
inline constexpr std::string_view kNumberTable =
    "CREATE SCHEMA shop; CREATE TYPE shop.progress AS ENUM ('new', 'again', 'done', 'bad'); CREATE "
    "TABLE shop.events (n bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, who text, what text, "
    "body bytea, meta jsonb, rev int, state shop.progress NOT NULL DEFAULT 'new', why text, tries "
    "smallint)";

inline TableMapping number_mapping() {
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
  mapping.when_delivered = {{"state", Assignment::Value::text, "done"}};
  mapping.when_parked = {{"state", Assignment::Value::text, "bad"},
                         {"why", Assignment::Value::reason},
                         {"tries", Assignment::Value::attempts}};
  mapping.when_discarded = mapping.when_parked;
  return mapping;
}

// One lane: its reader, source, parking and lease.
struct MappedLane {
  MappedLane(const std::string& conninfo, TableMapping mapping, std::uint32_t lane = 0,
             std::uint32_t lanes = 1, const std::string& name = "shop-relay")
      : reader{conninfo, name, lane, lanes},
        source(reader, std::move(mapping), system_clock()),
        parking(reader, source),
        lease(reader, system_clock(), "test", std::chrono::seconds(30)) {}

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
  MappedParking parking;
  PostgresLease lease;
};

class MappedTest : public ::testing::Test {
 protected:
  MappedTest() {
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
  static void park(MappedLane& lane, const Event& event, ParkState state = ParkState::parked) {
    const ParkRequest request{&event, state, 5, {}, "it is 'refused'"};
    const Status done = lane.parking.park({&request, 1});
    ASSERT_TRUE(done) << text_of(done);
  }
  // An open lane over the table.
  MappedLane& serve(const TableMapping& mapping, std::uint32_t lane = 0, std::uint32_t lanes = 1) {
    MappedLane& made =
        *lanes_.emplace_back(std::make_unique<MappedLane>(database.conninfo, mapping, lane, lanes));
    const Status opened = made.open();
    EXPECT_TRUE(opened) << text_of(opened);
    return made;
  }
  // Opening fails with this text.
  void refused(const TableMapping& mapping, std::string_view says) {
    const Status opened = MappedLane(database.conninfo, mapping).open();
    EXPECT_TRUE(failed_with(opened, Errc::rejected)) << text_of(opened);
    EXPECT_TRUE(contains(text_of(opened), says)) << text_of(opened);
  }

  TestDatabase database;
  Connection application = database.connect();

 private:
  std::vector<std::unique_ptr<MappedLane>> lanes_;
};

}  // namespace dovetail::postgres
