#include "core/sinks/confirms.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>

namespace dovetail {
namespace {

TEST(ConfirmTracker, TakesConfirmationsInAnyOrder) {
  ConfirmTracker tracker;
  EXPECT_EQ(tracker.add_batch(2), 1U);
  EXPECT_EQ(tracker.add_batch(1), 3U);
  tracker.resolve(3, Outcome{Fate::confirmed});
  tracker.resolve(2, Outcome{Fate::confirmed});
  EXPECT_FALSE(tracker.oldest_is_complete());
  tracker.resolve(1, Outcome{Fate::rejected, 0, "no"});
  ASSERT_TRUE(tracker.oldest_is_complete());
  std::vector<Outcome> outcomes(2);
  tracker.take_oldest(outcomes);
  EXPECT_EQ(outcomes[0].fate, Fate::rejected);
  EXPECT_EQ(outcomes[1].fate, Fate::confirmed);
  EXPECT_TRUE(tracker.oldest_is_complete());
}

TEST(ConfirmTracker, ARepeatedConfirmationCountsOnce) {
  ConfirmTracker tracker;
  tracker.add_batch(2);
  tracker.resolve(1, Outcome{Fate::confirmed});
  tracker.resolve(1, Outcome{Fate::confirmed});
  tracker.resolve(99, Outcome{Fate::confirmed});
  tracker.resolve(0, Outcome{Fate::confirmed});
  EXPECT_FALSE(tracker.oldest_is_complete());
  EXPECT_EQ(tracker.unresolved(), 1U);
}

TEST(ConfirmTracker, AReturnIsNotUndoneByALaterMultipleAck) {
  ConfirmTracker tracker;
  tracker.add_batch(3);
  tracker.resolve(2, Outcome{Fate::rejected, 0, "returned"});
  tracker.resolve_through(3, Outcome{Fate::confirmed});
  std::vector<Outcome> outcomes(3);
  tracker.take_oldest(outcomes);
  EXPECT_EQ(outcomes[0].fate, Fate::confirmed);
  EXPECT_EQ(outcomes[1].fate, Fate::rejected);
  EXPECT_EQ(outcomes[2].fate, Fate::confirmed);
}

TEST(ConfirmTracker, AfterClearOldTagsMeanNothing) {
  ConfirmTracker tracker;
  tracker.add_batch(2);
  tracker.clear();
  const std::uint64_t tag = tracker.add_batch(1);
  tracker.resolve(1, Outcome{Fate::confirmed});
  EXPECT_FALSE(tracker.oldest_is_complete());
  tracker.resolve(tag, Outcome{Fate::confirmed});
  EXPECT_TRUE(tracker.oldest_is_complete());
}

// Whatever the broker says in whatever order, the first outcome of each event counts.
RC_GTEST_PROP(ConfirmTracker, FirstWordCounts, ()) {
  ConfirmTracker tracker;
  std::map<std::uint64_t, Fate> model;
  const auto sizes = *rc::gen::nonEmpty<std::vector<std::uint8_t>>();
  std::vector<std::size_t> batches;
  std::uint64_t last = 0;
  for (const auto size : sizes) {
    batches.push_back(static_cast<std::size_t>(size % 7 + 1));
    last = tracker.add_batch(batches.back()) + batches.back() - 1;
  }
  const auto steps = *rc::gen::container<std::vector<std::pair<std::uint64_t, bool>>>(
      rc::gen::pair(rc::gen::inRange<std::uint64_t>(0, last + 3), rc::gen::arbitrary<bool>()));
  for (const auto& [tag, multiple] : steps) {
    const Fate fate = tag % 3 == 0 ? Fate::again : Fate::confirmed;
    if (multiple) {
      tracker.resolve_through(tag, Outcome{fate});
      for (std::uint64_t t = 1; t <= std::min(tag, last); ++t) model.emplace(t, fate);
    } else {
      tracker.resolve(tag, Outcome{fate});
      if (tag >= 1 && tag <= last) model.emplace(tag, fate);
    }
  }
  RC_ASSERT(tracker.unresolved() == last - model.size());
  tracker.resolve_through(last, Outcome{Fate::failed});
  std::uint64_t tag = 1;
  for (const std::size_t size : batches) {
    RC_ASSERT(tracker.oldest_is_complete());
    std::vector<Outcome> outcomes(size);
    tracker.take_oldest(outcomes);
    for (const Outcome& outcome : outcomes) {
      const auto said = model.find(tag++);
      RC_ASSERT(outcome.fate == (said == model.end() ? Fate::failed : said->second));
    }
  }
}

}  // namespace
}  // namespace dovetail
