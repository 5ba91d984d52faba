#include "core/event/batch.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace dovetail {
namespace {

Event event_with(std::string_view id, std::string_view payload) {
  Event event;
  event.aggregate_type = "order";
  event.aggregate_id = id;
  event.type = "OrderPlaced";
  event.payload = payload;
  return event;
}

TEST(Batch, OwnsItsBytes) {
  Batch batch;
  {
    const std::string id = "42";
    const std::string payload(100'000, 'p');
    for (int i = 0; i < 10; ++i) batch.append(event_with(id, payload));
  }
  ASSERT_EQ(batch.size(), 10U);
  for (const Event& event : batch.events()) {
    EXPECT_EQ(event.aggregate_id, "42");
    EXPECT_EQ(event.payload, std::string(100'000, 'p'));
  }
}

TEST(Batch, CountsBytesAndStartsOverAfterClear) {
  Batch batch;
  batch.append(event_with("1", "abc"));
  EXPECT_EQ(batch.bytes(), std::string_view("order1OrderPlacedabc").size());
  batch.clear();
  EXPECT_TRUE(batch.empty());
  EXPECT_EQ(batch.bytes(), 0U);
  batch.append(event_with("2", "de"));
  EXPECT_EQ(batch.events()[0].payload, "de");
}

TEST(Batch, KeepsWhatIsWrongWithAnEvent) {
  Batch batch;
  {
    const std::string why = "it has no id; check its producer";
    Event event = event_with("1", "abc");
    event.defect = why;
    batch.append(event);
  }
  EXPECT_EQ(batch.events()[0].defect, "it has no id; check its producer");
}

TEST(KeyHash, IsTheSameInEveryRelease) {
  EXPECT_EQ(key_hash("order", "42"), 6420445141004686562ULL);
}

TEST(KeyHash, TellsTypeAndIdApart) {
  EXPECT_NE(key_hash("ab", "c"), key_hash("a", "bc"));
  EXPECT_NE(key_hash("order", "1"), key_hash("customer", "1"));
}

TEST(KeyHash, IsZeroOnlyWithoutKey) {
  EXPECT_EQ(key_hash("order", ""), 0U);
  EXPECT_NE(key_hash("", "1"), 0U);
}

TEST(Lanes, SpreadKeysEvenly) {
  std::map<std::uint32_t, int> count;
  for (int i = 0; i < 80'000; ++i) ++count[lane_of(key_hash("order", std::to_string(i)), 8)];
  ASSERT_EQ(count.size(), 8U);
  for (const auto& [lane, keys] : count) {
    EXPECT_NEAR(keys, 10'000, 600) << "lane " << lane;
  }
}

}  // namespace
}  // namespace dovetail
