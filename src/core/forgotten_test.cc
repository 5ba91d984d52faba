#include "core/forgotten.h"

#include <gtest/gtest.h>

namespace dovetail {
namespace {

using namespace std::chrono_literals;

constexpr WallTime kDay{std::chrono::hours(24 * 20'000)};

Event event_of(std::string_view id, WallTime created_at = {}) {
  Event event;
  event.id = EventId::parse(id).value();
  event.created_at = created_at;
  return event;
}
// Of 3 October 2024.
const Event kOctober = event_of("019253c8-b000-7000-8000-000000000001");

TEST(Forgotten, AnIdOfVersion7TellsItsTimeAndNoOtherDoes) {
  EXPECT_EQ(time_of(kOctober.id), WallTime(std::chrono::milliseconds(0x019253c8b000)));
  EXPECT_FALSE(time_of(event_of("019253c8-b000-4000-8000-000000000001").id));
  EXPECT_FALSE(time_of(event_of("019253c8-b000-7000-c000-000000000001").id)) << "another variant";
}

TEST(Forgotten, AnEventIsForgottenWhenItIsOlderThanWhatIsRemembered) {
  const WallTime time = *time_of(kOctober.id);
  EXPECT_FALSE(is_forgotten(kOctober, WallTime::min(), WallTime::min()));
  EXPECT_FALSE(is_forgotten(kOctober, time, WallTime{}));
  EXPECT_TRUE(is_forgotten(kOctober, time + 1us, WallTime{}));
}

TEST(Forgotten, AnotherKindOfIdCountsByTheTimeOfTheEvent) {
  const char* const id = "00000000-0000-4000-8000-000000000001";
  EXPECT_TRUE(is_forgotten(event_of(id, kDay), kDay + 1us, WallTime{}));
  EXPECT_FALSE(is_forgotten(event_of(id, kDay), kDay, WallTime{}));
  EXPECT_FALSE(is_forgotten(event_of(id), kDay, WallTime{})) << "nobody knows its time";
}

TEST(Forgotten, AConsumerThatBeganLaterHasLostNothing) {
  const WallTime before = *time_of(kOctober.id) + 24h;
  EXPECT_TRUE(is_forgotten(kOctober, before, before - 1us));
  EXPECT_FALSE(is_forgotten(kOctober, before, before));
}

}  // namespace
}  // namespace dovetail
