#include "postgres/outbox/streamed_transactions.h"

#include <gtest/gtest.h>

namespace dovetail::postgres {
namespace {

Snapshot shown(std::string_view text) { return Snapshot::parse(text).value(); }

TEST(StreamedTransactions, OnlyThoseOfWhichEverythingIsSettledAreAdded) {
  StreamedTransactions streamed;
  streamed.add(10, 2);
  streamed.add(12, 3);
  streamed.add(14, 6);
  EXPECT_EQ(streamed.united_with(shown("10:10:"), 1, false).text(), "10:10:");
  EXPECT_EQ(streamed.united_with(shown("10:10:"), 3, false).text(), "11:13:11");
  EXPECT_EQ(streamed.united_with(shown("10:10:"), 6, true).text(), "11:13:11")
      << "has more to come";
  EXPECT_EQ(streamed.united_with(shown("10:10:"), 6, false).text(), "11:15:11,13");
}

TEST(StreamedTransactions, ABacklogOfAMillionTakesBoundedMemoryAndPretendsNothing) {
  StreamedTransactions streamed;
  for (std::uint32_t i = 0; i < 1'000'000; ++i) streamed.add(100 + i, i + 1);
  EXPECT_EQ(streamed.size(), StreamedTransactions::kMost);
  const Snapshot reached = streamed.united_with(shown("100:100:"), 1'000'000, false);
  EXPECT_TRUE(reached.shows(100));
  EXPECT_FALSE(reached.shows(100 + StreamedTransactions::kMost)) << "comes again, and is not lost";
  streamed.forget(shown("900000:900000:"));
  streamed.add(2'000'000, 1'000'001);
  EXPECT_EQ(streamed.size(), 1U) << "there is room again";
}

}  // namespace
}  // namespace dovetail::postgres
