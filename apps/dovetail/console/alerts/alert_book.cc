#include "console/alerts/alert_book.h"

#include <algorithm>

namespace dovetail::console {
namespace {

constexpr Duration kGone = std::chrono::seconds(15);

std::string key_of(const app::Problem& problem) {
  return std::string(to_string(problem.kind)) + '\0' + problem.where.store + '\0' +
         problem.where.relay;
}

}  // namespace

// What needs a person is told at once.
bool AlertBook::is_worth_telling(const Entry& entry, WallTime wall, TimePoint now) const {
  using enum app::ProblemKind;
  const app::Problem& problem = entry.problem;
  switch (problem.kind) {
    case parked:
    case lag:
    case relay_halted:
    case wrong_mapping:
    case database_unusable:
    case wal_budget:
    case slot_lost:
    case clock_step:
      return true;
    case paused:
      return false;
    default:
      break;
  }
  if (problem.severity != Severity::error) return false;
  const Duration lasted = problem.since ? wall - *problem.since : Duration{0};
  return std::max(lasted, now - entry.first_at) >= away_max_;
}

std::vector<Alert> AlertBook::news(const std::vector<app::Problem>& problems, WallTime wall,
                                   TimePoint now) {
  std::vector<Alert> news;
  for (const app::Problem& problem : problems) {
    Entry& entry = entries_.try_emplace(key_of(problem), Entry{{}, now, now}).first->second;
    entry.problem = problem;
    entry.last_at = now;
    if (entry.is_told || !is_worth_telling(entry, wall, now)) continue;
    entry.is_told = true;
    news.push_back({Alert::State::raised, problem, ++open_});
  }
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    if (now - entry->second.last_at < kGone) {
      ++entry;
      continue;
    }
    if (entry->second.is_told)
      news.push_back({Alert::State::cleared, entry->second.problem, --open_});
    entry = entries_.erase(entry);
  }
  return news;
}

}  // namespace dovetail::console
