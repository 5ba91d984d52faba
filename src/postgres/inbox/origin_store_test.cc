#include "postgres/inbox/origin_store.h"

#include "host/host.h"
#include "postgres/lane/lease.h"
#include "postgres/lane/parking.h"
#include "postgres/operate/admin.h"
#include "postgres/schema/schema.h"
#include "postgres/testing/test_database.h"

namespace dovetail::postgres {
namespace {

using namespace std::chrono_literals;

class PostgresBrokerReader : public ::testing::Test {
 protected:
  PostgresBrokerReader() {
    const Status made = create_schema(application);
    EXPECT_TRUE(made) << text_of(made);
  }

  TestDatabase database;
  Connection application = database.connect();
  Reader reader = broker_reader(database.conninfo, "booking");
  BrokerProgress progress{reader};
  PostgresLease lease{reader, system_clock(), "here", 10s};
};

TEST_F(PostgresBrokerReader, WhatWasSettledIsCountedAndShown) {
  ASSERT_TRUE(lease.acquire());
  ASSERT_TRUE(progress.open());
  progress.add(5, 1, 0);
  progress.add(2, 0, 0);
  ASSERT_TRUE(progress.write());
  ASSERT_TRUE(progress.write()) << "nothing is counted twice";
  must(application, "SELECT dovetail.publish('order', '1', 'placed', '{}'::jsonb)");
  const Result<StoreStatus> seen = status(database.conninfo);
  ASSERT_TRUE(seen) << text_of(seen);
  ASSERT_EQ(seen->lanes.size(), 1U);
  EXPECT_EQ(seen->lanes[0].relay, "booking");
  EXPECT_EQ(seen->lanes[0].source, SourceKind::broker);
  EXPECT_EQ(seen->lanes[0].delivered_total, 6U);
  EXPECT_EQ(seen->lanes[0].parked_total, 1U);
  EXPECT_EQ(seen->lanes[0].pending, 0U) << "it does not read the outbox";
}

TEST_F(PostgresBrokerReader, OneWhoLostTheLaneCountsNothing) {
  ASSERT_TRUE(lease.acquire());
  ASSERT_TRUE(progress.open());
  must(application, "UPDATE dovetail.relay_lane SET epoch = epoch + 1");
  progress.add(1, 0, 0);
  EXPECT_TRUE(failed_with(progress.write(), Errc::stopped));
  EXPECT_EQ(number(application, "SELECT delivered_total FROM dovetail.relay_lane"), 0);
}

TEST_F(PostgresBrokerReader, CountsThatCouldNotBeWrittenAreWrittenLater) {
  ASSERT_TRUE(lease.acquire());
  ASSERT_TRUE(progress.open());
  progress.add(3, 0, 0);
  must(application,
       "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = "
       "current_database() AND pid <> pg_backend_pid()");
  EXPECT_FALSE(progress.write());
  ASSERT_TRUE(progress.write());
  EXPECT_EQ(number(application, "SELECT delivered_total FROM dovetail.relay_lane"), 3);
}

TEST_F(PostgresBrokerReader, ANameBelongsToWhatItReadFirst) {
  ASSERT_TRUE(progress.open());
  const auto outbox = ensure_relay(application, {.relay = "booking"});
  EXPECT_TRUE(failed_with(outbox, Errc::rejected));
  EXPECT_TRUE(contains(text_of(outbox), "a broker, not the outbox")) << text_of(outbox);
  EXPECT_TRUE(
      failed_with(ensure_relay(application, {.relay = "booking", .source = SourceKind::mapped}),
                  Errc::rejected));
  ASSERT_TRUE(ensure_relay(application, {.relay = "relay", .lanes = 2}));
  Reader other = broker_reader(database.conninfo, "relay");
  EXPECT_TRUE(failed_with(connect(other), Errc::rejected));
}

TEST_F(PostgresBrokerReader, AFirstStartFixesTheTargetAndTheFilterMayChange) {
  const auto row = [&] {
    return text(application,
                "SELECT DISTINCT target || ' ' || lanes || ' ' || coalesce(filter::text, '') FROM "
                "dovetail.relay_lane");
  };
  const Carried some{.filter = "{\"types\": [\"a\"]}"};
  ASSERT_TRUE(ensure_relay(application, {.relay = "r", .lanes = 2}, &some));
  EXPECT_EQ(row(), " 2 {\"types\": [\"a\"]}");
  ASSERT_EQ(ensure_relay(application, {.relay = "r", .lanes = 4, .target = "one"}).value_or(0), 2U)
      << "it keeps the number of its first start";
  EXPECT_EQ(row(), "one 2 {\"types\": [\"a\"]}") << "nothing was said of the filter";
  EXPECT_TRUE(
      failed_with(ensure_relay(application, {.relay = "r", .target = "two"}), Errc::rejected));
  const Carried all{};
  ASSERT_TRUE(ensure_relay(application, {.relay = "r", .target = "one"}, &all));
  EXPECT_EQ(row(), "one 2 ");
  EXPECT_TRUE(
      failed_with(ensure_relay(application, {.relay = "r2", .lanes = 257}), Errc::rejected));
}

TEST_F(PostgresBrokerReader, WhatAnOperatorDiscardedStaysSoWhenTheBrokerBringsItAgain) {
  ASSERT_TRUE(lease.acquire());
  PostgresParking parking(reader);
  ASSERT_TRUE(parking.open());
  Event event;
  event.id = new_event_id();
  event.aggregate_type = "order";
  event.aggregate_id = "1";
  event.type = "placed";
  event.payload = "x";
  const ParkRequest requests[] = {{.event = &event, .attempts = 5, .reason = "no"}};
  ASSERT_TRUE(parking.park(requests));
  ASSERT_TRUE(discard(database.conninfo, "booking", event.id, "test"));
  must(application, "UPDATE dovetail.parked SET finished_at = finished_at - interval '1 hour'");
  ASSERT_TRUE(parking.park(requests));
  EXPECT_EQ(text(application, "SELECT state FROM dovetail.parked"), "discarded");
}

TEST_F(PostgresBrokerReader, KnowsTheGreatestPositionOfWhatIsParked) {
  PostgresOriginStore home(database.conninfo, "booking", "", 10s, system_clock());
  ASSERT_TRUE(home.lease().acquire());
  ASSERT_TRUE(home.open());
  EXPECT_EQ(home.last_parked().value_or(-1), 0);
  ASSERT_TRUE(home.parking().open());
  Event last;
  last.id = new_event_id();
  last.position = 2'000'000'000'000'000;
  last.aggregate_type = "order";
  last.aggregate_id = "1";
  last.type = "placed";
  Event other = last;
  other.id = new_event_id();
  other.position = 7;
  const ParkRequest requests[] = {{.event = &last, .reason = "no"},
                                  {.event = &other, .reason = "no"}};
  ASSERT_TRUE(home.parking().park(requests));
  EXPECT_EQ(home.last_parked().value_or(-1), last.position);
  ASSERT_TRUE(home.parking().delivered({&last.id, 1}));
  EXPECT_EQ(home.last_parked().value_or(-1), other.position);
}

}  // namespace
}  // namespace dovetail::postgres
