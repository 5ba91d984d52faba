#include "sqlite/operate/admin.h"

#include "core/testing/test_clock.h"
#include "kit/ids.h"
#include "sqlite/lane/lease.h"
#include "sqlite/lane/parking.h"
#include "sqlite/outbox/source.h"
#include "sqlite/testing/test_file.h"

namespace dovetail::sqlite {
namespace {

using namespace std::chrono_literals;

class Operator : public ::testing::Test {
 protected:
  Operator() { clock.set_wall(system_clock().wall()); }
  void register_reader(std::int64_t settled = 0) {
    application.run(
        "INSERT INTO dovetail_relay (relay, source, passed_seq) VALUES ('relay', 'outbox', " +
        std::to_string(settled) +
        ") ON CONFLICT (relay) DO UPDATE SET passed_seq = excluded.passed_seq");
  }
  void park(const std::vector<Event>& events, ParkState head_state = ParkState::parked) {
    SqliteParking parking(reader, clock);
    ASSERT_TRUE(parking.open());
    std::vector<ParkRequest> requests;
    for (const Event& event : events) {
      ParkRequest& request = requests.emplace_back();
      request.event = &event;
      request.state = requests.size() == 1 ? head_state : ParkState::waiting;
      request.attempts = 5;
      request.reason = "refused";
    }
    const Status parked = parking.park(requests);
    ASSERT_TRUE(parked) << text_of(parked);
  }
  std::size_t due() {
    SqliteParking parking(reader, clock);
    EXPECT_TRUE(parking.open());
    Batch batch;
    std::vector<std::uint32_t> attempts;
    EXPECT_TRUE(parking.take_due(batch, attempts, {}));
    return batch.size();
  }

  TestFile file;
  TestClock clock;
  Application application{file.path};
  Reader reader{file.path, "relay"};
};

TEST_F(Operator, SeesTheStatusOfEveryReader) {
  for (int i = 0; i < 5; ++i) application.publish_one("k");
  SqliteLease lease(reader, clock, "host:1", boot_id());
  ASSERT_TRUE(lease.acquire());
  SqliteSource source(reader, clock);
  ASSERT_TRUE(source.open());
  Batch batch;
  ASSERT_TRUE(source.read(batch, Limits{2}, {}));
  ASSERT_TRUE(source.settle(batch, std::vector<Settled>(2, Settled::delivered)));
  ASSERT_TRUE(source.flush());
  park({make_event("x", 10), make_event("x", 11)});
  clock.advance(2s);

  const Result<StoreStatus> seen = status(file.path, clock);
  ASSERT_TRUE(seen) << text_of(seen);
  ASSERT_EQ(seen->relays.size(), 1u);
  const RelayStatus& row = seen->relays[0];
  EXPECT_EQ(row.name, "relay");
  EXPECT_EQ(row.pending, 3u);
  EXPECT_GE(row.oldest_age, 1s);
  EXPECT_EQ(row.delivered_total, 2u);
  EXPECT_GT(row.events_per_second, 0.1);
  EXPECT_LT(row.events_per_second, 3);
  EXPECT_EQ(row.parked, 1u);
  EXPECT_EQ(row.waiting, 1u);
  EXPECT_TRUE(contains(row.owner, "host:1"));
  EXPECT_EQ(row.epoch, 1);
  EXPECT_EQ(row.lease_left, 8s);
  EXPECT_EQ(seen->outbox_rows, 5u);
  EXPECT_GT(seen->file_bytes, 0u);
  clock.advance(1min);
  EXPECT_EQ(status(file.path, clock)->relays[0].events_per_second, 0) << "it has gone quiet";
}

TEST_F(Operator, SeesWhatConsumersApplied) {
  application.run("BEGIN");
  const EventId id = new_event_id();
  ASSERT_TRUE(claim(application.connection, "billing", id));
  ASSERT_TRUE(claim(application.connection, "billing", id));
  application.run("COMMIT");
  const Result<StoreStatus> seen = status(file.path, clock);
  ASSERT_TRUE(seen) << text_of(seen);
  ASSERT_EQ(seen->consumers.size(), 1u);
  EXPECT_EQ(seen->consumers[0].applied, 1u);
  EXPECT_EQ(seen->consumers[0].duplicates, 1u);
}

TEST_F(Operator, ListsEventsByStateTypeKeyAndTopic) {
  const EventId delivered = application.publish_one("a", "{}", "orders");
  const EventId parked = application.publish_one("b");
  const EventId pending = application.publish_one("c");
  register_reader(2);
  Event event = make_event("b", 2);
  event.id = parked;
  park({event});
  const auto only = [&](EventFilter filter) {
    const Result<std::vector<EventRow>> rows = list_events(file.path, filter);
    EXPECT_TRUE(rows) << text_of(rows);
    EXPECT_EQ(rows->size(), 1u);
    return rows->empty() ? EventId{} : rows->front().id;
  };
  EventFilter filter;
  filter.state = EventState::delivered;
  EXPECT_EQ(only(filter), delivered);
  filter.state = EventState::parked;
  EXPECT_EQ(only(filter), parked);
  filter.state = EventState::pending;
  EXPECT_EQ(only(filter), pending);
  filter = EventFilter{};
  filter.key = "a";
  EXPECT_EQ(only(filter), delivered);
  filter = EventFilter{};
  filter.topic = "orders";
  EXPECT_EQ(only(filter), delivered);
  filter = EventFilter{};
  filter.id = pending.to_string();
  EXPECT_EQ(only(filter), pending);
  filter = EventFilter{};
  filter.after = 2;
  EXPECT_EQ(only(filter), pending);
  filter = EventFilter{};
  filter.limit = 1;
  EXPECT_EQ(only(filter), delivered);
  filter = EventFilter{};
  filter.type = "nothing";
  EXPECT_TRUE(list_events(file.path, filter)->empty());
  filter.id = "no id";
  EXPECT_TRUE(failed_with(list_events(file.path, filter), Errc::rejected));
  EXPECT_EQ(application.text("SELECT group_concat(state) FROM dovetail_events"),
            "delivered,parked,pending");
}

TEST_F(Operator, APageHasAllReadersOfItsLastEvent) {
  for (const char* const key : {"a", "b"}) application.publish_one(key);
  register_reader(2);
  application.run("INSERT INTO dovetail_relay (relay, source) VALUES ('another', 'outbox')");
  EventFilter filter;
  filter.limit = 1;
  for (int page = 0; page < 2; ++page) {
    const auto rows = list_events(file.path, filter);
    ASSERT_TRUE(rows && rows->size() == 2) << text_of(rows);
    EXPECT_EQ(rows->front().relay, "another");
    EXPECT_EQ(rows->back().relay, "relay");
    filter.after = rows->back().position;
  }
  EXPECT_TRUE(list_events(file.path, filter)->empty());
}

TEST_F(Operator, ReadsThePayloadOfOneEvent) {
  const EventId id = application.publish_one("a", "the payload");
  EXPECT_EQ(payload_of(file.path, id).value(), "the payload");
  EXPECT_FALSE(*payload_of(file.path, new_event_id()));
}

TEST_F(Operator, ReplaysAHead) {
  const std::vector<Event> events = {make_event("a", 1), make_event("a", 2)};
  park(events);
  EXPECT_EQ(due(), 0u);
  ASSERT_EQ(replay_event(file.path, "", events[0].id, clock).value(), 1u);
  EXPECT_EQ(due(), 2u);
  EXPECT_EQ(application.number("SELECT attempts FROM dovetail_parked WHERE position = 1"), 0);
}

TEST_F(Operator, CountsTheReplaysOfAnEventAndOfNoOther) {
  const std::vector<Event> events = {make_event("a", 1), make_event("a", 2)};
  park(events);
  const auto replays = [&] {
    SqliteParking parking(reader, clock);
    EXPECT_TRUE(parking.open());
    Batch batch;
    std::vector<std::uint32_t> attempts;
    EXPECT_TRUE(parking.take_due(batch, attempts, {}));
    std::vector<std::uint32_t> counts;
    for (const Event& event : batch.events()) counts.push_back(event.replays);
    return counts;
  };
  ASSERT_TRUE(replay_event(file.path, "", events[0].id, clock));
  EXPECT_EQ(replays(), (std::vector<std::uint32_t>{1, 0}));
  // One that waits already is only tried at once.
  ASSERT_TRUE(replay_event(file.path, "", events[0].id, clock));
  EXPECT_EQ(replays(), (std::vector<std::uint32_t>{1, 0}));
  application.run("UPDATE dovetail_parked SET state = 'parked' WHERE position = 1");
  ASSERT_TRUE(replay_event(file.path, "", events[0].id, clock));
  EXPECT_EQ(replays(), (std::vector<std::uint32_t>{2, 0}));
}

TEST_F(Operator, IsToldWhenAnIdIsUnknownFinishedOrBehindAnother) {
  const std::vector<Event> events = {make_event("a", 1), make_event("a", 2)};
  park(events);
  const auto unknown = replay_event(file.path, "", new_event_id(), clock);
  EXPECT_TRUE(contains(text_of(unknown), "not parked")) << text_of(unknown);
  const auto behind = replay_event(file.path, "", events[1].id, clock);
  EXPECT_TRUE(contains(text_of(behind), "waits behind " + events[0].id.to_string()))
      << text_of(behind);
  const auto discard_behind = discard(file.path, "", events[1].id, "x", clock);
  EXPECT_TRUE(contains(text_of(discard_behind), "waits behind")) << text_of(discard_behind);
  EXPECT_TRUE(failed_with(discard(file.path, "", events[0].id, "", clock), Errc::rejected));
  ASSERT_TRUE(discard(file.path, "", events[0].id, "obsolete", clock));
  const auto twice = discard(file.path, "", events[0].id, "obsolete", clock);
  EXPECT_TRUE(contains(text_of(twice), "discarded")) << text_of(twice);
}

TEST_F(Operator, DiscardsAHeadAndTheRestFlows) {
  const std::vector<Event> events = {make_event("a", 1), make_event("a", 2)};
  park(events);
  ASSERT_TRUE(discard(file.path, "relay", events[0].id, "the order was cancelled", clock));
  EXPECT_EQ(due(), 1u);
  ParkedFilter filter;
  filter.with_finished = true;
  const std::vector<ParkedRow> rows = list_parked(file.path, filter).value();
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].state, EventState::discarded);
  EXPECT_EQ(rows[0].note, "the order was cancelled");
  EXPECT_TRUE(rows[1].head);
  EXPECT_EQ(list_parked(file.path, {})->size(), 1u);
}

TEST_F(Operator, FindsParkedEventsByWhatIsKnownOfThem) {
  const std::vector<Event> events = {make_event("a", 1), make_event("b", 2)};
  park(events);
  const ParkedRow one = list_parked(file.path, {.key = "b"})->at(0);
  ASSERT_FALSE(one.reason.empty());
  const auto count = [&](const ParkedFilter& filter) {
    return list_parked(file.path, filter)->size();
  };
  EXPECT_EQ(count({.aggregate_type = one.aggregate_type}), 2u);
  EXPECT_EQ(count({.aggregate_type = "other"}), 0u);
  EXPECT_EQ(count({.type = one.type}), 2u);
  EXPECT_EQ(count({.type = "other"}), 0u);
  EXPECT_EQ(count({.reason_contains = one.reason.substr(1)}), 2u);
  EXPECT_EQ(count({.reason_contains = "other"}), 0u);
}

TEST_F(Operator, PrunesOnlyWhatIsOldAndPassedByEveryReader) {
  for (int i = 0; i < 10; ++i) application.publish_one("k");
  application.run("UPDATE dovetail_outbox SET created_at = 1 WHERE seq <= 8");
  register_reader(6);
  PruneOptions options;
  options.batch_max = 2;
  Result<PruneReport> report = prune(file.path, options, clock);
  ASSERT_TRUE(report) << text_of(report);
  EXPECT_EQ(report->outbox, 6u);
  register_reader(10);
  EXPECT_EQ(prune(file.path, options, clock)->outbox, 2u);
  EXPECT_EQ(application.number("SELECT min(seq) FROM dovetail_outbox"), 9);
}

TEST_F(Operator, TheLastRefusalsAreKept) {
  application.run(
      "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 1200) INSERT INTO "
      "dovetail_audit (at, who, what, subject, reason) SELECT 1, 'x', iif(n % 6, 'refused', "
      "'replay'), n, '' FROM n");
  const Status noted = note_refusal(file.path, "POST /x", 7, "vera by the console: refused", clock);
  ASSERT_TRUE(noted) << text_of(noted);
  EXPECT_EQ(application.number("SELECT count(*) FROM dovetail_audit WHERE what = 'refused'"), 1000);
  EXPECT_EQ(application.number("SELECT count(*) FROM dovetail_audit WHERE what = 'replay'"), 200);
  const AuditRow last =
      list_audit(file.path, {.what = "refused", .who = "vera", .limit = 5})->at(0);
  EXPECT_EQ(last.subject, "POST /x");
  EXPECT_EQ(last.events, 7U);
}

TEST_F(Operator, ReceiptsGoWithTheLastEventThatTheySpeakOf) {
  for (int i = 0; i < 10; ++i) application.publish_one("k");
  application.run("UPDATE dovetail_outbox SET created_at = 1 WHERE seq <= 8");
  register_reader(10);
  application.run(
      "INSERT INTO dovetail_receipt (relay, at, owner, first_seq, last_seq, events, places) SELECT "
      "relay, 1, 'x', column1, column2, 1, '' FROM dovetail_relay, (VALUES (1, 8), (5, 9), (9, "
      "10))");
  const std::string left =
      "SELECT group_concat(first_seq || '-' || last_seq, ' ') FROM "
      "dovetail_receipt ORDER BY first_seq";
  EXPECT_TRUE(prune(file.path, {}, clock));
  EXPECT_EQ(application.text(left), "5-9 9-10");
  application.run("DELETE FROM dovetail_outbox");
  EXPECT_TRUE(prune(file.path, {}, clock));
  EXPECT_EQ(application.number("SELECT count(*) FROM dovetail_receipt"), 0);
}

TEST_F(Operator, PrunesNothingThatNobodyHasRead) {
  application.publish_one("k");
  application.run("UPDATE dovetail_outbox SET created_at = 1");
  const Result<PruneReport> report = prune(file.path, {}, clock);
  ASSERT_TRUE(report) << text_of(report);
  EXPECT_EQ(report->outbox, 0u);
  ASSERT_FALSE(report->notes.empty());
  EXPECT_TRUE(contains(report->notes[0], "outbox has no relay")) << report->notes[0];
}

TEST_F(Operator, PrunesOldInboxRowsAndFinishedParkedOnes) {
  application.run("BEGIN");
  for (int i = 0; i < 25; ++i)
    ASSERT_TRUE(claim(application.connection, "billing", id_at(days_ago(clock, 40))));
  application.run("COMMIT");
  application.run("BEGIN");
  ASSERT_TRUE(claim(application.connection, "billing", new_event_id()));
  application.run("COMMIT");
  const Event event = make_event("a", 1);
  park({event, make_event("a", 2)});
  ASSERT_TRUE(discard(file.path, "", event.id, "x", clock));
  application.run("UPDATE dovetail_parked SET finished_at = 1 WHERE finished_at > 0");
  application.run(
      "UPDATE dovetail_inbox SET applied_at = 1 WHERE event_id <> (SELECT max(event_id) FROM "
      "dovetail_inbox)");
  PruneOptions options;
  options.batch_max = 10;
  const Result<PruneReport> report = prune(file.path, options, clock);
  ASSERT_TRUE(report) << text_of(report);
  EXPECT_EQ(report->inbox, 25u);
  EXPECT_EQ(report->parked, 1u);
  EXPECT_TRUE(report->finished);
  EXPECT_EQ(application.number("SELECT count(*) FROM dovetail_inbox"), 1);
  EXPECT_EQ(application.number("SELECT count(*) FROM dovetail_parked"), 1);
}

TEST_F(Operator, APruneIsBoundedAndSaysSo) {
  for (int i = 0; i < 10; ++i) application.publish_one("k");
  application.run("UPDATE dovetail_outbox SET created_at = 1");
  register_reader(10);
  PruneOptions options;
  options.rows_max = 4;
  const Result<PruneReport> report = prune(file.path, options, clock);
  ASSERT_TRUE(report) << text_of(report);
  EXPECT_EQ(report->outbox, 4u);
  EXPECT_FALSE(report->finished);
}

TEST_F(Operator, StateNamesGoBothWays) {
  for (const EventState state : {EventState::pending, EventState::delivered, EventState::parked,
                                 EventState::waiting, EventState::discarded})
    EXPECT_EQ(parse_event_state(to_string(state)).value(), state);
  EXPECT_TRUE(failed_with(parse_event_state("lost"), Errc::rejected));
}

class Edited : public Operator {
 protected:
  Edited() {
    old.id = parked;
    copy.aggregate_type = "order";
    copy.aggregate_id = "k";
    copy.type = "placed";
    copy.payload = "{}";
    copy.id = new_event_id();
    park({old, make_event("k", 11)});
  }
  // What an edit changes.
  std::vector<std::string> trace() {
    std::vector<std::string> rows;
    const auto audit = list_audit(file.path);
    EXPECT_TRUE(audit) << text_of(audit);
    for (const AuditRow& row : *audit)
      rows.push_back(row.what + " " + row.subject + " " + row.reason);
    rows.push_back("events " + std::to_string(status(file.path, clock)->outbox_rows));
    return rows;
  }
  const EventId parked = new_event_id();
  Event old = make_event("k", 10);
  NewEvent copy;
};

TEST_F(Edited, IsPublishedRecordedAndDiscardedTogetherAndOnce) {
  const std::string why = " why; as " + copy.id->to_string();
  const std::vector<std::string> all = {"discard " + parked.to_string() + why,
                                        "edit " + parked.to_string() + why, "events 1"};
  for (const std::uint64_t discarded : {1U, 0U}) {
    const auto done = publish_edited(file.path, parked, copy, {}, "why", clock);
    ASSERT_TRUE(done) << text_of(done);
    EXPECT_EQ(*done, discarded);
    EXPECT_EQ(trace(), all);
  }
}

TEST_F(Edited, LeavesNoTraceWhenAnyPartOfItFails) {
  const std::vector<std::string> nothing = {"events 0"};
  EXPECT_TRUE(failed_with(publish_edited(file.path, parked, copy, {}, " ", clock), Errc::rejected));
  EXPECT_EQ(trace(), nothing);
  EXPECT_TRUE(
      failed_with(publish_edited(file.path, parked, copy, {.payload_bytes_max = 1}, "why", clock),
                  Errc::rejected));
  EXPECT_EQ(trace(), nothing) << "it is not published";
  application.run(
      "CREATE TRIGGER no BEFORE UPDATE ON dovetail_parked BEGIN SELECT RAISE(ABORT, 'no'); END");
  EXPECT_FALSE(publish_edited(file.path, parked, copy, {}, "why", clock));
  EXPECT_EQ(trace(), nothing) << "it is not discarded";
  application.run("DROP TRIGGER no; UPDATE dovetail_parked SET at_head = 0");
  const auto behind = publish_edited(file.path, parked, copy, {}, "why", clock);
  EXPECT_TRUE(contains(text_of(behind), "waits behind")) << text_of(behind);
  EXPECT_EQ(trace(), nothing);
}

}  // namespace
}  // namespace dovetail::sqlite
