#include "console/refusals.h"

#include <utility>

namespace dovetail::console {

void Refusals::add(One one) {
  const std::lock_guard lock(mutex_);
  last_.push_front(std::move(one));
  if (last_.size() > kKept) last_.pop_back();
}

std::deque<Refusals::One> Refusals::all() const {
  const std::lock_guard lock(mutex_);
  return last_;
}

}  // namespace dovetail::console
