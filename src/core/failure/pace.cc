#include "core/failure/pace.h"

#include <cmath>

namespace dovetail {

void Pace::took(std::size_t events, Duration time) {
  if (events == 0) return;
  const double time_us = std::max(static_cast<double>(time.count()), 1.0);
  const double budget_us = static_cast<double>(budget_.count());
  const double each_us = time_us / static_cast<double>(events);
  learn(static_cast<double>(events), time_us);
  std::size_t fits = most_;
  if (each_us * static_cast<double>(most_) > budget_us && !(is_fixed_ && time_us > budget_us))
    fits = static_cast<std::size_t>(budget_us / each_us);
  limit_ = std::clamp<std::size_t>(std::min(fits, 2 * limit_), 1, most_);
}

void Pace::learn(double events, double time_us) {
  if (std::abs(events - last_events_) * 4 >= last_events_) {
    const double one_more_us = (time_us - last_us_) / (events - last_events_);
    is_fixed_ = last_events_ > 0 && std::abs(one_more_us) * events < time_us / 2;
  } else if (time_us > 1.5 * last_us_) {
    is_fixed_ = false;
  }
  last_events_ = events;
  last_us_ = time_us;
}

}  // namespace dovetail
