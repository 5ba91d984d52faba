#include "core/inbox/handler_batch.h"

#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <string>

namespace dovetail {
namespace {

class HandlerBatchTest : public ::testing::Test {
 protected:
  explicit HandlerBatchTest(std::size_t count = 3) {
    for (std::size_t i = 0; i < count; ++i) {
      Event& event = made.emplace_back();
      event.id.bytes[15] = static_cast<std::uint8_t>(i + 1);
      events.push_back(&event);
    }
  }
  void add_row(std::uint32_t event, std::uint32_t handler, Arrival arrival) {
    batch.rows.push_back(HandlerRow{made[event].id, 7, event, handler, 0, false, arrival});
  }
  std::string chosen_for(std::uint32_t handler) {
    std::string text;
    for (const Event* event : batch.events_for(handler))
      text += std::to_string(event->id.bytes[15]);
    return text;
  }

  std::deque<Event> made;
  std::vector<const Event*> events;
  HandlerBatch batch;
};

TEST_F(HandlerBatchTest, AHandlerGetsWhatItHasNotAppliedInTheOrderOfTheBatch) {
  batch.begin(events);
  add_row(2, 0, Arrival::first);
  add_row(0, 0, Arrival::first);
  add_row(1, 0, Arrival::duplicate);
  add_row(1, 1, Arrival::first);
  batch.choose(events);
  EXPECT_EQ(chosen_for(0), "13");
  EXPECT_EQ(chosen_for(1), "2");
  batch.choose(Events(events).subspan(1));
  EXPECT_EQ(chosen_for(0), "3") << "the first is not to be applied now";
}

TEST_F(HandlerBatchTest, AnEventThatNobodyWantsIsCountedAndNotAsSuperseded) {
  batch.begin(events);
  add_row(0, 0, Arrival::first);
  add_row(1, 0, Arrival::superseded);
  std::array<Arrival, 3> arrivals{};
  batch.tell(arrivals);
  EXPECT_EQ(batch.unwanted(), 1U);
  EXPECT_EQ(batch.superseded(), 1U);
  EXPECT_EQ(arrivals[2], Arrival::first);
  batch.clear();
  EXPECT_EQ(batch.unwanted() + batch.superseded(), 0U);
}

TEST_F(HandlerBatchTest, ItIsKnownAfterTheTransactionWhoHadNotAppliedALonelyEvent) {
  std::array<Arrival, 1> arrival{};
  batch.begin(Events(events).first(1));
  add_row(0, 0, Arrival::duplicate);
  add_row(0, 1, Arrival::first);
  batch.tell(arrival);
  batch.clear();
  ASSERT_EQ(batch.not_applied_by(made[0].id).size(), 1U);
  EXPECT_EQ(batch.not_applied_by(made[0].id)[0], 1U);
  EXPECT_TRUE(batch.not_applied_by(made[1].id).empty()) << "another event";
}

}  // namespace
}  // namespace dovetail
