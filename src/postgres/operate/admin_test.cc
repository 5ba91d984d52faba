#include "postgres/operate/admin.h"

#include "host/host.h"
#include "postgres/lane/lease.h"
#include "postgres/lane/parking.h"
#include "postgres/outbox/source.h"
#include "postgres/schema/schema.h"
#include "postgres/testing/test_database.h"

namespace dovetail::postgres {
namespace {

using namespace std::chrono_literals;

class PostgresOperator : public ::testing::Test {
 protected:
  PostgresOperator() {
    const Status made = create_schema(application);
    EXPECT_TRUE(made) << text_of(made);
  }
  void publish(const std::string& key, int count = 1) {
    must(application, "SELECT dovetail.publish('order', '" + key +
                          "', 'placed', '{}'::jsonb) FROM generate_series(1, " +
                          std::to_string(count) + ")");
  }
  // Reads and settles at most `count` events.
  void relay(std::size_t count) {
    PostgresSource source(reader, system_clock());
    ASSERT_TRUE(source.open());
    Batch batch;
    const Status read = source.read(batch, Limits{count}, {});
    ASSERT_TRUE(read) << text_of(read);
    ASSERT_EQ(batch.size(), count);
    ASSERT_TRUE(source.settle(batch, std::vector<Settled>(count, Settled::delivered)));
    const Status flushed = source.flush();
    ASSERT_TRUE(flushed) << text_of(flushed);
  }
  // The first of them as head, the others behind it.
  std::vector<EventId> park(const std::string& key, int count, const std::string& name = "relay") {
    Reader of{database.conninfo, name};
    PostgresParking parking(of);
    EXPECT_TRUE(parking.open());
    std::vector<EventId> ids;
    for (int i = 0; i < count; ++i) {
      Event event;
      event.id = new_event_id();
      event.position = i + 1;
      event.aggregate_type = "order";
      event.aggregate_id = key;
      event.type = "placed";
      event.content_type = "application/json";
      event.payload = "payload";
      ids.push_back(event.id);
      ParkRequest request;
      request.event = &event;
      request.state = i == 0 ? ParkState::parked : ParkState::waiting;
      request.attempts = i == 0 ? 5 : 0;
      request.reason = i == 0 ? "refused by the sink" : "";
      const ParkRequest requests[] = {request};
      const Status parked = parking.park(requests);
      EXPECT_TRUE(parked) << text_of(parked);
    }
    return ids;
  }
  std::size_t due(const std::string& name = "relay") {
    Reader of{database.conninfo, name};
    PostgresParking parking(of);
    EXPECT_TRUE(parking.open());
    Batch batch;
    std::vector<std::uint32_t> attempts;
    EXPECT_TRUE(parking.take_due(batch, attempts, {}));
    return batch.size();
  }

  TestDatabase database;
  Connection application = database.connect();
  Reader reader{database.conninfo, "relay"};
  const std::string url = database.conninfo;
  const std::string reason = "checked with billing";
};

// No clock of a relay takes part, so none can be wrong.
TEST_F(PostgresOperator, ADelayOfAWaitingEventCountsByTheClockOfTheServer) {
  PostgresParking parking(reader);
  ASSERT_TRUE(parking.open());
  Event event;
  event.id = new_event_id();
  event.aggregate_type = "order";
  event.aggregate_id = "k";
  event.type = "placed";
  event.content_type = "text/plain";
  const ParkRequest request{&event, ParkState::waiting, 1, 1h, "not now"};
  ASSERT_TRUE(parking.park({&request, 1}));
  EXPECT_EQ(text(application,
                 "SELECT (retry_at - clock_timestamp() BETWEEN interval '59 min' AND interval '1 "
                 "h')::text FROM dovetail.parked"),
            "true");
  EXPECT_EQ(due(), 0U);
  must(application, "UPDATE dovetail.parked SET retry_at = clock_timestamp()");
  EXPECT_EQ(due(), 1U);
}

TEST_F(PostgresOperator, SeesTheStatusOfEveryLane) {
  publish("k", 5);
  PostgresLease lease(reader, system_clock(), "host:1", 30s);
  ASSERT_TRUE(lease.acquire());
  relay(2);
  park("x", 3);
  const Result<StoreStatus> seen = status(url);
  ASSERT_TRUE(seen) << text_of(seen);
  ASSERT_EQ(seen->lanes.size(), 1u);
  const LaneStatus& lane = seen->lanes[0];
  EXPECT_EQ(lane.relay, "relay");
  EXPECT_EQ(lane.lanes, 1u);
  EXPECT_EQ(lane.source, SourceKind::outbox);
  EXPECT_EQ(lane.pending, 3u);
  EXPECT_GT(lane.oldest_age, Duration{0});
  EXPECT_LT(lane.oldest_age, 60s);
  EXPECT_EQ(lane.delivered_total, 2u);
  EXPECT_GE(lane.events_per_second, 0);
  EXPECT_EQ(lane.parked, 1u);
  EXPECT_EQ(lane.waiting, 2u);
  EXPECT_TRUE(contains(lane.owner, "host:1")) << lane.owner;
  EXPECT_EQ(lane.epoch, 1);
  EXPECT_GT(lane.lease_left, 1s);
  EXPECT_LE(lane.lease_left, 30s);
  EXPECT_EQ(seen->schema_version, kSchemaVersion);
  EXPECT_EQ(seen->partitions, 1u);
  EXPECT_TRUE(contains(seen->server_version, "."));
}

// Or `run --until-idle` would leave it behind.
TEST_F(PostgresOperator, SeesADelayedEventAsPendingOnceItIsDue) {
  must(application,
       "INSERT INTO dovetail.relay_lane (relay, lane, lanes) VALUES ('relay', 0, 2), ('relay', 1, "
       "2); "
       "SELECT dovetail.publish('order', i::text, 'due', '{}'::jsonb, deliver_at => "
       "clock_timestamp() + i * interval '1 hour') FROM generate_series(1, 3) AS i; "
       "UPDATE dovetail.delayed SET deliver_at = clock_timestamp() - interval '1 min' "
       "WHERE aggregate_id <> '3'");
  const Result<StoreStatus> seen = status(url);
  ASSERT_TRUE(seen) << text_of(seen);
  ASSERT_EQ(seen->lanes.size(), 2u);
  EXPECT_EQ(seen->lanes[0].pending, 2u);
  EXPECT_GE(seen->lanes[0].oldest_age, 1min);
  EXPECT_EQ(seen->lanes[1].pending, 0u);
}

TEST_F(PostgresOperator, SeesTheBacklogOfEachLaneOfAMappedTable) {
  must(application,
       "CREATE TABLE t (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), aggregate_type text, "
       "aggregate_id text, event_type text, payload jsonb, created_at timestamptz DEFAULT "
       "clock_timestamp() - interval '1 hour', processed_at timestamptz, status text DEFAULT "
       "'pending'); INSERT INTO t (aggregate_type, aggregate_id, event_type, payload) SELECT "
       "'order', i::text, 'x', '{}' FROM generate_series(1, 40) AS i; INSERT INTO "
       "dovetail.relay_lane "
       "(relay, lane, lanes, source) VALUES ('m', 0, 2, 'mapped'), ('m', 1, 2, 'mapped')");
  const Result<StoreStatus> seen = status(url, {{"m", *mapping_preset("processed_at", "t")}});
  ASSERT_TRUE(seen) << text_of(seen);
  ASSERT_EQ(seen->lanes.size(), 2u);
  EXPECT_EQ(seen->lanes[0].source, SourceKind::mapped);
  EXPECT_EQ(seen->lanes[0].pending + seen->lanes[1].pending, 40u);
  EXPECT_GT(seen->lanes[0].pending, 0u);
  EXPECT_GT(seen->lanes[1].pending, 0u);
  EXPECT_GT(seen->lanes[0].oldest_age, 59min);
  EXPECT_LT(seen->lanes[0].oldest_age, 62min);
}

TEST_F(PostgresOperator, SeesARelayOfAMappedTableThatWasNeverStarted) {
  must(
      application,
      "CREATE TABLE t (id bigint PRIMARY KEY, event_type text, payload text, sent_at timestamptz); "
      "INSERT INTO t VALUES (1, 'x', 'y', NULL), (2, 'x', 'y', now())");
  const MappedRelays mapped = {{"m", *mapping_preset("sent_at", "t")}};
  const Result<StoreStatus> seen = status(url, mapped);
  ASSERT_TRUE(seen) << text_of(seen);
  ASSERT_EQ(seen->lanes.size(), 1u);
  EXPECT_EQ(seen->lanes[0].pending, 1u);
  EXPECT_EQ(seen->lanes[0].owner, "");

  const Result<std::vector<EventRow>> rows =
      list_mapped_events(url, "m", mapped.at("m"), EventFilter{});
  ASSERT_TRUE(rows) << text_of(rows);
  ASSERT_EQ(rows->size(), 2u);
  EXPECT_EQ((*rows)[0].state, EventState::pending);
  EXPECT_EQ((*rows)[1].state, EventState::delivered);
  EXPECT_EQ((*rows)[1].position, 2);
  EXPECT_EQ((*rows)[1].payload_bytes, 1u);
  const auto payload = mapped_payload_of(url, mapped.at("m"), (*rows)[1].id);
  ASSERT_TRUE(payload) << text_of(payload);
  EXPECT_EQ(*payload, "y");
  EXPECT_FALSE(*mapped_payload_of(url, mapped.at("m"), new_event_id()));
}

TEST_F(PostgresOperator, SeesWhatATableSaysOfItsRowsInWhateverType) {
  must(application,
       "CREATE TABLE t (id bigint PRIMARY KEY, payload text, done boolean); INSERT INTO t VALUES "
       "(1, "
       "'y', false), (2, 'y', true), (3, 'y', NULL)");
  TableMapping mapping;
  mapping.table = "t";
  mapping.pending = {*parse_pending("done = f")};
  mapping.when_delivered = {*parse_assignment("done = t")};
  const Result<std::vector<EventRow>> rows = list_mapped_events(url, "m", mapping, EventFilter{});
  ASSERT_TRUE(rows) << text_of(rows);
  ASSERT_EQ(rows->size(), 3u);
  EXPECT_EQ((*rows)[0].state, EventState::pending);
  EXPECT_EQ((*rows)[1].state, EventState::delivered);
  EXPECT_EQ((*rows)[2].state, EventState::discarded) << "nobody will send it";
}

TEST_F(PostgresOperator, SeesEventsByTheirState) {
  publish("k", 5);
  EventFilter filter;
  Result<std::vector<EventRow>> rows = list_events(url, filter);
  ASSERT_TRUE(rows) << text_of(rows);
  EXPECT_EQ(rows->size(), 5u);
  EXPECT_EQ(rows->front().relay, "");
  EXPECT_EQ(rows->front().state, EventState::pending);

  relay(2);
  rows = list_events(url, filter);
  ASSERT_EQ(rows->size(), 5u);
  EXPECT_EQ((*rows)[1].state, EventState::delivered);
  EXPECT_EQ((*rows)[2].state, EventState::pending);
  EXPECT_EQ((*rows)[2].relay, "relay");
  EXPECT_EQ((*rows)[2].payload_bytes, 2u);

  filter.state = EventState::pending;
  EXPECT_EQ(list_events(url, filter)->size(), 3u);
  filter.state = EventState::delivered;
  EXPECT_EQ(list_events(url, filter)->size(), 2u);
  filter.limit = 1;
  const std::vector<EventRow> first = *list_events(url, filter);
  ASSERT_EQ(first.size(), 1u);
  filter.after = first[0].position;
  EXPECT_EQ(list_events(url, filter)->size(), 1u);
  filter = {};
  filter.id = first[0].id.to_string();
  EXPECT_EQ(list_events(url, filter)->size(), 1u);
  filter.id = "no id";
  EXPECT_FALSE(list_events(url, filter));
  filter = {};
  filter.key = "other";
  EXPECT_TRUE(list_events(url, filter)->empty());
  EXPECT_EQ(*payload_of(url, first[0].id), "{}");
  EXPECT_FALSE(*payload_of(url, new_event_id()));
}

TEST_F(PostgresOperator, APageHasAllReadersOfItsLastEvent) {
  publish("k", 2);
  relay(2);
  Reader another{database.conninfo, "another"};
  ASSERT_TRUE(PostgresSource(another, system_clock()).open());
  EventFilter filter;
  filter.limit = 1;
  for (int page = 0; page < 2; ++page) {
    const auto rows = list_events(url, filter);
    ASSERT_TRUE(rows && rows->size() == 2) << text_of(rows);
    EXPECT_EQ(rows->front().relay, "another");
    EXPECT_EQ(rows->back().relay, "relay");
    filter.after = rows->back().position;
  }
  EXPECT_TRUE(list_events(url, filter)->empty());
}

TEST_F(PostgresOperator, SeesParkedEventsAndWhy) {
  const std::vector<EventId> ids = park("a", 2);
  park("b", 1);
  ParkedFilter filter;
  Result<std::vector<ParkedRow>> rows = list_parked(url, filter);
  ASSERT_TRUE(rows) << text_of(rows);
  ASSERT_EQ(rows->size(), 3u);
  EXPECT_EQ((*rows)[0].id, ids[0]);
  EXPECT_TRUE((*rows)[0].head);
  EXPECT_FALSE((*rows)[1].head);
  EXPECT_EQ((*rows)[0].attempts, 5u);
  EXPECT_EQ((*rows)[0].reason, "refused by the sink");
  EXPECT_EQ((*rows)[0].payload_bytes, 7u);
  filter.heads_only = true;
  EXPECT_EQ(list_parked(url, filter)->size(), 2u);
  filter.key = "a";
  EXPECT_EQ(list_parked(url, filter)->size(), 1u);
  filter = {};
  filter.reason_contains = "by the sink";
  EXPECT_EQ(list_parked(url, filter)->size(), 2u);
  filter.reason_contains = "%";
  EXPECT_TRUE(list_parked(url, filter)->empty());
}

TEST_F(PostgresOperator, ReplaysTheHeadAndWhatWaitsBehindItFollows) {
  const std::vector<EventId> ids = park("a", 3);
  EXPECT_EQ(due(), 0u);
  const Result<std::uint64_t> behind = replay_event(url, "", ids[1], reason);
  EXPECT_TRUE(failed_with(behind, Errc::rejected));
  EXPECT_TRUE(contains(text_of(behind), ids[0].to_string())) << text_of(behind);
  const Result<std::uint64_t> replayed = replay_event(url, "relay", ids[0], reason);
  ASSERT_TRUE(replayed) << text_of(replayed);
  EXPECT_EQ(*replayed, 1u);
  EXPECT_EQ(due(), 3u);
  EXPECT_TRUE(failed_with(replay_event(url, "", new_event_id(), reason), Errc::rejected));
}

// As if the clock of the database had been set by so much: what it compares with is moved.
TEST_F(PostgresOperator, AReplayIsDueWhicheverWayTheClockIsSetAfterwards) {
  const EventId id = park("a", 1)[0];
  for (const std::string by : {"1", "-1", "48", "-48"}) {
    ASSERT_TRUE(replay_event(url, "", id, reason));
    must(application,
         "UPDATE dovetail.parked SET retry_at = retry_at - interval '" + by + " hours'");
    PostgresParking parking(reader);
    ASSERT_TRUE(parking.open());
    Batch batch;
    std::vector<std::uint32_t> attempts;
    Limits limits;
    limits.pause_max = std::chrono::minutes(10);
    ASSERT_TRUE(parking.take_due(batch, attempts, limits));
    EXPECT_EQ(batch.size(), 1u) << by;
  }
}

TEST_F(PostgresOperator, CountsTheReplaysOfAnEventAndOfNoOther) {
  const std::vector<EventId> ids = park("a", 2);
  const auto replays = [&] {
    PostgresParking parking(reader);
    EXPECT_TRUE(parking.open());
    Batch batch;
    std::vector<std::uint32_t> attempts;
    EXPECT_TRUE(parking.take_due(batch, attempts, {}));
    std::vector<std::uint32_t> counts;
    for (const Event& event : batch.events()) counts.push_back(event.replays);
    return counts;
  };
  ASSERT_TRUE(replay_event(url, "", ids[0], reason));
  EXPECT_EQ(replays(), (std::vector<std::uint32_t>{1, 0}));
  // One that waits already is only tried at once.
  ASSERT_TRUE(replay_event(url, "", ids[0], reason));
  EXPECT_EQ(replays(), (std::vector<std::uint32_t>{1, 0}));
  application.query("UPDATE dovetail.parked SET state = 'parked' WHERE at_head").value();
  ASSERT_TRUE(replay_event(url, "", ids[0], reason));
  EXPECT_EQ(replays(), (std::vector<std::uint32_t>{2, 0}));
}

TEST_F(PostgresOperator, ReplaysAKeyAndAFilter) {
  park("a", 2);
  park("b", 1);
  park("c", 1, "other");
  const auto replay = [&](const std::string& what) {
    return number(application, "SELECT dovetail.replay_parked(" + what + ", 'healed')");
  };
  EXPECT_EQ(replay("'', NULL, 'nobody', 'order', '', ''"), 0);
  EXPECT_EQ(replay("'', NULL, 'a', 'order', '', ''"), 1);
  EXPECT_EQ(due(), 2u);
  EXPECT_EQ(replay("'relay', NULL, '', '', '', ''"), 2);
  EXPECT_EQ(due(), 3u);
  EXPECT_EQ(due("other"), 0u);
}

TEST_F(PostgresOperator, DiscardsWithAReasonAndTheNextOneBecomesHead) {
  const std::vector<EventId> ids = park("a", 3);
  EXPECT_TRUE(failed_with(discard(url, "", ids[0], " "), Errc::rejected));
  EXPECT_TRUE(failed_with(discard(url, "", ids[1], reason), Errc::rejected));
  const Status done = discard(url, "", ids[0], reason);
  ASSERT_TRUE(done) << text_of(done);
  EXPECT_EQ(due(), 2u);
  ParkedFilter filter;
  filter.with_finished = true;
  const std::vector<ParkedRow> rows = *list_parked(url, filter);
  EXPECT_EQ(rows[0].state, EventState::discarded);
  EXPECT_EQ(rows[0].note, "checked with billing");
  EXPECT_GT(rows[0].finished_at, WallTime{});
  EXPECT_TRUE(rows[1].head);
  EXPECT_TRUE(contains(text_of(discard(url, "", ids[0], reason)), "already finished"));
}

TEST_F(PostgresOperator, DiscardsAKeyAndAFilterAsAWhole) {
  park("a", 3);
  park("b", 2);
  const auto give_up = [&](const std::string& what) {
    return number(application, "SELECT dovetail.discard_parked(" + what + ", 'of no use')");
  };
  EXPECT_EQ(give_up("'', NULL, 'a', 'order', '', '', false, true"), 3);
  EXPECT_EQ(give_up("'', NULL, 'a', 'order', '', '', false, true"), 0);
  EXPECT_EQ(give_up("'', NULL, '', '', '', '', true, false"), 1);
  EXPECT_EQ(due(), 1u);
}

TEST_F(PostgresOperator, OneOfSeveralRelaysMustBeNamed) {
  const std::vector<EventId> ids = park("a", 1);
  must(application,
       "INSERT INTO dovetail.parked (relay, id, position, topic, aggregate_type, aggregate_id, "
       "type, "
       "content_type, headers, payload, aggregate_version, created_at, state, at_head, attempts, "
       "reason, retry_at) SELECT 'other', id, position, topic, aggregate_type, aggregate_id, type, "
       "content_type, headers, payload, aggregate_version, created_at, state, at_head, attempts, "
       "reason, retry_at FROM dovetail.parked");
  EXPECT_TRUE(failed_with(discard(url, "", ids[0], reason), Errc::rejected));
  EXPECT_TRUE(discard(url, "other", ids[0], reason));
  EXPECT_EQ(number(application, "SELECT count(*) FROM dovetail.parked WHERE finished_at IS NULL"),
            1);
}

TEST_F(PostgresOperator, EveryActionIsWrittenDown) {
  const std::vector<EventId> ids = park("a", 2);
  ASSERT_TRUE(replay_event(url, "relay", ids[0], reason));
  ASSERT_TRUE(discard(url, "relay", ids[0], "gone"));
  must(application,
       "SELECT dovetail.discard_parked('relay', NULL, 'a', 'order', '', '', false, true, 'all')");
  const Result<std::vector<AuditRow>> rows = list_audit(url);
  ASSERT_TRUE(rows) << text_of(rows);
  ASSERT_EQ(rows->size(), 3u);
  EXPECT_EQ((*rows)[2].what, "replay");
  EXPECT_EQ((*rows)[2].who, "postgres") << "the login, whatever is said";
  EXPECT_EQ((*rows)[2].subject, ids[0].to_string());
  EXPECT_EQ((*rows)[2].reason, "checked with billing");
  EXPECT_EQ((*rows)[1].what, "discard");
  EXPECT_EQ((*rows)[1].who, "postgres");
  EXPECT_EQ((*rows)[1].relay, "relay");
  EXPECT_EQ((*rows)[0].events, 1u);
  EXPECT_TRUE(contains((*rows)[0].subject, "\"a\""));
  EXPECT_LT(system_clock().wall() - (*rows)[0].at, 60s);
  // What is refused leaves no trace.
  EXPECT_FALSE(replay_event(url, "", new_event_id(), reason));
  EXPECT_EQ(list_audit(url)->size(), 3u);
}

TEST_F(PostgresOperator, OperatorWhoDiscardsWhileARelayParksLeavesAHead) {
  const std::vector<EventId> ids = park("a", 1);
  // A relay has parked another event behind it and not committed yet.
  Connection other = database.connect();
  must(other,
       "BEGIN; INSERT INTO dovetail.parked (relay, id, position, topic, aggregate_type, "
       "aggregate_id, type, content_type, headers, payload, aggregate_version, created_at, state, "
       "attempts, reason, retry_at) VALUES ('relay', gen_random_uuid(), 9, '', 'order', 'a', 't', "
       "'c', '', '', 0, now(), 'waiting', 0, '', now() - interval '1 s'); SELECT "
       "dovetail.refresh_heads('relay', '{order}', '{a}')");
  std::thread person([&] {
    const Status done = discard(url, "", ids[0], reason);
    EXPECT_TRUE(done) << text_of(done);
  });
  EXPECT_TRUE(eventually([&] {
    return number(application,
                  "SELECT count(*) FROM pg_stat_activity WHERE datname = "
                  "current_database() AND wait_event_type = 'Lock'") > 0;
  }));
  must(other, "COMMIT");
  person.join();
  EXPECT_EQ(due(), 1u);
}

TEST_F(PostgresOperator, DatabaseWithoutTheSchemaIsNamed) {
  must(application, "DROP SCHEMA dovetail CASCADE");
  for (const std::string& told : {text_of(status(url)), text_of(list_events(url, {})),
                                  text_of(list_parked(url, {})), text_of(list_audit(url))})
    EXPECT_TRUE(contains(told, "dovetail init")) << told;
}

// A changed copy is a new event like any other: a full outbox takes none, and then nothing is done.
TEST_F(PostgresOperator, AChangedCopyWaitsForRoomInAFullOutbox) {
  publish("a", 2);
  relay(1);
  const EventId parked = park("k", 1).front();
  const Header replaces{"dovetail-replaces", parked.to_string()};
  NewEvent copy;
  copy.id = new_event_id();
  copy.headers = {&replaces, 1};
  copy.aggregate_type = "order";
  copy.aggregate_id = "k";
  copy.type = "placed";
  copy.payload = "{}";
  const auto decisions = [&] {
    const auto rows = list_audit(url);
    EXPECT_TRUE(rows) << text_of(rows);
    return rows ? rows->size() : 0;
  };
  must(application, "SELECT dovetail.set_backlog_limit(1)");
  const auto refused = publish_edited(url, parked, copy, {}, reason);
  EXPECT_TRUE(contains(text_of(refused), "the outbox is full")) << text_of(refused);
  EXPECT_EQ(decisions(), 0U);
  EXPECT_EQ(text(application, "SELECT state FROM dovetail.parked"), "parked");
  EXPECT_EQ(number(application, "SELECT count(*) FROM dovetail.outbox"), 2);
  must(application, "SELECT dovetail.set_backlog_limit(2)");
  const auto done = publish_edited(url, parked, copy, {}, reason);
  ASSERT_TRUE(done) << text_of(done);
  EXPECT_EQ(*done, 1U);
  EXPECT_EQ(decisions(), 2U);
  EXPECT_EQ(text(application, "SELECT state FROM dovetail.parked"), "discarded");
  EXPECT_EQ(number(application, "SELECT count(*) FROM dovetail.outbox"), 3);
}

}  // namespace
}  // namespace dovetail::postgres
