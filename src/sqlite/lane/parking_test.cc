#include "sqlite/lane/parking.h"

#include <algorithm>
#include <ctime>

#include "core/testing/test_clock.h"
#include "sqlite/operate/admin.h"
#include "sqlite/testing/test_file.h"

namespace dovetail::sqlite {
namespace {

using namespace std::chrono_literals;

class ParkedEvents : public ::testing::Test {
 protected:
  void SetUp() override {
    const Status opened = parking.open();
    ASSERT_TRUE(opened) << text_of(opened);
  }
  void park(const Event& event, ParkState state, Duration due_in = 0s, std::uint32_t tried = 0,
            std::string reason = "because") {
    ParkRequest request;
    request.event = &event;
    request.state = state;
    request.attempts = tried;
    request.delay = due_in;
    request.reason = std::move(reason);
    const Status parked = parking.park({&request, 1});
    ASSERT_TRUE(parked) << text_of(parked);
  }
  std::vector<std::int64_t> take(Limits limits = {}) {
    Batch batch;
    attempts.clear();
    const Status taken = parking.take_due(batch, attempts, limits);
    EXPECT_TRUE(taken) << text_of(taken);
    std::vector<std::int64_t> positions;
    for (const Event& event : batch.events()) positions.push_back(event.position);
    EXPECT_EQ(attempts.size(), positions.size());
    return positions;
  }
  std::size_t blocked() {
    std::vector<OrderKey> keys;
    EXPECT_TRUE(parking.blocked_keys(keys, 1000));
    return keys.size();
  }
  using Positions = std::vector<std::int64_t>;

  TestFile file;
  TestClock clock;
  Reader reader{file.path, "relay"};
  SqliteParking parking{reader, clock};
  std::vector<std::uint32_t> attempts;
  Application application{file.path};
};

TEST_F(ParkedEvents, AParkedHeadHoldsBackWhatWaitsBehindIt) {
  park(make_event("a", 1), ParkState::parked);
  park(make_event("a", 2), ParkState::waiting);
  EXPECT_EQ(take(), Positions{});
  EXPECT_EQ(blocked(), 1u);
}

TEST_F(ParkedEvents, DueEventsOfAKeyComeInOrderUpToTheFirstThatIsNotDue) {
  park(make_event("a", 3), ParkState::waiting);
  park(make_event("a", 1), ParkState::waiting, 0s, 4);
  park(make_event("a", 2), ParkState::waiting);
  park(make_event("a", 4), ParkState::waiting, 10s);
  park(make_event("a", 5), ParkState::waiting);
  EXPECT_EQ(take(), (Positions{1, 2, 3}));
  EXPECT_EQ(attempts[0], 4u);
  clock.advance(10s);
  EXPECT_EQ(take(), (Positions{1, 2, 3, 4, 5}));
}

TEST_F(ParkedEvents, OtherKeysAndEventsWithoutKeyDoNotWaitForAParkedOne) {
  park(make_event("a", 1), ParkState::parked);
  park(make_event("b", 2), ParkState::waiting);
  park(make_event("", 3), ParkState::parked);
  park(make_event("", 4), ParkState::waiting);
  Positions taken = take();
  std::sort(taken.begin(), taken.end());
  EXPECT_EQ(taken, (Positions{2, 4}));
  EXPECT_EQ(blocked(), 2u) << "events without a key block nobody";
}

TEST_F(ParkedEvents, DeliveryOfTheHeadLetsTheNextOneGo) {
  const Event head = make_event("a", 1), next = make_event("a", 2);
  park(head, ParkState::waiting);
  park(next, ParkState::waiting);
  EXPECT_EQ(take(Limits{1}), Positions{1});
  ASSERT_TRUE(parking.delivered({&head.id, 1}));
  EXPECT_EQ(take(), Positions{2});
  ASSERT_TRUE(parking.delivered({&next.id, 1}));
  EXPECT_EQ(take(), Positions{});
  EXPECT_EQ(blocked(), 0u);
}

TEST_F(ParkedEvents, TheEventComesBackWhole) {
  Event event = make_event("a", 7, "orders");
  event.headers = R"({"a":"b"})";
  event.payload = std::string_view("\0\xff", 2);
  event.aggregate_version = 3;
  event.created_at = clock.wall();
  park(event, ParkState::waiting);
  Batch batch;
  ASSERT_TRUE(parking.take_due(batch, attempts, {}));
  const Event& back = batch.events()[0];
  EXPECT_EQ(back.id, event.id);
  EXPECT_EQ(back.key_hash, event.key_hash);
  EXPECT_EQ(back.topic, "orders");
  EXPECT_EQ(back.headers, event.headers);
  EXPECT_EQ(back.payload, event.payload);
  EXPECT_EQ(back.aggregate_version, 3);
  EXPECT_EQ(back.created_at, event.created_at);
}

TEST_F(ParkedEvents, ParkingAgainUpdates) {
  const Event event = make_event("a", 1);
  park(event, ParkState::waiting, 0s, 1);
  park(event, ParkState::parked, 0s, 5, std::string("bad\0reason\xff", 11));
  EXPECT_EQ(take(), Positions{});
  EXPECT_EQ(application.text("SELECT state || attempts || reason FROM dovetail_parked"),
            "parked5bad?reason?");
}

TEST_F(ParkedEvents, WhatAnOperatorDiscardedStaysDiscarded) {
  const Event event = make_event("a", 1);
  park(event, ParkState::parked);
  ASSERT_TRUE(discard(file.path, "", event.id, "obsolete", clock));
  park(event, ParkState::parked);
  EXPECT_EQ(application.text("SELECT state FROM dovetail_parked"), "discarded");
  EXPECT_EQ(blocked(), 0u);
}

TEST_F(ParkedEvents, AReplayIsDueWhicheverWayTheClockIsSetAfterwards) {
  std::int64_t position = 0;
  for (const auto by : {1h, -1h, 48h, -48h}) {
    const Event event = make_event("a", ++position);
    park(event, ParkState::parked);
    ASSERT_TRUE(replay_event(file.path, "", event.id, clock));
    clock.set_wall(clock.wall() + by);
    Limits limits;
    limits.pause_max = 10min;
    EXPECT_EQ(take(limits), Positions{position}) << by.count();
    ASSERT_TRUE(parking.delivered({&event.id, 1}));
  }
}

TEST_F(ParkedEvents, LimitsHold) {
  for (int i = 1; i <= 5; ++i) park(make_event("a", i), ParkState::waiting);
  EXPECT_EQ(take(Limits{3}), (Positions{1, 2, 3}));
}

TEST_F(ParkedEvents, ReadersDoNotSeeEachOthers) {
  park(make_event("a", 1), ParkState::waiting);
  Reader other{file.path, "other"};
  SqliteParking others(other, clock);
  ASSERT_TRUE(others.open());
  std::vector<OrderKey> keys;
  ASSERT_TRUE(others.blocked_keys(keys, 1000));
  EXPECT_TRUE(keys.empty());
}

// A hundred thousand events that are not due must not be read at each poll.
TEST_F(ParkedEvents, LookingForDueEventsIsCheapBehindManyThatWait) {
  application.run("BEGIN");
  ASSERT_EQ(
      application.run(
          "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000) "
          "INSERT INTO dovetail_parked (relay, id, position, topic, aggregate_type, aggregate_id, "
          "type, content_type, headers, payload, aggregate_version, created_at, state, at_head, "
          "attempts, reason, parked_at, retry_at) SELECT 'relay', randomblob(16), i, '', 'order', "
          "'k' || (i % 50000), 'placed', 'text', '', '{}', 0, 0, iif(i <= 50000, 'parked', "
          "'waiting'), "
          "i <= 50000, 0, '', 0, 0 FROM n"),
      SQLITE_OK)
      << sqlite3_errmsg(application.connection);
  application.run("COMMIT");
  park(make_event("due", 200'000), ParkState::waiting);
  const std::clock_t before = std::clock();  // CPU time, so a busy machine does not matter
  for (int i = 0; i < 100; ++i) ASSERT_EQ(take(), Positions{200'000});
  EXPECT_LT(std::clock() - before, 2 * CLOCKS_PER_SEC);
}

TEST_F(ParkedEvents, TwoEventsUnderOneIdAreBothKept) {
  Event first = make_event("a", 1);
  Event second = first;
  second.position = 2;
  second.payload = "[]";
  park(first, ParkState::waiting);
  park(second, ParkState::waiting);
  park(second, ParkState::waiting);
  const Result<std::vector<ParkedRow>> rows = list_parked(file.path, {});
  ASSERT_TRUE(rows) << text_of(rows);
  ASSERT_EQ(rows->size(), 2u);
  EXPECT_EQ((*rows)[1].state, EventState::parked);
  EXPECT_TRUE(contains((*rows)[1].reason, "used twice")) << (*rows)[1].reason;
  EXPECT_TRUE(contains((*rows)[1].reason, first.id.to_string())) << (*rows)[1].reason;
  EXPECT_EQ(take(), Positions{1});
  ASSERT_TRUE(parking.delivered({&first.id, 1}));
  EXPECT_EQ(blocked(), 1u);
}

TEST_F(ParkedEvents, EventUnderTheIdOfADeliveredOneIsKeptAsItIs) {
  Event first = make_event("a", 1);
  park(first, ParkState::waiting);
  ASSERT_TRUE(parking.delivered({&first.id, 1}));
  Event second = first;
  second.position = 7;
  second.payload = "[]";
  park(second, ParkState::waiting);
  Batch batch;
  ASSERT_TRUE(parking.take_due(batch, attempts, {}));
  ASSERT_EQ(batch.size(), 1u);
  EXPECT_EQ(batch.events()[0].payload, "[]");
  EXPECT_EQ(batch.events()[0].position, 7);
}

}  // namespace
}  // namespace dovetail::sqlite
