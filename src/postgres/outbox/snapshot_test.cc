#include "postgres/outbox/snapshot.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <set>
#include <string>

namespace dovetail::postgres {
namespace {

TEST(Snapshot, ShowsWhatHadEndedWhenItWasTaken) {
  const Snapshot snapshot = *Snapshot::parse("10:20:10,14,15");
  EXPECT_TRUE(snapshot.shows(9));
  EXPECT_FALSE(snapshot.shows(10));
  EXPECT_TRUE(snapshot.shows(11));
  EXPECT_FALSE(snapshot.shows(14));
  EXPECT_FALSE(snapshot.shows(15));
  EXPECT_TRUE(snapshot.shows(19));
  EXPECT_FALSE(snapshot.shows(20));
  EXPECT_FALSE(snapshot.shows(UINT64_MAX));
}

TEST(Snapshot, WhatALaterOneShowsBesidesBeginsWithTheFirstThatWasOpenAndHasEnded) {
  const Snapshot snapshot = *Snapshot::parse("10:20:10,14,15");
  const auto first = [&](const char* later) {
    return snapshot.first_shown_by(*Snapshot::parse(later));
  };
  EXPECT_EQ(first("10:20:10,14,15"), 20U) << "nothing";
  EXPECT_EQ(first("10:30:10,14,15,22"), 20U) << "those that were open are open still";
  EXPECT_EQ(first("10:30:10,15"), 14U);
  EXPECT_EQ(first("30:30:"), 10U);
  EXPECT_EQ(first("10:14:10"), 20U) << "nothing, for it is older";
}

TEST(Snapshot, ThatOfANewReaderShowsNothing) {
  const Snapshot snapshot = *Snapshot::parse("1:1:");
  EXPECT_FALSE(snapshot.shows(3));
  EXPECT_FALSE(snapshot.shows_short(3));
  EXPECT_FALSE(snapshot.shows_short(0xffff'fff0)) << "it would lie before the first of all";
}

TEST(Snapshot, ShortNumbersAreUnderstoodAcrossTheTurnOfTheCounter) {
  // 2^32 + 100: the numbers of the transactions before it are large, and their short forms, too.
  const Snapshot snapshot = *Snapshot::parse("4294967290:4294967396:4294967290,4294967300");
  EXPECT_TRUE(snapshot.shows_short(4294967289U));
  EXPECT_FALSE(snapshot.shows_short(4294967290U));
  EXPECT_TRUE(snapshot.shows_short(4294967291U));
  EXPECT_TRUE(snapshot.shows_short(3));
  EXPECT_FALSE(snapshot.shows_short(4));
  EXPECT_TRUE(snapshot.shows_short(99));
  EXPECT_FALSE(snapshot.shows_short(100));
}

TEST(Snapshot, WhatIsNoneIsCorruptAndSaysWhatToCheck) {
  for (const char* text :
       {"", "1", "1:1", "0:1:", "2:1:", "1:5:5", "2:5:1", "1:5:3,2", "1:5:,", "1:5:2,", "1:5:,2",
        "-1:5:", " 1:5:", "1:5: ", "1:5:2:", "1:x:", "1:18446744073709551616:"}) {
    const auto snapshot = Snapshot::parse(text);
    ASSERT_FALSE(snapshot) << text;
    EXPECT_EQ(snapshot.error().code, Errc::corrupt);
    EXPECT_NE(snapshot.error().text.find("check"), std::string::npos);
  }
}

RC_GTEST_PROP(Snapshot, AgreesWithASlowOneInBothForms, ()) {
  const auto xmin = 1 + *rc::gen::inRange<std::uint64_t>(0, std::uint64_t{1} << 40);
  const auto width = *rc::gen::inRange<std::uint64_t>(0, 50);
  std::set<std::uint64_t> open;
  if (width > 0)
    for (const auto offset :
         *rc::gen::container<std::vector<std::uint64_t>>(rc::gen::inRange<std::uint64_t>(0, width)))
      open.insert(xmin + offset);
  std::string text = std::to_string(xmin) + ":" + std::to_string(xmin + width) + ":";
  for (const std::uint64_t xid : open) {
    if (!text.ends_with(':')) text += ',';
    text += std::to_string(xid);
  }
  const Snapshot snapshot = *Snapshot::parse(text);
  RC_ASSERT(snapshot.xmin() == xmin && snapshot.xmax() == xmin + width);
  const std::uint64_t first = xmin > 10 ? xmin - 10 : 1;
  for (std::uint64_t xid = first; xid < xmin + width + 10; ++xid) {
    const bool shown = xid < xmin + width && open.count(xid) == 0;
    RC_ASSERT(snapshot.shows(xid) == shown);
    RC_ASSERT(snapshot.shows_short(static_cast<std::uint32_t>(xid)) == shown);
  }
}

}  // namespace
}  // namespace dovetail::postgres
