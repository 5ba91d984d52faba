// Raised once, cleared after a while, all clear.
#include "console/alerts/alert_book.h"

#include <gtest/gtest.h>

namespace dovetail::console {
namespace {

using app::Problem;
using app::ProblemKind;
using namespace std::chrono_literals;

class AlertBookTest : public ::testing::Test {
 protected:
  static Problem problem(ProblemKind kind, Severity severity = Severity::error) {
    Problem problem;
    problem.kind = kind;
    problem.severity = severity;
    problem.title = to_string(kind);
    problem.where.relay = "out";
    return problem;
  }
  // What was said, a second after the last call.
  std::vector<std::string> say(const std::vector<Problem>& problems, Duration later = 1s) {
    now_ += later;
    std::vector<std::string> said;
    for (const Alert& alert : book_.news(problems, WallTime{} + now_, TimePoint{} + now_))
      said.push_back((alert.state == Alert::State::raised ? "+" : "-") + alert.problem.title + " " +
                     std::to_string(alert.open));
    return said;
  }
  using Said = std::vector<std::string>;

  Duration now_ = 1h;
  AlertBook book_{1min};
};

TEST_F(AlertBookTest, WhatNeedsAPersonIsToldAtOnceAndOnce) {
  const auto halted = problem(ProblemKind::relay_halted);
  EXPECT_EQ(say({halted}), Said{"+relay-halted 1"});
  EXPECT_EQ(say({halted}), Said{});
  EXPECT_EQ(say({halted, problem(ProblemKind::parked, Severity::warning)}), Said{"+parked 2"});
}

TEST_F(AlertBookTest, WhatMayPassByItselfIsToldWhenItLasts) {
  const auto away = problem(ProblemKind::broker_away);
  EXPECT_EQ(say({away}), Said{});
  EXPECT_EQ(say({away}, 30s), Said{});
  EXPECT_EQ(say({away}, 31s), Said{"+broker-away 1"});
  auto old = problem(ProblemKind::database_away);
  old.since = WallTime{} + now_ - 2min;
  EXPECT_EQ(say({away, old}), Said{"+database-away 2"}) << "it was away before we came";
}

TEST_F(AlertBookTest, WhatIsGoneForAWhileIsClearedAndTheLastSaysAllClear) {
  const auto halted = problem(ProblemKind::relay_halted);
  const auto parked = problem(ProblemKind::parked, Severity::warning);
  EXPECT_EQ(say({halted, parked}), (Said{"+relay-halted 1", "+parked 2"}));
  EXPECT_EQ(say({parked}, 10s), Said{});
  EXPECT_EQ(say({halted, parked}, 10s), Said{}) << "it was not gone for long";
  EXPECT_EQ(say({parked}, 14s), Said{});
  EXPECT_EQ(say({parked}, 2s), Said{"-relay-halted 1"});
  EXPECT_EQ(say({}, 20s), Said{"-parked 0"});
  EXPECT_EQ(say({}), Said{});
}

TEST_F(AlertBookTest, WhatPassedSoonOrIsMeantToBeSoIsNotTold) {
  EXPECT_EQ(say({problem(ProblemKind::broker_away)}), Said{});
  EXPECT_EQ(say({}, 2min), Said{});
  EXPECT_EQ(say({problem(ProblemKind::paused, Severity::note)}, 1h), Said{});
  EXPECT_EQ(say({problem(ProblemKind::no_owner, Severity::warning)}, 1h), Said{});
}

}  // namespace
}  // namespace dovetail::console
