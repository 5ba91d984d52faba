#include "console/watch/readiness.h"

namespace dovetail::console {
namespace {

// Nothing of this passes by itself.
bool needs_a_change(app::ProblemKind kind) {
  using enum app::ProblemKind;
  return kind == relay_halted || kind == wrong_mapping || kind == database_unusable;
}

}  // namespace

Readiness readiness_of(const std::vector<app::Problem>& problems,
                       const std::set<std::string>& relays, WallTime now, Duration away_max) {
  Readiness readiness;
  for (const app::Problem& problem : problems) {
    if (problem.severity != Severity::error) continue;
    if (!problem.where.relay.empty() && !relays.contains(problem.where.relay)) continue;
    const bool has_lasted = problem.since && now - *problem.since >= away_max;
    if (!needs_a_change(problem.kind) && !has_lasted) continue;
    readiness.is_ready = false;
    readiness.reasons.push_back(problem);
  }
  return readiness;
}

}  // namespace dovetail::console
