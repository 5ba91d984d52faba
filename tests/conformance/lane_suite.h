// What every lease and every parking store must do. Both belong to a lane, and their writes carry
// the owner's epoch, so they are tested together. An adapter implements LaneUnderTest and
// instantiates the two suites.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "core/event/batch.h"
#include "core/life/receipt.h"
#include "core/relay/lease.h"
#include "core/relay/parking.h"
#include "core/relay/source.h"
#include "core/testing/test_clock.h"

namespace dovetail::conformance {

// One relay's view of a lane. Destroying it ends that process.
struct LaneOwner {
  std::shared_ptr<void> state{};  // what the ports share
  std::unique_ptr<Lease> lease{};
  std::unique_ptr<Source> source{};
  std::unique_ptr<Parking> parking{};
};

// A row that a store keeps of what a relay delivered.
struct KeptReceipt {
  std::string owner{};
  std::int64_t first = 0;
  std::int64_t last = 0;
  std::int64_t events = 0;
  std::string places{};

  friend bool operator==(const KeptReceipt&, const KeptReceipt&) = default;
  friend std::ostream& operator<<(std::ostream& out, const KeptReceipt& one) {
    return out << one.owner << ' ' << one.first << '-' << one.last << ' ' << one.events << ' '
               << one.places;
  }
};

class LaneUnderTest {
 public:
  static constexpr Duration kTerm = std::chrono::seconds(10);

  virtual ~LaneUnderTest() = default;
  // Leases have the term kTerm and use `clock`.
  virtual LaneOwner join(const std::string& name) = 0;
  virtual void publish(const NewEvent& event) = 0;
  // Nothing: its source keeps none.
  virtual std::optional<std::vector<KeptReceipt>> receipts() { return std::nullopt; }

  TestClock clock;
};

struct LaneCase {
  std::string name;
  std::unique_ptr<LaneUnderTest> (*make)();
};

class LaneFixture : public testing::TestWithParam<LaneCase> {
 protected:
  void SetUp() override { lane_ = GetParam().make(); }

  LaneOwner owner(const std::string& name) {
    LaneOwner joined = lane_->join(name);
    const Status acquired = joined.lease->acquire();
    EXPECT_TRUE(acquired) << (acquired ? "" : acquired.error().text);
    EXPECT_TRUE(joined.source->open());
    EXPECT_TRUE(joined.parking->open());
    return joined;
  }
  const Event* event(std::string_view key, std::int64_t position) {
    Event one;
    one.id.bytes[15] = static_cast<std::uint8_t>(++made_);
    one.position = position;
    one.topic = "orders";
    one.aggregate_type = "order";
    one.aggregate_id = key;
    one.type = "changed";
    one.content_type = "application/json";
    one.payload = std::string_view("\0raw", 4);
    Batch& batch = batches_.emplace_back();
    batch.append(one);
    return &batch.events()[0];
  }
  static Errc code(const Status& status) { return status.error().code; }

  std::unique_ptr<LaneUnderTest> lane_;
  std::deque<Batch> batches_;
  std::uint64_t made_ = 0;
};

class LeaseSuite : public LaneFixture {
 protected:
  void publish_numbered(std::uint8_t number) {
    NewEvent event;
    event.aggregate_type = "order";
    event.aggregate_id = "k";
    event.type = "changed";
    event.payload = "{}";
    event.id = EventId{{number}};
    lane_->publish(event);
  }
  // Lets the lease of `stale` run out and gives the lane to another owner.
  LaneOwner take_over() {
    lane_->clock.advance(LaneUnderTest::kTerm + std::chrono::seconds(1));
    return owner("next");
  }
};

TEST_P(LeaseSuite, OneOwnerAtATime) {
  LaneOwner first = owner("first");
  LaneOwner second = lane_->join("second");
  const Status refused = second.lease->acquire();
  ASSERT_FALSE(refused);
  EXPECT_EQ(code(refused), Errc::unavailable);
  EXPECT_NE(refused.error().text.find("first"), std::string::npos) << "it says who holds it";
}

TEST_P(LeaseSuite, AReleasedLaneIsFreeAtOnce) {
  LaneOwner first = owner("first");
  ASSERT_TRUE(first.lease->release());
  EXPECT_TRUE(lane_->join("second").lease->acquire());
}

TEST_P(LeaseSuite, AnExpiredLaneIsTakenOver) {
  LaneOwner first = owner("first");
  LaneOwner second = take_over();
  EXPECT_TRUE(second.lease->renew());
}

TEST_P(LeaseSuite, RenewalKeepsTheLane) {
  LaneOwner first = owner("first");
  for (int i = 0; i < 5; ++i) {
    lane_->clock.advance(LaneUnderTest::kTerm / 2);
    ASSERT_TRUE(first.lease->renew());
  }
  EXPECT_FALSE(lane_->join("second").lease->acquire());
}

TEST_P(LeaseSuite, TheDeadlineComesBeforeTheExpiryAndTheRenewalBeforeTheDeadline) {
  const TimePoint before = lane_->clock.now();
  LaneOwner first = owner("first");
  EXPECT_LE(first.lease->deadline(), before + LaneUnderTest::kTerm);
  EXPECT_LT(first.lease->renew_at(), first.lease->deadline());
  EXPECT_GT(first.lease->renew_at(), before);
}

TEST_P(LeaseSuite, AStaleOwnerCannotRenew) {
  LaneOwner first = owner("first");
  LaneOwner second = take_over();
  const Status refused = first.lease->renew();
  ASSERT_FALSE(refused);
  EXPECT_EQ(code(refused), Errc::stopped);
}

TEST_P(LeaseSuite, AStaleOwnersReleaseHarmsNobody) {
  LaneOwner first = owner("first");
  LaneOwner second = take_over();
  (void)first.lease->release();
  EXPECT_TRUE(second.lease->renew());
  EXPECT_FALSE(lane_->join("third").lease->acquire());
}

TEST_P(LeaseSuite, AStaleOwnerCannotSettle) {
  publish_numbered(1);
  LaneOwner first = owner("first");
  Batch batch;
  ASSERT_TRUE(first.source->read(batch, Limits{}, std::stop_token{}));
  ASSERT_EQ(batch.size(), 1U);
  LaneOwner second = take_over();
  Status refused = first.source->settle(batch, std::vector<Settled>{Settled::delivered});
  if (refused) refused = first.source->flush();
  ASSERT_FALSE(refused);
  EXPECT_EQ(code(refused), Errc::stopped);
  Batch again;
  ASSERT_TRUE(second.source->read(again, Limits{}, std::stop_token{}));
  EXPECT_EQ(again.size(), 1U) << "the new owner reads it again";
}

// Reads `count` events and settles them as delivered to partition 2, from offset 100 on.
inline std::vector<std::int64_t> deliver_some(Source& source, std::size_t count) {
  std::vector<std::int64_t> positions;
  Batch batch;
  EXPECT_TRUE(source.read(batch, Limits{.events_max = count}, {}));
  EXPECT_EQ(batch.size(), count);
  for (Event& event : batch.events()) {
    event.topic = "orders";
    source.receipt()->add(event, {2, 100 + static_cast<std::int64_t>(positions.size())});
    positions.push_back(event.position);
  }
  EXPECT_TRUE(source.settle(batch, std::vector<Settled>(batch.size(), Settled::delivered)));
  return positions;
}

TEST_P(LeaseSuite, AReceiptIsWrittenOnceWithTheProgress) {
  if (!lane_->receipts()) GTEST_SKIP() << "it keeps no receipts";
  for (std::uint8_t i = 1; i <= 5; ++i) publish_numbered(i);
  LaneOwner first = owner("first");
  deliver_some(*first.source, 3);
  ASSERT_TRUE(first.source->open()) << "the session is lost before its progress was written";
  EXPECT_TRUE(lane_->receipts()->empty());
  const std::vector<std::int64_t> positions = deliver_some(*first.source, 3);
  ASSERT_TRUE(first.source->flush());
  const std::vector<KeptReceipt> expected = {
      {"first", positions.front(), positions.back(), 3, "orders\t2\t100\t102\t3\n"}};
  EXPECT_EQ(*lane_->receipts(), expected);
  ASSERT_TRUE(first.source->flush());
  EXPECT_EQ(*lane_->receipts(), expected);
  deliver_some(*first.source, 2);
  ASSERT_TRUE(first.source->flush());
  ASSERT_TRUE(first.source->open());
  ASSERT_TRUE(first.source->flush());
  ASSERT_EQ(lane_->receipts()->size(), 2U);
  EXPECT_EQ(lane_->receipts()->back().events, 2) << "it covers what came since the last one";
}

TEST_P(LeaseSuite, AStaleOwnerWritesNoReceipt) {
  if (!lane_->receipts()) GTEST_SKIP() << "it keeps no receipts";
  publish_numbered(1);
  LaneOwner first = owner("first");
  deliver_some(*first.source, 1);
  LaneOwner second = take_over();
  const Status refused = first.source->flush();
  ASSERT_FALSE(refused);
  EXPECT_EQ(code(refused), Errc::stopped);
  EXPECT_TRUE(lane_->receipts()->empty());
}

TEST_P(LeaseSuite, AStaleOwnerCannotPark) {
  LaneOwner first = owner("first");
  LaneOwner second = take_over();
  const ParkRequest request{event("k", 1), ParkState::parked, 1, {}, "refused"};
  const Status refused = first.parking->park({&request, 1});
  ASSERT_FALSE(refused);
  EXPECT_EQ(code(refused), Errc::stopped);
  std::vector<OrderKey> keys;
  ASSERT_TRUE(second.parking->blocked_keys(keys, 1000));
  EXPECT_TRUE(keys.empty());
}

TEST_P(LeaseSuite, AStaleOwnerCannotFinishWhatIsParked) {
  LaneOwner first = owner("first");
  const Event* one = event("k", 1);
  const ParkRequest request{one, ParkState::parked, 1, {}, "refused"};
  ASSERT_TRUE(first.parking->park({&request, 1}));
  LaneOwner second = take_over();
  const Status refused = first.parking->delivered({&one->id, 1});
  ASSERT_FALSE(refused);
  EXPECT_EQ(code(refused), Errc::stopped);
  std::vector<OrderKey> keys;
  ASSERT_TRUE(second.parking->blocked_keys(keys, 1000));
  EXPECT_EQ(keys.size(), 1U);
}

TEST_P(LeaseSuite, TheEpochRisesAtEveryAcquisitionAlsoBySomebodyWhoHadIt) {
  LaneOwner first = owner("first");
  LaneOwner zombie = take_over();
  lane_->clock.advance(LaneUnderTest::kTerm + std::chrono::seconds(1));
  ASSERT_TRUE(first.lease->acquire());
  EXPECT_FALSE(zombie.lease->renew());
  EXPECT_TRUE(first.lease->renew());
}

class ParkingSuite : public LaneFixture {
 protected:
  void SetUp() override {
    LaneFixture::SetUp();
    owner_ = owner("relay");
  }
  void park(const Event* one, ParkState state, Duration delay = {}, std::uint32_t attempts = 0) {
    const ParkRequest request{one, state, attempts, delay, "a reason"};
    const Status parked = owner_.parking->park({&request, 1});
    ASSERT_TRUE(parked) << parked.error().text;
  }
  std::vector<EventId> due(std::size_t events_max = 100) {
    taken_ = std::make_unique<Batch>();
    attempts_.clear();
    Limits limits;
    limits.events_max = events_max;
    limits.pause_max = std::chrono::minutes(10);
    const Status status = owner_.parking->take_due(*taken_, attempts_, limits);
    EXPECT_TRUE(status) << (status ? "" : status.error().text);
    EXPECT_EQ(attempts_.size(), taken_->size());
    std::vector<EventId> ids;
    for (const Event& one : taken_->events()) ids.push_back(one.id);
    return ids;
  }
  std::vector<OrderKey> blocked() {
    std::vector<OrderKey> keys;
    EXPECT_TRUE(owner_.parking->blocked_keys(keys, 1000));
    std::sort(keys.begin(), keys.end());
    return keys;
  }

  LaneOwner owner_;
  std::unique_ptr<Batch> taken_;
  std::vector<std::uint32_t> attempts_;
};

using Ids = std::vector<EventId>;
using Keys = std::vector<OrderKey>;

TEST_P(ParkingSuite, AParkedEventBlocksItsKeyAndNoOther) {
  park(event("k", 1), ParkState::parked);
  EXPECT_EQ(blocked(), (Keys{{"order", "k"}}));
  EXPECT_TRUE(due().empty()) << "it waits for an operator";
}

TEST_P(ParkingSuite, BlockedKeysAreFoundAmongThoseOfABatchAndListedUpToALimit) {
  for (int i = 0; i < 10; ++i) park(event("k" + std::to_string(i), i + 1), ParkState::parked);
  park(event("k3", 20), ParkState::waiting);
  const Keys asked{{"order", "k3"}, {"order", "k99"}, {"other", "k4"}, {"order", "k7"}};
  Keys found;
  ASSERT_TRUE(owner_.parking->blocked_among(asked, found));
  std::sort(found.begin(), found.end());
  EXPECT_EQ(found, (Keys{{"order", "k3"}, {"order", "k7"}}));
  Keys some;
  ASSERT_TRUE(owner_.parking->blocked_keys(some, 4));
  EXPECT_EQ(some.size(), 4U);
  EXPECT_TRUE(owner_.parking->blocked_among({}, found));
}

TEST_P(ParkingSuite, AnEventWithoutKeyBlocksNothing) {
  park(event("", 1), ParkState::parked);
  EXPECT_TRUE(blocked().empty());
}

TEST_P(ParkingSuite, AWaitingEventIsDueAtItsTime) {
  const Event* one = event("k", 1);
  park(one, ParkState::waiting, std::chrono::seconds(5), 3);
  EXPECT_TRUE(due().empty());
  lane_->clock.advance(std::chrono::seconds(5));
  ASSERT_TRUE(owner_.lease->renew());
  EXPECT_EQ(due(), (Ids{one->id}));
  EXPECT_EQ(attempts_, (std::vector<std::uint32_t>{3}));
  EXPECT_EQ(taken_->events()[0].payload, one->payload) << "byte for byte";
  EXPECT_EQ(taken_->events()[0].position, one->position);
  EXPECT_EQ(taken_->events()[0].key_hash, one->key_hash);
}

// A pause of seconds; the clock is set by an hour or by two days.
TEST_P(ParkingSuite, AStepOfTheStoresClockDoesNotProlongAPause) {
  for (const int hours : {-48, -1, 1, 48}) {
    const auto first = static_cast<std::int64_t>(10 * made_);
    const Event* one = event("k", first + 1);
    const Event* behind = event("k", first + 2);
    const Event* alone = event("", first + 3);
    park(one, ParkState::waiting, std::chrono::seconds(15));
    park(behind, ParkState::waiting, std::chrono::seconds(15));
    park(alone, ParkState::waiting, std::chrono::minutes(10));
    EXPECT_TRUE(due().empty()) << hours;
    lane_->clock.set_wall(lane_->clock.wall() + std::chrono::hours(hours));
    ASSERT_TRUE(owner_.lease->renew());
    Ids taken = due();
    std::sort(taken.begin(), taken.end());
    EXPECT_EQ(taken, (Ids{one->id, behind->id, alone->id})) << hours;
    ASSERT_TRUE(owner_.parking->delivered(taken));
  }
}

TEST_P(ParkingSuite, NothingOvertakesAParkedHead) {
  park(event("k", 1), ParkState::parked);
  park(event("k", 2), ParkState::waiting);
  park(event("k", 3), ParkState::waiting);
  EXPECT_TRUE(due().empty());
}

TEST_P(ParkingSuite, NothingOvertakesAHeadThatIsNotDue) {
  park(event("k", 1), ParkState::waiting, std::chrono::seconds(5));
  park(event("k", 2), ParkState::waiting);
  EXPECT_TRUE(due().empty());
}

TEST_P(ParkingSuite, ADueLineComesInTheOrderOfPositions) {
  const Event* second = event("k", 2);
  const Event* first = event("k", 1);
  park(second, ParkState::waiting);
  park(first, ParkState::waiting);
  EXPECT_EQ(due(), (Ids{first->id, second->id}));
}

TEST_P(ParkingSuite, OfSeveralCopiesTheEarliestGivesTheEventItsPlace) {
  const Event* second = event("k", 2);
  const Event* late_copy = event("k", 3);
  Event early_copy = *late_copy;
  early_copy.position = 1;
  park(second, ParkState::waiting);
  park(late_copy, ParkState::waiting);
  park(&early_copy, ParkState::waiting);
  EXPECT_EQ(due(), (Ids{early_copy.id, second->id}));
}

TEST_P(ParkingSuite, OfSeveralCopiesInOneCallTheEarliestGivesTheEventItsPlace) {
  const Event* second = event("k", 2);
  const Event* late_copy = event("k", 3);
  Event early_copy = *late_copy;
  early_copy.position = 1;
  const ParkRequest requests[] = {{&early_copy, ParkState::waiting, 1, {}, "a reason"},
                                  {second, ParkState::waiting, 1, {}, "a reason"},
                                  {late_copy, ParkState::waiting, 1, {}, "a reason"}};
  ASSERT_TRUE(owner_.parking->park(requests));
  EXPECT_EQ(due(), (Ids{early_copy.id, second->id}));
}

TEST_P(ParkingSuite, ALaterCopyOfAWaitingEventLeavesItsAttemptsAndItsTime) {
  const Event* one = event("k", 1);
  Event copy = *one;
  copy.position = 7;
  park(one, ParkState::waiting, std::chrono::seconds(5), 3);
  park(&copy, ParkState::waiting);
  EXPECT_TRUE(due().empty());
  lane_->clock.advance(std::chrono::seconds(5));
  ASSERT_TRUE(owner_.lease->renew());
  EXPECT_EQ(due(), (Ids{one->id}));
  EXPECT_EQ(attempts_, (std::vector<std::uint32_t>{3}));
}

TEST_P(ParkingSuite, TwoEventsUnderOneIdInOneCallAreBothKept) {
  const Event* first = event("k", 1);
  Event second = *first;
  second.position = 2;
  second.payload = "another one";
  const ParkRequest requests[] = {{first, ParkState::waiting, 1, {}, "a reason"},
                                  {&second, ParkState::waiting, 1, {}, "a reason"},
                                  {first, ParkState::waiting, 1, {}, "a reason"},
                                  {&second, ParkState::waiting, 1, {}, "a reason"}};
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(owner_.parking->park(requests));
  EXPECT_EQ(due(), (Ids{first->id}));
  ASSERT_TRUE(owner_.parking->delivered({&first->id, 1}));
  EXPECT_TRUE(due().empty());
  EXPECT_EQ(blocked().size(), 1U) << "the second waits for an operator";
}

TEST_P(ParkingSuite, TwoEventsUnderOneIdAreBothKept) {
  const Event* first = event("k", 1);
  Event second = *first;
  second.position = 2;
  second.payload = "another one";
  park(first, ParkState::waiting);
  park(&second, ParkState::waiting);
  park(&second, ParkState::waiting);
  EXPECT_EQ(due(), (Ids{first->id}));
  ASSERT_TRUE(owner_.parking->delivered({&first->id, 1}));
  EXPECT_TRUE(due().empty());
  EXPECT_EQ(blocked().size(), 1U) << "the second waits for an operator";
}

TEST_P(ParkingSuite, AnotherTypeOrKeyUnderOneIdIsAnotherEvent) {
  std::size_t kept = 0;
  for (std::string_view Event::* const part :
       {&Event::type, &Event::aggregate_type, &Event::aggregate_id}) {
    const Event* first = event("k" + std::to_string(kept), 1);
    Event second = *first;
    second.position = 2;
    second.*part = "another one";
    park(first, ParkState::waiting);
    park(&second, ParkState::waiting);
    park(&second, ParkState::waiting);
    EXPECT_EQ(due(), (Ids{first->id}));
    ASSERT_TRUE(owner_.parking->delivered({&first->id, 1}));
    EXPECT_EQ(blocked().size(), ++kept) << "the second waits for an operator";
  }
}

TEST_P(ParkingSuite, AnotherEventUnderOneIdReplacesNothingAlsoWhenItStandsBefore) {
  for (std::string_view Event::* const part :
       {&Event::payload, &Event::type, &Event::aggregate_type, &Event::aggregate_id}) {
    const Event* first = event("", 2);
    Event second = *first;
    second.position = 1;
    second.*part = "another one";
    park(first, ParkState::waiting);
    park(&second, ParkState::waiting);
    ASSERT_EQ(due(), (Ids{first->id}));
    EXPECT_EQ(taken_->events()[0].*part, first->*part);
    ASSERT_TRUE(owner_.parking->delivered({&first->id, 1}));
  }
}

TEST_P(ParkingSuite, WhatWasDeliveredIsKeptAnewWhenItComesAgain) {
  for (const bool is_another : {false, true}) {
    const Event* first = event("k", 1);
    park(first, ParkState::waiting);
    ASSERT_TRUE(owner_.parking->delivered({&first->id, 1}));
    Event again = *first;
    again.position = 7;
    if (is_another) again.payload = "another one";
    park(&again, ParkState::waiting);
    ASSERT_EQ(due(), (Ids{first->id}));
    EXPECT_EQ(taken_->events()[0].payload, again.payload);
    EXPECT_EQ(taken_->events()[0].position, 7);
    ASSERT_TRUE(owner_.parking->delivered({&first->id, 1}));
  }
}

TEST_P(ParkingSuite, ALimitCutsALineAtItsEnd) {
  const Event* first = event("k", 1);
  park(first, ParkState::waiting);
  park(event("k", 2), ParkState::waiting);
  EXPECT_EQ(due(1), (Ids{first->id}));
}

TEST_P(ParkingSuite, ALimitOfBytesHoldsButForTheFirstEvent) {
  const std::string payload(1000, 'x');
  for (const std::string_view key : {"k", "k", "", "other"}) {
    Event large = *event(key, 1);
    large.position = static_cast<std::int64_t>(made_);
    large.payload = payload;
    park(&large, ParkState::waiting);
  }
  for (const std::size_t bytes_max : {std::size_t{1}, std::size_t{1500}, std::size_t{1} << 20}) {
    Batch batch;
    std::vector<std::uint32_t> attempts;
    Limits limits;
    limits.bytes_max = bytes_max;
    ASSERT_TRUE(owner_.parking->take_due(batch, attempts, limits));
    EXPECT_EQ(batch.size(), bytes_max < 2000 ? 1U : 4U) << bytes_max;
  }
}

TEST_P(ParkingSuite, DeliveringTheHeadLetsTheNextOut) {
  const Event* head = event("k", 1);
  const Event* next = event("k", 2);
  park(head, ParkState::waiting);
  park(next, ParkState::waiting);
  ASSERT_TRUE(owner_.parking->delivered({&head->id, 1}));
  EXPECT_EQ(due(), (Ids{next->id}));
  ASSERT_TRUE(owner_.parking->delivered({&next->id, 1}));
  EXPECT_TRUE(due().empty());
  EXPECT_TRUE(blocked().empty());
}

TEST_P(ParkingSuite, TakingIsNotFinishing) {
  park(event("k", 1), ParkState::waiting);
  EXPECT_EQ(due().size(), 1U);
  EXPECT_EQ(due().size(), 1U) << "until it is delivered it is due";
  EXPECT_EQ(blocked().size(), 1U);
}

TEST_P(ParkingSuite, ParkingAgainUpdates) {
  const Event* one = event("k", 1);
  park(one, ParkState::waiting, {}, 1);
  park(one, ParkState::parked, {}, 5);
  EXPECT_TRUE(due().empty());
  EXPECT_EQ(blocked().size(), 1U);
}

TEST_P(ParkingSuite, WhatWaitsForAnOperatorStaysSoWhenItIsReadAgain) {
  const Event* one = event("k", 1);
  park(one, ParkState::parked, {}, 5);
  park(one, ParkState::waiting);
  EXPECT_TRUE(due().empty());
}

TEST_P(ParkingSuite, ParkedEventsOutliveTheirOwner) {
  const Event* one = event("k", 1);
  park(one, ParkState::waiting);
  ASSERT_TRUE(owner_.lease->release());
  owner_ = owner("next");
  EXPECT_EQ(due(), (Ids{one->id}));
  EXPECT_EQ(blocked().size(), 1U);
}

TEST_P(ParkingSuite, ManyKeysAreIndependent) {
  for (int i = 0; i < 20; ++i) {
    const std::string key = "k" + std::to_string(i);
    park(event(key, 2 * i), i % 2 == 0 ? ParkState::parked : ParkState::waiting);
    park(event(key, 2 * i + 1), ParkState::waiting);
  }
  EXPECT_EQ(blocked().size(), 20U);
  EXPECT_EQ(due().size(), 20U) << "two of each key whose head is due";
}

TEST_P(ParkingSuite, NothingToDoIsHarmless) {
  EXPECT_TRUE(owner_.parking->park({}));
  EXPECT_TRUE(owner_.parking->delivered({}));
  const EventId unknown{{9}};
  EXPECT_TRUE(owner_.parking->delivered({&unknown, 1}));
}

}  // namespace dovetail::conformance
