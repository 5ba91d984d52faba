#include "console/refusals.h"

#include <algorithm>
#include <utility>

#include "assembly/database.h"

namespace dovetail::console {

namespace {

bool are_same(const Refusals::One& one, const Refusals::One& other) {
  return one.who == other.who && one.what == other.what && one.peer == other.peer;
}

bool note(const config::Config& config, const Refusals::One& one, std::uint64_t times) {
  const std::string reason = one.who + std::string(kByConsole) + "refused, from " + one.peer;
  return std::any_of(config.stores.begin(), config.stores.end(), [&](const auto& store) {
    return !store.is_broker() && store.unusable.empty() &&
           assembly::database_of(store)->note_refusal(one.what, times, reason);
  });
}

}  // namespace

void Refusals::add(One one) {
  const std::lock_guard lock(mutex_);
  last_.push_front(std::move(one));
  if (last_.size() > kKept) last_.pop_back();
}

std::deque<Refusals::One> Refusals::all() const {
  const std::lock_guard lock(mutex_);
  return last_;
}

std::vector<Refusals::Same> Refusals::oldest() const {
  const std::lock_guard lock(mutex_);
  std::vector<Same> groups;
  for (auto one = last_.rbegin(); one != last_.rend(); ++one) {
    const auto group = std::find_if(groups.begin(), groups.end(),
                                    [&](const Same& each) { return are_same(each.first, *one); });
    if (group != groups.end())
      ++group->times;
    else if (groups.size() < kWrittenAtOnce)
      groups.push_back({*one, 1});
  }
  return groups;
}

// Those that came since stay.
void Refusals::forget(const Same& same) {
  const std::lock_guard lock(mutex_);
  std::uint64_t left = same.times;
  for (std::size_t i = last_.size(); i-- > 0 && left > 0;) {
    if (!are_same(last_[i], same.first)) continue;
    last_.erase(last_.begin() + static_cast<std::ptrdiff_t>(i));
    --left;
  }
}

void Refusals::write(const config::Config& config) {
  for (const Same& same : oldest()) {
    if (!note(config, same.first, same.times)) return;
    forget(same);
  }
}

}  // namespace dovetail::console
