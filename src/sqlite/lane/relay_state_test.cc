#include "sqlite/lane/relay_state.h"

#include "core/testing/test_clock.h"
#include "kit/ids.h"
#include "sqlite/lane/lease.h"
#include "sqlite/lane/parking.h"
#include "sqlite/operate/admin.h"
#include "sqlite/testing/test_file.h"

namespace dovetail::sqlite {
namespace {

using namespace std::chrono_literals;
using Kind = RelayState::Kind;

class RelayStates : public ::testing::Test {
 protected:
  RelayStates() { clock.set_wall(system_clock().wall()); }
  Status say(Kind kind, std::int64_t epoch, const std::string& error = "refused") {
    return state_writer(reader, clock)({{kind, 3s, error, 5s}, epoch, clock.now()});
  }
  RelayStatus row() {
    const Result<StoreStatus> seen = status(file.path, clock);
    EXPECT_TRUE(seen) << text_of(seen);
    EXPECT_EQ(seen->relays.size(), 1u);
    return seen->relays.at(0);
  }

  TestFile file;
  TestClock clock;
  Application application{file.path};
  Reader reader{file.path, "relay"};
};

TEST_F(RelayStates, AreTrueWhileTheLeaseOfTheirEpochHolds) {
  SqliteLease lease(reader, clock, process_label(), boot_id());
  ASSERT_TRUE(lease.acquire());
  const Status said = say(Kind::backing_off, reader.epoch, "redis://:hush@h refused");
  ASSERT_TRUE(said) << text_of(said);
  ASSERT_TRUE(row().said);
  EXPECT_TRUE(row().said->is_current);
  EXPECT_EQ(row().said->state, "backing_off");
  EXPECT_EQ(row().said->last_error, "redis://:***@h refused");
  EXPECT_EQ(*row().said->next_try - row().said->since, 8s);
  clock.advance(1h);
  EXPECT_FALSE(row().said->is_current) << "the lease has run out";
}

TEST_F(RelayStates, OfAnotherThanTheOwnerAreNotWritten) {
  SqliteLease lease(reader, clock, "host:1", boot_id());
  ASSERT_TRUE(lease.acquire());
  ASSERT_TRUE(say(Kind::delivering, reader.epoch, ""));
  ASSERT_TRUE(say(Kind::halted, reader.epoch + 1));
  ASSERT_TRUE(say(Kind::halted, -1));
  EXPECT_EQ(row().said->state, "delivering");
}

TEST_F(RelayStates, OfAProcessWithoutALeaseHoldUntilItFallsSilent) {
  SqliteLease lease(reader, clock, "host:1", boot_id());
  ASSERT_TRUE(lease.acquire());
  ASSERT_TRUE(lease.release());
  ASSERT_TRUE(say(Kind::halted, -1));
  EXPECT_TRUE(row().said->is_current);
  clock.advance(kStateHolds + 5s);
  EXPECT_FALSE(row().said->is_current);
}

TEST_F(RelayStates, EventsOutOfParkingCountAsDelivered) {
  SqliteParking parking(reader, clock);
  ASSERT_TRUE(parking.open());
  const Event event = make_event("x", 1);
  ParkRequest request;
  request.event = &event;
  request.state = ParkState::waiting;
  const ParkRequest requests[] = {request};
  ASSERT_TRUE(parking.park(requests));
  const EventId ids[] = {event.id};
  ASSERT_TRUE(parking.delivered(ids));
  ASSERT_TRUE(parking.delivered(ids)) << "said twice, counted once";
  EXPECT_EQ(row().replayed_total, 1u);
}

TEST_F(RelayStates, ARelayIsBoundToItsTarget) {
  reader.target = "kafka a:9092";
  SqliteLease lease(reader, clock, "host:1", boot_id());
  ASSERT_TRUE(lease.acquire());
  Reader other{file.path, "relay"};
  other.target = "kafka b:9092";
  SqliteLease others(other, clock, "host:2", boot_id());
  const Status refused = others.acquire();
  EXPECT_TRUE(failed_with(refused, Errc::rejected));
  EXPECT_TRUE(contains(refused.error().text, "dovetail relay retarget relay"));

  EXPECT_FALSE(retarget(file.path, "relay", other.target, "moved", clock)) << "it runs";
  ASSERT_TRUE(lease.release());
  const Result<std::string> before = retarget(file.path, "relay", other.target, "moved", clock);
  ASSERT_TRUE(before) << text_of(before);
  EXPECT_EQ(*before, "kafka a:9092");
  EXPECT_TRUE(failed_with(lease.acquire(), Errc::rejected));
  EXPECT_TRUE(others.acquire());
  EXPECT_TRUE(failed_with(retarget(file.path, "nobody", "x", "y", clock), Errc::rejected));
}

}  // namespace
}  // namespace dovetail::sqlite
