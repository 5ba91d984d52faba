#include "postgres/lane/lease.h"

#include "core/testing/test_clock.h"
#include "host/test_processes.h"
#include "postgres/lane/parking.h"
#include "postgres/schema/schema.h"
#include "postgres/testing/test_database.h"

namespace dovetail::postgres {
namespace {

using namespace std::chrono_literals;

class PostgresLeaseTest : public testing::Test {
 protected:
  PostgresLeaseTest() : connection_(database_.connect()) {
    EXPECT_TRUE(create_schema(connection_));
  }
  Reader reader(std::uint32_t lane = 0, std::uint32_t lanes = 1) const {
    Reader reader;
    reader.conninfo = database_.conninfo;
    reader.relay = "test";
    reader.lane = lane;
    reader.lanes = lanes;
    return reader;
  }

  TestDatabase database_;
  Connection connection_;
  TestClock clock_;
};

TEST_F(PostgresLeaseTest, ItEndsForUsBeforeItEndsForANewcomerByTheDatabasesClock) {
  Reader first = reader();
  Reader second = reader();
  PostgresLease ours(first, clock_, "ours", 10s);
  PostgresLease theirs(second, clock_, "theirs", 10s);
  const TimePoint before = clock_.now();
  ASSERT_TRUE(ours.acquire());
  EXPECT_EQ(ours.deadline(), before + 9s) << "a tenth of the term before it ends for others";
  clock_.advance(60s);
  must(connection_, "UPDATE dovetail.relay_lane SET expires = clock_timestamp()");
  EXPECT_TRUE(theirs.acquire());
  EXPECT_TRUE(failed_with(ours.renew(), Errc::stopped));
}

// As if the database's clock were set by so much: the clock itself cannot be moved, but the times
// that it is compared with can.
void step(Connection& connection, std::chrono::hours by) {
  must(connection, "UPDATE dovetail.relay_lane SET expires = expires - interval '" +
                       std::to_string(by.count()) + " hours'");
}

TEST_F(PostgresLeaseTest, OfASilentHolderItIsTakenAfterItsTermThoughTheClockWasSetBack) {
  for (const auto back : {-1h, -48h}) {
    Reader first = reader();
    Reader second = reader();
    PostgresLease theirs(first, clock_, "theirs", 10s);
    PostgresLease ours(second, clock_, "ours", 10s);
    ASSERT_TRUE(theirs.acquire());
    step(connection_, back);
    const Status refused = ours.acquire();
    EXPECT_TRUE(failed_with(refused, Errc::unavailable)) << text_of(refused);
    EXPECT_TRUE(contains(text_of(refused), "for another 11 s")) << text_of(refused);
    clock_.advance(10s);
    EXPECT_FALSE(ours.acquire());
    clock_.advance(1s);
    EXPECT_TRUE(ours.acquire());
    EXPECT_TRUE(failed_with(theirs.renew(), Errc::stopped));
    ASSERT_TRUE(ours.release());
  }
}

TEST_F(PostgresLeaseTest, AHolderThatRenewsKeepsItWhicheverWayTheClockIsSet) {
  Reader first = reader();
  Reader second = reader();
  PostgresLease theirs(first, clock_, "theirs", 10s);
  PostgresLease ours(second, clock_, "ours", 10s);
  ASSERT_TRUE(theirs.acquire());
  EXPECT_FALSE(ours.acquire());
  for (const auto by : {1h, -1h, 48h, -48h}) {
    clock_.advance(5s);
    ASSERT_TRUE(theirs.renew());
    EXPECT_FALSE(ours.acquire());
    step(connection_, by);
    EXPECT_FALSE(ours.acquire());
    clock_.advance(4s);
    EXPECT_FALSE(ours.acquire());
    ASSERT_TRUE(theirs.renew());
  }
  EXPECT_FALSE(ours.acquire());
  clock_.advance(11s);
  EXPECT_TRUE(ours.acquire());
}

TEST_F(PostgresLeaseTest, ASilentHolderIsSilentWhateverTheSettingsOfOurSession) {
  Reader first = reader();
  Reader second = reader();
  PostgresLease theirs(first, clock_, "theirs", 10s);
  PostgresLease ours(second, clock_, "ours", 10s);
  ASSERT_TRUE(theirs.acquire());
  step(connection_, -48h);
  EXPECT_FALSE(ours.acquire());
  must(second.connection, "SET TimeZone = 'Asia/Tokyo'");
  clock_.advance(6s);
  EXPECT_FALSE(ours.acquire());
  must(second.connection, "SET DateStyle = 'German'");
  clock_.advance(5s);
  EXPECT_TRUE(ours.acquire());
}

TEST_F(PostgresLeaseTest, TheTermOfTheHolderCounts) {
  Reader first = reader();
  Reader second = reader();
  PostgresLease theirs(first, clock_, "theirs", 60s);
  PostgresLease ours(second, clock_, "ours", 10s);
  ASSERT_TRUE(theirs.acquire());
  step(connection_, -48h);
  EXPECT_FALSE(ours.acquire());
  clock_.advance(65s);
  EXPECT_FALSE(ours.acquire());
  clock_.advance(1s);
  EXPECT_TRUE(ours.acquire());
}

// A clock that moves while the server works on an answer.
class SlowAnswer final : public Clock {
 public:
  TimePoint now() override { return time_ += 1s; }
  WallTime wall() override { return {}; }
  void sleep(Duration, std::stop_token) override {}

 private:
  TimePoint time_{1h};
};

TEST_F(PostgresLeaseTest, TheTermCountsFromBeforeItWasAskedFor) {
  Reader first = reader();
  SlowAnswer clock;
  PostgresLease lease(first, clock, "ours", 10s);
  ASSERT_TRUE(lease.acquire());
  EXPECT_EQ(lease.deadline(), TimePoint{1h} + 2s + 9s)
      << "the first look at the clock was after the row was read, the second before it was taken";
}

TEST_F(PostgresLeaseTest, OfAProcessThatIsProvablyGoneIsNotWaitedFor) {
  Reader first = reader();
  Reader second = reader();
  PostgresLease ours(first, clock_, "ours", 10s);
  PostgresLease theirs(second, clock_, "theirs", 10s);
  ASSERT_TRUE(theirs.acquire());
  const auto held_by = [&](const ProcessIdentity& owner) {
    must(connection_, "UPDATE dovetail.relay_lane SET owner = '" + owner_text(owner) + "'");
  };
  const ProcessIdentity dead = dead_process();
  ProcessIdentity elsewhere = dead;
  elsewhere.namespaces = "pid:[1]";
  held_by(elsewhere);
  const Status refused = ours.acquire();
  EXPECT_TRUE(failed_with(refused, Errc::unavailable)) << text_of(refused);
  EXPECT_TRUE(contains(text_of(refused), "is held by dead:")) << text_of(refused);
  EXPECT_FALSE(contains(text_of(refused), "@")) << "only what is for people: " << text_of(refused);
  held_by(dead);
  EXPECT_TRUE(ours.acquire());
  EXPECT_TRUE(failed_with(theirs.renew(), Errc::stopped));
}

TEST_F(PostgresLeaseTest, WhoHasReleasedItOrNeverHadItWritesNothing) {
  Reader first = reader();
  Reader second = reader();
  PostgresLease ours(first, clock_, "ours", 10s);
  PostgresLease theirs(second, clock_, "theirs", 10s);
  PostgresParking parking(first);
  ASSERT_TRUE(ours.acquire());
  ASSERT_TRUE(parking.open());
  const EventId id{};
  EXPECT_TRUE(parking.delivered({&id, 1}));
  ASSERT_TRUE(ours.release());
  EXPECT_TRUE(failed_with(parking.delivered({&id, 1}), Errc::stopped));
  ASSERT_TRUE(theirs.acquire());
  EXPECT_FALSE(ours.acquire());
  EXPECT_TRUE(failed_with(parking.delivered({&id, 1}), Errc::stopped));
}

TEST_F(PostgresLeaseTest, LanesAreIndependent) {
  Reader first = reader(0, 2);
  Reader second = reader(1, 2);
  PostgresLease one(first, clock_, "a", 10s);
  PostgresLease two(second, clock_, "b", 10s);
  EXPECT_TRUE(one.acquire());
  EXPECT_TRUE(two.acquire());
}

TEST_F(PostgresLeaseTest, TheNumberOfLanesIsFixedAtTheFirstStart) {
  Reader first = reader(0, 2);
  ASSERT_TRUE(connect(first));
  Reader second = reader(0, 3);
  const Status refused = connect(second);
  EXPECT_TRUE(failed_with(refused, Errc::rejected));
  EXPECT_TRUE(contains(text_of(refused), "2 lanes")) << text_of(refused);
}

TEST_F(PostgresLeaseTest, EverySlotBelongsToExactlyOneLane) {
  for (const std::uint32_t lanes : {1U, 2U, 3U, 7U, 100U, 255U, 256U}) {
    std::int32_t next = 0;
    for (std::uint32_t lane = 0; lane < lanes; ++lane) {
      const Reader one = reader(lane, lanes);
      EXPECT_EQ(one.first_bucket(), next);
      next = one.last_bucket() + 1;
      // As the view computes it.
      EXPECT_EQ(one.first_bucket() * static_cast<std::int32_t>(lanes) / 256,
                static_cast<std::int32_t>(lane));
      EXPECT_EQ(one.last_bucket() * static_cast<std::int32_t>(lanes) / 256,
                static_cast<std::int32_t>(lane));
    }
    EXPECT_EQ(next, 256);
  }
}

TEST_F(PostgresLeaseTest, AMissingSchemaIsSaid) {
  must(connection_, "DROP SCHEMA dovetail CASCADE");
  Reader one = reader();
  PostgresLease lease(one, clock_, "ours", 10s);
  EXPECT_TRUE(failed_with(lease.acquire(), Errc::rejected));
}

}  // namespace
}  // namespace dovetail::postgres
