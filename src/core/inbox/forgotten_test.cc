#include "core/inbox/forgotten.h"

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
// With the time 3 October 2024.
const Event kOctober = event_of("019253c8-b000-7000-8000-000000000001");

TEST(Forgotten, AnIdOfVersion7TellsItsTimeAndNoOtherDoes) {
  EXPECT_EQ(time_of(kOctober.id), WallTime(std::chrono::milliseconds(0x019253c8b000)));
  EXPECT_FALSE(time_of(event_of("019253c8-b000-4000-8000-000000000001").id));
  EXPECT_FALSE(time_of(event_of("019253c8-b000-7000-c000-000000000001").id)) << "another variant";
}

TEST(Forgotten, AnEventIsForgottenUpToTheLastThatWasDeleted) {
  const WallTime time = *time_of(kOctober.id);
  EXPECT_FALSE(is_forgotten(kOctober, WallTime::min()));
  EXPECT_FALSE(is_forgotten(kOctober, time - 1us));
  EXPECT_TRUE(is_forgotten(kOctober, time));
}

TEST(Forgotten, AnotherKindOfIdCountsByTheTimeOfTheEvent) {
  const char* const id = "00000000-0000-4000-8000-000000000001";
  EXPECT_TRUE(is_forgotten(event_of(id, kDay), kDay));
  EXPECT_FALSE(is_forgotten(event_of(id, kDay), kDay - 1us));
  EXPECT_FALSE(is_forgotten(event_of(id), kDay)) << "nobody knows its time";
}

TEST(Forgotten, AnEventThatWentOutLaterThanItWasMadeCountsFromThen) {
  const WallTime made = *time_of(kOctober.id);
  Event late = kOctober;
  late.created_at = made + 24h * 60;
  EXPECT_EQ(available_at(late), late.created_at);
  EXPECT_FALSE(is_forgotten(late, made + 24h * 59));
  EXPECT_TRUE(is_forgotten(late, late.created_at));
  late.created_at = made + 59min;
  EXPECT_EQ(available_at(late), made) << "clocks may be that far apart";
  late.created_at = made - 24h;
  EXPECT_EQ(available_at(late), made);
}

TEST(PayloadDigest, IsTheBeginningOfTheSha256OfThePayload) {
  EXPECT_EQ(static_cast<std::uint64_t>(payload_digest("abc")), 0xba7816bf8f01cfeaU);
  EXPECT_NE(payload_digest("{\"n\":1}"), payload_digest("{\"n\":2}"));
}

}  // namespace
}  // namespace dovetail
