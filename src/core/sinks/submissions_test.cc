#include "core/sinks/submissions.h"

#include <gtest/gtest.h>

#include <array>

namespace dovetail {
namespace {

struct Numbered {
  int number = 7;
};

class SubmissionsTest : public testing::Test {
 protected:
  std::span<Submissions<Numbered>::Item> add(std::size_t count, std::uint64_t number) {
    return submissions_.add(Events(events_).first(count), number);
  }

  Event event_;
  std::array<const Event*, 2> events_{&event_, &event_};
  Submissions<Numbered> submissions_;
};

TEST_F(SubmissionsTest, AreHandedOutInTheirOrderWhicheverIsKnownFirst) {
  const auto first = add(2, 1);
  const auto second = add(1, 2);
  submissions_.resolve(second[0], {Fate::confirmed, 0, {}});
  submissions_.resolve(first[1], {Fate::failed, 0, "no"});
  EXPECT_EQ(submissions_.oldest().number, 1U);
  EXPECT_EQ(submissions_.oldest().unresolved, 1U);
  submissions_.resolve(first[0], {Fate::duplicate, 0, {}});
  std::array<Outcome, 2> outcomes;
  submissions_.hand_out(outcomes);
  EXPECT_EQ(outcomes[0].fate, Fate::duplicate);
  EXPECT_EQ(outcomes[1].reason, "no");
  EXPECT_EQ(submissions_.oldest().number, 2U);
  submissions_.hand_out(std::span(outcomes).first(1));
  EXPECT_EQ(outcomes[0].fate, Fate::confirmed);
  EXPECT_TRUE(submissions_.empty());
}

TEST_F(SubmissionsTest, NothingIsToldByWhatSaysNotNow) {
  const auto items = add(2, 1);
  submissions_.resolve(items[0], {Fate::busy, 0, {}});
  EXPECT_TRUE(submissions_.nothing_is_told());
  submissions_.resolve(items[1], {Fate::rejected, 0, {}});
  EXPECT_FALSE(submissions_.nothing_is_told());
  EXPECT_EQ(submissions_.oldest().told, 1U);
}

TEST_F(SubmissionsTest, MemoryThatIsReusedRemembersNothing) {
  const auto before = add(2, 1);
  before[0].number = 8;
  submissions_.resolve(before[0], {Fate::rejected, 3, "no"});
  submissions_.clear();
  EXPECT_TRUE(submissions_.empty());
  const auto after = add(1, 2);
  EXPECT_EQ(after.size(), 1U);
  EXPECT_EQ(after[0].number, 7);
  EXPECT_EQ(after[0].outcome.reason, "");
  EXPECT_EQ(submissions_.oldest().unresolved, 1U);
  EXPECT_TRUE(submissions_.nothing_is_told());
}

}  // namespace
}  // namespace dovetail
