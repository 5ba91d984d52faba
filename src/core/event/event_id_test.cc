#include "core/event/event_id.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <set>

#include "core/testing/test_clock.h"

namespace dovetail {
namespace {

class SeededEntropy final : public Entropy {
 public:
  explicit SeededEntropy(std::uint64_t seed) : random_(seed) {}
  void fill(std::span<std::uint8_t> bytes) override {
    for (auto& byte : bytes) byte = static_cast<std::uint8_t>(random_.next());
  }

 private:
  Random random_;
};

std::uint64_t milliseconds_of(const EventId& id) {
  std::uint64_t value = 0;
  for (int i = 0; i < 6; ++i) value = value << 8 | id.bytes[static_cast<std::size_t>(i)];
  return value;
}

TEST(EventId, IsVersion7WithItsTime) {
  TestClock clock;
  clock.set_wall(WallTime(std::chrono::milliseconds(1'700'000'000'123)));
  SeededEntropy entropy(1);
  const EventId id = IdGenerator(clock, entropy).next();
  EXPECT_EQ(id.bytes[6] >> 4, 7);
  EXPECT_EQ(id.bytes[8] >> 6, 2);
  EXPECT_EQ(milliseconds_of(id), 1'700'000'000'123U);
}

TEST(EventId, GrowsStrictlyWhenTheClockStandsOrStepsBack) {
  TestClock clock;
  clock.set_wall(WallTime(std::chrono::hours(500'000)));
  SeededEntropy entropy(2);
  IdGenerator generator(clock, entropy);
  EventId last = generator.next();
  for (int i = 0; i < 20'000; ++i) {
    if (i == 10'000) clock.set_wall(clock.wall() - std::chrono::hours(1));
    const EventId next = generator.next();
    ASSERT_LT(last, next) << "at " << i;
    last = next;
  }
}

TEST(EventId, GeneratorsWithDifferentEntropyNeverMeet) {
  TestClock clock;
  std::set<EventId> ids;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SeededEntropy entropy(seed);
    IdGenerator generator(clock, entropy);
    for (int i = 0; i < 100; ++i) ids.insert(generator.next());
  }
  EXPECT_EQ(ids.size(), 20'000U);
}

RC_GTEST_PROP(EventIdText, SurvivesTheRoundTrip, (const std::array<std::uint8_t, 16>& bytes)) {
  const EventId id{bytes};
  const auto parsed = EventId::parse(id.to_string());
  RC_ASSERT(parsed.has_value());
  RC_ASSERT(*parsed == id);
}

TEST(EventIdText, AcceptsUpperCase) {
  const auto id = EventId::parse("018F3F5E-7C2A-7B61-9F1E-0D5A3C2B1A09");
  ASSERT_TRUE(id.has_value());
  EXPECT_EQ(id->to_string(), "018f3f5e-7c2a-7b61-9f1e-0d5a3c2b1a09");
}

TEST(EventIdText, RefusesEverythingElseWithAnExample) {
  for (const char* text :
       {"", "1", "018f3f5e7c2a7b619f1e0d5a3c2b1a09", "018f3f5e-7c2a-7b61-9f1e-0d5a3c2b1a0",
        "018f3f5e-7c2a-7b61-9f1e-0d5a3c2b1a0g", "018f3f5e+7c2a-7b61-9f1e-0d5a3c2b1a09"}) {
    const auto id = EventId::parse(text);
    ASSERT_FALSE(id.has_value()) << text;
    EXPECT_EQ(id.error().code, Errc::rejected);
    EXPECT_NE(id.error().text.find("such as"), std::string::npos);
  }
}

}  // namespace
}  // namespace dovetail
