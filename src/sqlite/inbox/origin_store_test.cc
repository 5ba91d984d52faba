#include "sqlite/inbox/origin_store.h"

#include "core/testing/test_clock.h"
#include "sqlite/lane/lease.h"
#include "sqlite/lane/parking.h"
#include "sqlite/outbox/source.h"
#include "sqlite/testing/test_file.h"

namespace dovetail::sqlite {
namespace {

using namespace std::chrono_literals;

class SqliteBrokerReader : public ::testing::Test {
 protected:
  SqliteBrokerReader() { clock.set_wall(system_clock().wall()); }
  RelayStatus seen() {
    const auto found = status(file.path, clock);
    EXPECT_TRUE(found) << text_of(found);
    if (!found || found->relays.empty()) return {};
    return found->relays.front();
  }

  TestFile file;
  TestClock clock;
  Application application{file.path};
  Reader reader{file.path, "from-broker", SourceKind::broker};
};

TEST_F(SqliteBrokerReader, ShowsItsTotalsAndItsOwnerAndNothingPending) {
  application.publish_one("k");
  application.run(
      "INSERT INTO dovetail_mailbox SELECT seq, id, topic, aggregate_type, aggregate_id, type, "
      "content_type, headers, payload, aggregate_version, created_at, 0 FROM dovetail_outbox");
  ASSERT_EQ(application.number("SELECT count(*) FROM dovetail_mailbox"), 1);
  SqliteLease lease(reader, clock, "host:1", boot_id());
  ASSERT_TRUE(lease.acquire());
  BrokerProgress progress(reader, clock);
  ASSERT_TRUE(progress.open());
  progress.add(6, 2, 1);
  const Status written = progress.write();
  ASSERT_TRUE(written) << text_of(written);
  progress.add(1, 0, 0);
  ASSERT_TRUE(progress.write());
  EXPECT_EQ(seen().name, "from-broker");
  EXPECT_EQ(seen().source, SourceKind::broker);
  EXPECT_EQ(seen().delivered_total, 4u);
  EXPECT_EQ(seen().parked_total, 2u);
  EXPECT_EQ(seen().pending, 0u) << "what waits in the file is not for it";
  EXPECT_EQ(seen().oldest_age, Duration{0});
  EXPECT_TRUE(contains(seen().owner, "host:1")) << seen().owner;
}

TEST_F(SqliteBrokerReader, CountsNothingForAnOwnerThatLostTheLane) {
  SqliteLease lease(reader, clock, "host:1", boot_id());
  ASSERT_TRUE(lease.acquire());
  BrokerProgress progress(reader, clock);
  ASSERT_TRUE(progress.open());
  progress.add(5, 0, 0);
  application.run("UPDATE dovetail_relay SET epoch = epoch + 1");
  EXPECT_TRUE(failed_with(progress.write(), Errc::stopped));
  EXPECT_EQ(seen().delivered_total, 0u);
}

TEST_F(SqliteBrokerReader, ParksInTheStoreThatItFills) {
  SqliteParking parking(reader, clock);
  ASSERT_TRUE(parking.open());
  const Event event = make_event("a", 1);
  ParkRequest request;
  request.event = &event;
  request.reason = "no such topic";
  ASSERT_TRUE(parking.park({&request, 1}));
  EXPECT_EQ(seen().parked, 1u);
  ParkedFilter filter;
  filter.relay = "from-broker";
  const auto rows = list_parked(file.path, filter);
  ASSERT_TRUE(rows) << text_of(rows);
  EXPECT_EQ(rows->size(), 1u);
  EventFilter one;
  one.source = SourceKind::broker;
  one.id = event.id.to_string();
  const auto found = list_events(file.path, one);
  ASSERT_TRUE(found) << text_of(found);
  ASSERT_EQ(found->size(), 1u);
  EXPECT_EQ(found->front().relay, "from-broker");
  EXPECT_EQ(found->front().state, EventState::parked);
  EXPECT_EQ(found->front().payload_bytes, 2u);
  const auto replayed = replay_event(file.path, "from-broker", event.id, clock);
  EXPECT_TRUE(replayed) << text_of(replayed);
  const Status given_up = discard(file.path, "from-broker", event.id, "of no use", clock);
  EXPECT_TRUE(given_up) << text_of(given_up);
}

TEST_F(SqliteBrokerReader, KnowsTheGreatestPositionOfWhatIsParked) {
  BrokerProgress progress(reader, clock);
  ASSERT_TRUE(progress.open());
  EXPECT_EQ(progress.last_parked().value_or(-1), 0);
  SqliteParking parking(reader, clock);
  ASSERT_TRUE(parking.open());
  const Event event = make_event("a", 2'000'000'000'000'000), other = make_event("b", 7);
  const ParkRequest requests[] = {{&event, ParkState::parked, 1, {}, "refused"},
                                  {&other, ParkState::parked, 1, {}, "refused"}};
  ASSERT_TRUE(parking.park(requests));
  EXPECT_EQ(progress.last_parked().value_or(-1), 2'000'000'000'000'000);
  ASSERT_TRUE(parking.delivered({&event.id, 1}));
  EXPECT_EQ(progress.last_parked().value_or(-1), 7);
}

TEST_F(SqliteBrokerReader, HoldsNothingBackFromPruning) {
  BrokerProgress progress(reader, clock);
  ASSERT_TRUE(progress.open());
  application.publish_one("k");
  Reader relay{file.path, "relay"};
  SqliteSource source(relay, clock);
  ASSERT_TRUE(source.open());
  Batch batch;
  ASSERT_TRUE(source.read(batch, Limits{}, {}));
  ASSERT_TRUE(source.settle(batch, std::vector<Settled>(batch.size(), Settled::delivered)));
  ASSERT_TRUE(source.flush());
  clock.set_wall(clock.wall() + 1h);
  PruneOptions options;
  options.events_older_than = 1s;
  const auto pruned = prune(file.path, options, clock);
  ASSERT_TRUE(pruned) << text_of(pruned);
  EXPECT_EQ(pruned->outbox, 1u);
}

TEST_F(SqliteBrokerReader, MayNotHaveTheNameOfAnotherReader) {
  application.run("INSERT INTO dovetail_relay (relay, source) VALUES ('from-broker', 'mailbox')");
  BrokerProgress progress(reader, clock);
  const Status opened = progress.open();
  EXPECT_TRUE(failed_with(opened, Errc::rejected)) << text_of(opened);
  EXPECT_TRUE(contains(text_of(opened), "give it another name")) << text_of(opened);
}

}  // namespace
}  // namespace dovetail::sqlite
