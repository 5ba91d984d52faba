// What makes a daemon not ready, and what does not.
#include "console/watch/readiness.h"

#include <gtest/gtest.h>

namespace dovetail::console {
namespace {

using app::Problem;
using app::ProblemKind;
using namespace std::chrono_literals;

constexpr WallTime kNow = WallTime{} + 10h;

Problem problem(ProblemKind kind, std::string relay, std::optional<Duration> lasted,
                Severity severity = Severity::error) {
  Problem problem;
  problem.kind = kind;
  problem.severity = severity;
  problem.where = {"shop", std::move(relay)};
  if (lasted) problem.since = kNow - *lasted;
  return problem;
}

bool is_ready(const Problem& problem) {
  return readiness_of({problem}, {"out"}, kNow, 1min).is_ready;
}

TEST(ReadinessTest, WhatMayPassByItselfCountsWhenItLasts) {
  EXPECT_TRUE(readiness_of({}, {"out"}, kNow, 1min).is_ready);
  EXPECT_TRUE(is_ready(problem(ProblemKind::broker_away, "out", 59s)));
  EXPECT_FALSE(is_ready(problem(ProblemKind::broker_away, "out", 1min)));
  EXPECT_TRUE(is_ready(problem(ProblemKind::database_away, "", 59s)));
  EXPECT_FALSE(is_ready(problem(ProblemKind::database_away, "", 61s)));
}

TEST(ReadinessTest, WhatNeedsAChangeCountsAtOnce) {
  EXPECT_FALSE(is_ready(problem(ProblemKind::relay_halted, "out", 0s)));
  EXPECT_FALSE(is_ready(problem(ProblemKind::wrong_mapping, "out", std::nullopt)));
  const Readiness readiness =
      readiness_of({problem(ProblemKind::parked, "out", 1h, Severity::warning),
                    problem(ProblemKind::relay_halted, "out", 0s)},
                   {"out"}, kNow, 1min);
  ASSERT_EQ(readiness.reasons.size(), 1U);
  EXPECT_EQ(readiness.reasons[0].kind, ProblemKind::relay_halted);
}

TEST(ReadinessTest, WhatIsPausedParkedLateOrOfOthersDoesNot) {
  EXPECT_TRUE(is_ready(problem(ProblemKind::paused, "out", 1h, Severity::note)));
  EXPECT_TRUE(is_ready(problem(ProblemKind::parked, "out", 1h, Severity::warning)));
  EXPECT_TRUE(is_ready(problem(ProblemKind::lag, "out", 1h, Severity::warning)));
  EXPECT_TRUE(is_ready(problem(ProblemKind::relay_halted, "of another process", 1h)));
}

}  // namespace
}  // namespace dovetail::console
