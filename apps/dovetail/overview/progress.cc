#include "overview/progress.h"

#include <algorithm>

#include "config/units.h"

namespace dovetail::app {
namespace {

constexpr Duration kWindow = std::chrono::minutes(2);
constexpr Duration kWindowMin = std::chrono::seconds(2);
constexpr std::uint64_t kLong = 10'000;  // fewer are gone before somebody has read the line

double seconds(Duration duration) { return static_cast<double>(duration.count()) / 1e6; }

}  // namespace

void Progress::add(const std::string& relay, std::uint64_t pending, WallTime at) {
  std::deque<Sample>& samples = samples_[relay];
  // A clock that was set back would make the rate nonsense.
  if (!samples.empty() && at <= samples.back().at) samples.clear();
  samples.push_back({at, pending});
  while (samples.front().at < at - kWindow) samples.pop_front();
}

std::optional<CatchUp> Progress::of(const std::string& relay) const {
  const auto found = samples_.find(relay);
  if (found == samples_.end() || found->second.size() < 2) return std::nullopt;
  const Sample& last = found->second.back();
  // A burst that just arrived is not part of the way down.
  const auto highest = std::max_element(
      found->second.begin(), found->second.end(),
      [](const Sample& one, const Sample& other) { return one.pending < other.pending; });
  const Duration took = last.at - highest->at;
  if (last.pending < kLong || took < kWindowMin || highest->pending <= last.pending)
    return std::nullopt;
  CatchUp catch_up;
  catch_up.pending = last.pending;
  catch_up.per_second = static_cast<double>(highest->pending - last.pending) / seconds(took);
  const double left_s = static_cast<double>(last.pending) / catch_up.per_second;
  catch_up.left = Duration{static_cast<std::int64_t>(std::min(left_s, 1e9) * 1e6)};
  return catch_up;
}

std::string Progress::line(const std::string& relay, const CatchUp& catch_up) {
  return relay + " catches up: " + config::human_count(catch_up.pending) + " events are left, " +
         config::human_count(static_cast<std::uint64_t>(catch_up.per_second)) +
         " fewer each second, done in about " + config::human_duration(catch_up.left);
}

std::vector<std::string> Progress::lines() const {
  std::vector<std::string> lines;
  for (const auto& [relay, samples] : samples_) {
    if (const auto catch_up = of(relay)) lines.push_back(line(relay, *catch_up));
  }
  return lines;
}

}  // namespace dovetail::app
