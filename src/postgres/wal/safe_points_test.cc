#include "postgres/wal/safe_points.h"

#include <limits>

#include "core/testing/test_clock.h"
#include "postgres/testing/test_database.h"

namespace dovetail::postgres {
namespace {

using namespace std::chrono_literals;

constexpr WalPosition kEverything{std::numeric_limits<std::uint64_t>::max()};

class SafePointsTest : public testing::Test {
 protected:
  SafePointsTest() {
    options_.passing = [this](std::string_view step) { taken_ += step == "safe point taken"; };
    reader_.conninfo = database_.conninfo;
    reader_.relay = "test";
    EXPECT_TRUE(connect(reader_));
    EXPECT_TRUE(server_run(reader_.connection));
    proof_ = take_safe_point(reader_.connection, what_)->proof;
    progress_.begin({});
    points_.begin(what_, proof_);
  }
  // Why the stream is not trusted any more.
  std::string take() {
    const Result<std::string> why_not = points_.take_if_due();
    EXPECT_TRUE(why_not) << text_of(why_not);
    return why_not.value_or("failed");
  }
  const std::string& covered() const { return progress_.read_to().prev; }

  TestDatabase database_;
  Reader reader_;
  Progress progress_{true};
  TestClock clock_;
  WalSourceOptions options_;
  Published what_{std::string(kOutboxPublication)};
  Proof proof_;
  int taken_ = 0;
  SafePoints points_{reader_, progress_, clock_, options_};
};

TEST_F(SafePointsTest, OneIsCoveredWhenTheStreamHasPassedItsPosition) {
  const std::string before = covered();
  EXPECT_EQ(take(), "");
  EXPECT_FALSE(points_.pass({1}));
  EXPECT_EQ(covered(), before);
  EXPECT_TRUE(points_.pass(kEverything)) << "the first one of the stream";
  const std::string first = covered();
  EXPECT_NE(first, before);
  EXPECT_FALSE(points_.pass(kEverything)) << "none is pending";
  must(reader_.connection, "SELECT pg_current_xact_id()");
  clock_.advance(10s);
  EXPECT_EQ(take(), "");
  EXPECT_FALSE(points_.pass(kEverything)) << "a later one";
  EXPECT_NE(covered(), first);
}

TEST_F(SafePointsTest, OneIsSettledWithWhatWasReadBeforeIt) {
  progress_.add(1);
  EXPECT_EQ(take(), "");
  (void)points_.pass(kEverything);
  EXPECT_NE(progress_.settled_to().prev, covered());
  const Settled fate = Settled::delivered;
  progress_.settle({&fate, 1});
  EXPECT_EQ(progress_.settled_to().prev, covered());
}

TEST_F(SafePointsTest, TheNextIsTakenSoonWhenSomethingWasReadAndElseInAWhile) {
  const auto step = [&](Duration later) {
    clock_.advance(later);
    EXPECT_EQ(take(), "");
    (void)points_.pass(kEverything);
  };
  step(0s);
  EXPECT_EQ(taken_, 1);
  step(1s);
  EXPECT_EQ(taken_, 1) << "nothing was read";
  points_.has_read();
  step(0s);
  EXPECT_EQ(taken_, 2);
  points_.has_read();
  step(options_.safe_point_every / 2);
  EXPECT_EQ(taken_, 2) << "too soon";
  step(options_.safe_point_every);
  EXPECT_EQ(taken_, 3);
  step(5s);
  EXPECT_EQ(taken_, 4) << "so that an idle lane moves on, too";
}

TEST_F(SafePointsTest, OneThatIsNotReachedForLongSaysThatTheStreamFallsBehind) {
  EXPECT_FALSE(points_.is_overdue());
  EXPECT_EQ(take(), "");
  EXPECT_FALSE(points_.is_overdue());
  clock_.advance(4 * options_.safe_point_every);
  EXPECT_TRUE(points_.is_overdue());
  (void)points_.pass(kEverything);
  EXPECT_FALSE(points_.is_overdue());
}

TEST_F(SafePointsTest, WhatIsCoveredIsToBeWrittenWhenNobodyElseDoes) {
  EXPECT_EQ(take(), "");
  (void)points_.pass(kEverything);
  EXPECT_FALSE(points_.is_write_due()) << "others may write first";
  clock_.advance(1s);
  EXPECT_TRUE(points_.is_write_due());
  points_.written();
  EXPECT_FALSE(points_.is_write_due());
}

TEST_F(SafePointsTest, AStreamIsTrustedAsLongAsItsProofHolds) {
  must(reader_.connection, "ALTER PUBLICATION dovetail_outbox SET (publish = 'update')");
  EXPECT_NE(take().find("was changed"), std::string::npos);
  proof_ = take_safe_point(reader_.connection, what_)->proof;
  points_.begin(what_, proof_);
  EXPECT_EQ(take(), "");
  Proof other = proof_;
  other.timeline = "00000099";
  points_.begin(what_, other);
  EXPECT_NE(take().find("another server has taken over"), std::string::npos);
  other = proof_;
  other.run += "1";
  points_.begin(what_, other);
  EXPECT_EQ(take(), run_has_ended().text);
}

}  // namespace
}  // namespace dovetail::postgres
