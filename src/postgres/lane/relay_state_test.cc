#include "postgres/lane/relay_state.h"

#include "host/host.h"
#include "postgres/lane/lease.h"
#include "postgres/lane/parking.h"
#include "postgres/lane/reader.h"
#include "postgres/operate/admin.h"
#include "postgres/schema/schema.h"
#include "postgres/testing/test_database.h"

namespace dovetail::postgres {
namespace {

using namespace std::chrono_literals;
using Kind = RelayState::Kind;

class RelayStates : public ::testing::Test {
 protected:
  RelayStates() {
    const Status made = create_schema(application);
    EXPECT_TRUE(made) << text_of(made);
  }
  Status say(Kind kind, std::int64_t epoch, const std::string& error = "refused",
             const std::string& who = "host:1#a") {
    const TimePoint now = system_clock().now();
    return write_state(application, {"relay", 0, 1}, who, {{kind, 3s, error, 5s}, epoch, now - 1s},
                       now);
  }
  LaneStatus lane() {
    const Result<StoreStatus> seen = status(database.conninfo);
    EXPECT_TRUE(seen) << text_of(seen);
    EXPECT_EQ(seen->lanes.size(), 1u);
    return seen->lanes.at(0);
  }
  std::string text(const std::string& sql) {
    const Result<Rows> rows = application.query(sql);
    EXPECT_TRUE(rows) << text_of(rows);
    return std::string(rows->text(0, 0));
  }

  TestDatabase database;
  Connection application = database.connect();
  Reader reader{database.conninfo, "relay"};
};

TEST_F(RelayStates, AreTrueWhileTheLeaseOfTheirEpochHolds) {
  PostgresLease lease(reader, system_clock(), "host:1", 30s);
  ASSERT_TRUE(lease.acquire());
  ASSERT_TRUE(say(Kind::backing_off, reader.epoch));
  const SaidState said = lane().said.value();
  EXPECT_TRUE(said.is_current);
  EXPECT_EQ(said.state, "backing_off");
  EXPECT_EQ(said.last_error, "refused");
  ASSERT_TRUE(said.next_try);
  EXPECT_GT(*said.next_try - said.since, 7s) << "5 s after it was said, which was 3 s after";
  EXPECT_EQ(text("SELECT state FROM dovetail.lag"), "backing_off");
  ASSERT_TRUE(lease.release());
  must(application, "UPDATE dovetail.relay_state SET expires = clock_timestamp()");
  EXPECT_FALSE(lane().said->is_current) << "the process that said it has let go, and is silent";
  EXPECT_EQ(text("SELECT state FROM dovetail.lag"), "stopped");
}

TEST_F(RelayStates, OfAnotherThanTheOwnerAreNotWritten) {
  PostgresLease lease(reader, system_clock(), "host:1", 30s);
  ASSERT_TRUE(lease.acquire());
  ASSERT_TRUE(say(Kind::delivering, reader.epoch, ""));
  ASSERT_TRUE(say(Kind::halted, reader.epoch - 1, "x", "host:2#b")) << "an owner of before";
  ASSERT_TRUE(say(Kind::halted, -1, "x", "host:3#c")) << "a process without a lease";
  EXPECT_EQ(lane().said->state, "delivering");
}

TEST_F(RelayStates, StayTrueWhenTheirProcessTakesTheLeaseAgain) {
  PostgresLease lease(reader, system_clock(), "host:1", 30s);
  ASSERT_TRUE(lease.acquire());
  ASSERT_TRUE(say(Kind::backing_off, reader.epoch));
  ASSERT_TRUE(lease.acquire()) << "the next session";
  EXPECT_TRUE(lane().said->is_current);
}

TEST_F(RelayStates, OfAProcessThatCannotEvenStartAreSeenUntilItFallsSilent) {
  ASSERT_TRUE(say(Kind::halted, -1, "no such column"));
  EXPECT_FALSE(lane().has_row);
  EXPECT_TRUE(lane().said->is_current);
  must(application, "UPDATE dovetail.relay_state SET expires = clock_timestamp()");
  const Result<StoreStatus> seen = status(database.conninfo);
  ASSERT_TRUE(seen) << text_of(seen);
  EXPECT_TRUE(seen->lanes.empty()) << "nothing else is known of it";
}

TEST_F(RelayStates, HoldNoSecretsAndNoBrokenText) {
  ASSERT_TRUE(say(Kind::halted, -1, "amqp://u:hush@h refused \xff" + std::string(5000, 'x')));
  const std::string error = lane().said->last_error;
  EXPECT_TRUE(contains(error, "amqp://u:***@h")) << error;
  EXPECT_LE(error.size(), 2000u);
}

TEST_F(RelayStates, EventsOutOfParkingCountAsDelivered) {
  ASSERT_TRUE(connect(reader));
  PostgresParking parking(reader);
  ASSERT_TRUE(parking.open());
  Event event;
  event.id = new_event_id();
  event.aggregate_type = event.type = event.content_type = event.payload = "x";
  ParkRequest request;
  request.event = &event;
  request.state = ParkState::waiting;
  const ParkRequest requests[] = {request};
  ASSERT_TRUE(parking.park(requests));
  const EventId ids[] = {event.id};
  ASSERT_TRUE(parking.delivered(ids));
  ASSERT_TRUE(parking.delivered(ids)) << "said twice, counted once";
  EXPECT_EQ(lane().replayed_total, 1u);
}

TEST_F(RelayStates, AWrongMappingIsToldInItsLaneAndHidesNoOther) {
  ASSERT_TRUE(ensure_relay(application, {.relay = "good"}));
  TableMapping mapping;
  mapping.table = "no_such_table";
  mapping.delete_when_done = true;
  const Result<StoreStatus> seen = status(database.conninfo, {{"wrong", mapping}});
  ASSERT_TRUE(seen) << text_of(seen);
  ASSERT_EQ(seen->lanes.size(), 2u);
  EXPECT_FALSE(seen->lanes[0].error);
  ASSERT_TRUE(seen->lanes[1].error);
  EXPECT_TRUE(contains(seen->lanes[1].error->text, "no_such_table"));
}

TEST_F(RelayStates, WhatIsPendingInATableThatIsTooLargeToCountIsNotKnown) {
  must(application,
       "CREATE TABLE t (id bigint PRIMARY KEY, payload text); INSERT INTO t VALUES (1)");
  ASSERT_TRUE(ensure_relay(application, {.relay = "m", .source = SourceKind::mapped}));
  TableMapping mapping;
  mapping.table = "t";
  mapping.from_wal = true;
  for (const bool is_counted : {true, false}) {
    if (!is_counted) mapping.counted_bytes_max = 0;
    const Result<StoreStatus> seen = status(database.conninfo, {{"m", mapping}});
    ASSERT_TRUE(seen) << text_of(seen);
    ASSERT_EQ(seen->lanes.size(), 1u);
    EXPECT_FALSE(seen->lanes[0].error) << seen->lanes[0].error->text;
    EXPECT_EQ(seen->lanes[0].is_pending_known, is_counted);
    EXPECT_EQ(seen->lanes[0].pending, is_counted ? 1u : 0u);
    const Status written = write_backlog(application, {"m", 0, 1}, mapping);
    ASSERT_TRUE(written) << text_of(written);
    EXPECT_EQ(text("SELECT coalesce(pending::text, 'not known') FROM dovetail.lag"),
              is_counted ? "1" : "not known");
  }
}

TEST_F(RelayStates, TheViewOfTheLagHasWhatARelayCountedInATableOfItsOwn) {
  must(application,
       "CREATE TABLE t (id bigint PRIMARY KEY, payload text, at timestamptz); INSERT INTO t VALUES "
       "(1, 'x', now() - interval '1 hour'), (2, 'x', now())");
  ASSERT_TRUE(ensure_relay(application, {.relay = "m", .source = SourceKind::mapped}));
  TableMapping mapping;
  mapping.table = "t";
  mapping.created_at = "at";
  mapping.delete_when_done = true;
  const Status written = write_backlog(application, {"m", 0, 1}, mapping);
  ASSERT_TRUE(written) << text_of(written);
  EXPECT_EQ(text("SELECT (pending = 2 AND lag > '59 minutes' AND oldest_at IS NOT NULL)::text "
                 "FROM dovetail.lag WHERE relay = 'm'"),
            "true");
  mapping.created_at.clear();
  ASSERT_TRUE(write_backlog(application, {"m", 0, 1}, mapping));
  must(application,
       "UPDATE dovetail.relay_lane SET owner = 'x', expires = now() + interval '1 minute'");
  EXPECT_EQ(text("SELECT (pending = 2 AND lag IS NULL AND oldest_at IS NULL)::text FROM "
                 "dovetail.lag WHERE relay = 'm'"),
            "true")
      << "the table has no time";
  must(application, "UPDATE dovetail.relay_lane SET owner = ''");
  EXPECT_EQ(text("SELECT (lag > '0')::text FROM dovetail.lag WHERE relay = 'm'"), "true")
      << "nobody runs, so it grows";
}

TEST_F(RelayStates, ARelayIsBoundToItsTarget) {
  reader.target = "kafka a:9092";
  ASSERT_TRUE(connect(reader));
  Reader other{database.conninfo, "relay"};
  other.target = "kafka b:9092";
  const Status refused = connect(other);
  EXPECT_TRUE(failed_with(refused, Errc::rejected));
  EXPECT_TRUE(contains(refused.error().text, "dovetail relay retarget relay"));
  Reader silent{database.conninfo, "relay"};
  EXPECT_TRUE(connect(silent)) << "one that says no target is not asked";

  PostgresLease lease(reader, system_clock(), "host:1", 30s);
  ASSERT_TRUE(lease.acquire());
  EXPECT_FALSE(retarget(database.conninfo, "relay", other.target, "moved")) << "it runs";
  ASSERT_TRUE(lease.release());
  const Result<std::string> before = retarget(database.conninfo, "relay", other.target, "moved");
  ASSERT_TRUE(before) << text_of(before);
  EXPECT_EQ(*before, "kafka a:9092");
  EXPECT_TRUE(failed_with(lease.acquire(), Errc::rejected)) << "one that was connected before";
  EXPECT_TRUE(connect(other));
  EXPECT_TRUE(failed_with(retarget(database.conninfo, "nobody", "x", "y"), Errc::rejected));
}

}  // namespace
}  // namespace dovetail::postgres
