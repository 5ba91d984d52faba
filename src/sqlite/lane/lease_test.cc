#include "sqlite/lane/lease.h"

#include "core/testing/test_clock.h"
#include "host/test_processes.h"
#include "sqlite/lane/parking.h"
#include "sqlite/operate/admin.h"
#include "sqlite/testing/test_file.h"

namespace dovetail::sqlite {
namespace {

using namespace std::chrono_literals;

class ReaderLease : public ::testing::Test {
 protected:
  TestFile file;
  TestClock clock;
  Reader one{file.path, "relay"};
  Reader two{file.path, "relay"};
  SqliteLease first{one, clock, "first", "boot", 10s};
  SqliteLease second{two, clock, "second", "boot", 10s};
};

TEST_F(ReaderLease, IsHeldByOneAndTheOtherIsToldByWhom) {
  ASSERT_TRUE(first.acquire());
  const Status refused = second.acquire();
  EXPECT_TRUE(failed_with(refused, Errc::unavailable)) << text_of(refused);
  EXPECT_TRUE(contains(text_of(refused), "first#")) << text_of(refused);
  EXPECT_TRUE(contains(text_of(refused), "10 s")) << text_of(refused);
}

TEST_F(ReaderLease, TheEpochRisesAtEveryAcquisitionAlsoByTheSameOwner) {
  ASSERT_TRUE(first.acquire());
  EXPECT_EQ(one.epoch, 1);
  ASSERT_TRUE(first.acquire());
  EXPECT_EQ(one.epoch, 2);
  ASSERT_TRUE(first.release());
  ASSERT_TRUE(second.acquire());
  EXPECT_EQ(two.epoch, 3);
}

TEST_F(ReaderLease, AnOrderIsSeenWithTheRenewalAndThenNobodyMayTakeIt) {
  ASSERT_TRUE(first.acquire());
  ASSERT_TRUE(write_hold(file.path, "relay", Hold::paused, "the disk fills up", clock));
  EXPECT_EQ(first.hold(), Hold::none) << "not before it asks";
  ASSERT_TRUE(first.renew());
  EXPECT_EQ(first.hold(), Hold::paused);
  ASSERT_TRUE(first.release());
  const Status refused = second.acquire();
  EXPECT_TRUE(failed_with(refused, Errc::unavailable)) << text_of(refused);
  EXPECT_TRUE(contains(text_of(refused), "the disk fills up")) << text_of(refused);
  EXPECT_EQ(second.hold(), Hold::paused);

  ASSERT_TRUE(write_hold(file.path, "relay", Hold::draining, "empty it", clock));
  ASSERT_TRUE(second.acquire());
  EXPECT_EQ(second.hold(), Hold::draining);
  ASSERT_TRUE(second.release()) << "it stopped before it was done";
  ASSERT_TRUE(first.acquire());
  ASSERT_TRUE(first.release_drained());
  EXPECT_FALSE(second.acquire());
  EXPECT_EQ(second.hold(), Hold::drained);

  ASSERT_TRUE(write_hold(file.path, "relay", Hold::none, "it is well", clock));
  ASSERT_TRUE(second.acquire());
  EXPECT_EQ(second.hold(), Hold::none);
  ASSERT_TRUE(second.release_drained());
  EXPECT_TRUE(first.acquire()) << "nobody ordered it to drain any more";
}

TEST_F(ReaderLease, ALongLeaseIsRenewedOftenEnoughToHearAnOrder) {
  SqliteLease slow{one, clock, "slow", "boot", 10min};
  ASSERT_TRUE(slow.acquire());
  EXPECT_LE(slow.renew_at(), clock.now() + 5s);
}

TEST_F(ReaderLease, IsFreeAfterItsTermAndNotBefore) {
  ASSERT_TRUE(first.acquire());
  clock.advance(9999ms);
  EXPECT_FALSE(second.acquire());
  clock.advance(1ms);
  EXPECT_TRUE(second.acquire());
}

TEST_F(ReaderLease, ARenewalExtendsIt) {
  ASSERT_TRUE(first.acquire());
  clock.advance(5s);
  ASSERT_TRUE(first.renew());
  clock.advance(9s);
  EXPECT_FALSE(second.acquire());
}

TEST_F(ReaderLease, StepsOfTheWallClockChangeNothing) {
  for (const auto by : {1h, -1h, 48h, -48h}) {
    ASSERT_TRUE(first.acquire());
    clock.set_wall(clock.wall() + by);
    EXPECT_FALSE(second.acquire()) << "it is held for its term";
    clock.advance(5s);
    ASSERT_TRUE(first.renew());
    clock.advance(9s);
    EXPECT_FALSE(second.acquire());
    clock.advance(1s);
    EXPECT_TRUE(second.acquire()) << "and no longer";
    EXPECT_FALSE(first.renew());
    ASSERT_TRUE(second.release());
  }
}

TEST_F(ReaderLease, ALeaseOfAnotherBootIsDead) {
  ASSERT_TRUE(first.acquire());
  SqliteLease rebooted(two, clock, "second", "another boot", 10s);
  EXPECT_TRUE(rebooted.acquire());
}

TEST_F(ReaderLease, TheDeadlineComesBeforeTheLeaseRunsOut) {
  const TimePoint asked = clock.now();
  ASSERT_TRUE(first.acquire());
  EXPECT_LT(first.deadline(), asked + 10s);
  EXPECT_GT(first.deadline(), asked + 5s);
  EXPECT_GT(first.renew_at(), asked);
  EXPECT_LT(first.renew_at(), asked + 4s);
}

TEST_F(ReaderLease, AStaleOwnersRenewalParkingAndDeliveryAreAllRefused) {
  ASSERT_TRUE(first.acquire());
  SqliteParking parking(one, clock);
  ASSERT_TRUE(parking.open());
  clock.advance(11s);
  ASSERT_TRUE(second.acquire());

  EXPECT_TRUE(failed_with(first.renew(), Errc::stopped));
  const Event event = make_event("k", 1);
  ParkRequest request;
  request.event = &event;
  EXPECT_TRUE(failed_with(parking.park({&request, 1}), Errc::stopped));
  EXPECT_TRUE(failed_with(parking.delivered({&event.id, 1}), Errc::stopped));
  EXPECT_EQ(Application(file.path).number("SELECT count(*) FROM dovetail_parked"), 0);
}

TEST_F(ReaderLease, OfAProcessThatIsProvablyGoneIsNotWaitedFor) {
  ASSERT_TRUE(first.acquire());
  ProcessIdentity dead = dead_process();
  const auto held_by = [&](const ProcessIdentity& owner) {
    Application(file.path).run("UPDATE dovetail_relay SET owner = '" + owner_text(owner) + "'");
  };
  ProcessIdentity elsewhere = dead;
  elsewhere.namespaces = "pid:[1]";
  held_by(elsewhere);
  const Status refused = second.acquire();
  EXPECT_TRUE(failed_with(refused, Errc::unavailable)) << text_of(refused);
  EXPECT_TRUE(contains(text_of(refused), "dead:")) << text_of(refused);
  EXPECT_FALSE(contains(text_of(refused), "@")) << "only what is for people: " << text_of(refused);
  ProcessIdentity rebooted = dead;
  rebooted.boot = "another boot";
  held_by(rebooted);
  EXPECT_FALSE(second.acquire());
  held_by(dead);
  EXPECT_TRUE(second.acquire());
  EXPECT_FALSE(first.renew()) << "its epoch is over";
}

TEST_F(ReaderLease, WhoHasReleasedItOrNeverHadItWritesNothing) {
  SqliteParking parking(one, clock);
  ASSERT_TRUE(first.acquire());
  ASSERT_TRUE(parking.open());
  ASSERT_TRUE(first.release());
  const Event event = make_event("k", 1);
  ParkRequest request;
  request.event = &event;
  EXPECT_TRUE(failed_with(parking.park({&request, 1}), Errc::stopped));
  ASSERT_TRUE(second.acquire());
  EXPECT_FALSE(first.acquire());
  EXPECT_TRUE(failed_with(parking.park({&request, 1}), Errc::stopped));
}

TEST_F(ReaderLease, AStaleOwnersReleaseLeavesTheNewOwnerAlone) {
  ASSERT_TRUE(first.acquire());
  clock.advance(11s);
  ASSERT_TRUE(second.acquire());
  EXPECT_TRUE(first.release());
  EXPECT_TRUE(second.renew());
  EXPECT_FALSE(first.acquire());
}

}  // namespace
}  // namespace dovetail::sqlite
