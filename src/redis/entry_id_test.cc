#include "redis/entry_id.h"

#include <gtest/gtest.h>

#include <limits>

namespace dovetail::redis {
namespace {

constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();

TEST(EntryIdTest, IsReadAsItIsWritten) {
  for (const char* text : {"0-1", "1700000000000-0", "18446744073709551615-18446744073709551615"}) {
    const auto id = EntryId::parse(text);
    ASSERT_TRUE(id) << text;
    EXPECT_EQ(id->to_string(), text);
  }
}

TEST(EntryIdTest, AnythingElseIsNone) {
  for (const char* text :
       {"", "-", "1", "1-", "-1", "1-2-3", "1-x", "x-1", " 1-1", "1-1 ", "18446744073709551616-0"})
    EXPECT_FALSE(EntryId::parse(text)) << text;
}

TEST(EntryIdTest, PositionsOfAServersIdsAreTheSameInEverySession) {
  const EntryId id{1'700'000'000'000, 5};
  EXPECT_EQ(id.position(0), id.position(id.position(0) - 1));
  EXPECT_EQ(id.position(0), (std::int64_t{1'700'000'000'000} << 20) + 5);
}

TEST(EntryIdTest, PositionsGrowAlongAStreamWhateverItsIdsAre) {
  const EntryId along[] = {{0, 1},
                           {5, 0},
                           {5, 1 << 20},
                           {5, (1 << 20) + 1},
                           {6, 0},
                           {6, kMost},
                           {7, 0},
                           {1'700'000'000'000, 0},
                           {(std::uint64_t{1} << 42) - 1, kMost},
                           {std::uint64_t{1} << 42, 0},
                           {std::uint64_t{1} << 62, 0},
                           {kMost, 0},
                           {kMost, kMost}};
  std::int64_t last = 0;
  for (const EntryId& id : along) {
    const std::int64_t position = id.position(last);
    EXPECT_GT(position, last) << id.to_string();
    last = position;
  }
}

}  // namespace
}  // namespace dovetail::redis
