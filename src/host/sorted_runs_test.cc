#include "host/sorted_runs.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <random>

#include "kit/results.h"

namespace dovetail {
namespace {

using Runs = SortedRuns<8>;

Runs::Record record_of(std::uint64_t number) {
  Runs::Record record{};
  for (std::size_t i = 0; i < 8; ++i) record[i] = static_cast<std::uint8_t>(number >> (56 - 8 * i));
  return record;
}

std::vector<Runs::Record> take_all(Runs& runs) {
  std::vector<Runs::Record> taken;
  while (true) {
    const auto next = runs.next();
    EXPECT_TRUE(next);
    if (!next || *next == nullptr) return taken;
    taken.push_back(**next);
  }
}

// Nothing, what fits in memory, whole runs, and a last one that is not full.
TEST(SortedRuns, GivesBackEverythingInOrderWhateverFitsInMemory) {
  for (const std::size_t count : {0U, 1U, 10U, 16U, 17U, 320U, 1000U}) {
    for (const std::size_t fits : {1U, 4U, 16U, 10'000U}) {
      std::mt19937_64 random(count + fits);
      Runs runs(fits * 8);
      std::vector<Runs::Record> wanted;
      for (std::size_t i = 0; i < count; ++i) {
        wanted.push_back(record_of(random() % 500));  // some of them are equal
        ASSERT_TRUE(runs.add(wanted.back()));
      }
      std::sort(wanted.begin(), wanted.end());
      EXPECT_EQ(runs.count(), count);
      EXPECT_EQ(take_all(runs), wanted) << count << " records, of which " << fits << " fit";
    }
  }
}

TEST(SortedRuns, AFolderThatIsMissingIsNamedAsTheCause) {
  const char* const before = getenv("TMPDIR");
  const std::string kept = before == nullptr ? "" : before;
  setenv("TMPDIR", "/no/such/folder", 1);
  Runs runs(8);
  ASSERT_TRUE(runs.add(record_of(2)));
  const Status added = runs.add(record_of(1));
  if (before == nullptr)
    unsetenv("TMPDIR");
  else
    setenv("TMPDIR", kept.c_str(), 1);
  ASSERT_FALSE(added);
  EXPECT_EQ(added.error().code, Errc::unavailable);
  EXPECT_NE(added.error().text.find("TMPDIR"), std::string::npos) << added.error().text;
}

}  // namespace
}  // namespace dovetail
