#include "core/inbox/handler_batch.h"

#include <algorithm>

namespace dovetail {

void HandlerBatch::begin(Events events) {
  events_.assign(events.begin(), events.end());
  rows.clear();
  unwanted_ = superseded_ = 0;
}

void HandlerBatch::tell(std::span<Arrival> arrivals) {
  tell_arrivals(rows, arrivals);
  std::vector<bool> is_wanted(events_.size(), false);
  for (const HandlerRow& row : rows) is_wanted[row.event] = true;
  unwanted_ = static_cast<std::uint64_t>(std::count(is_wanted.begin(), is_wanted.end(), false));
  superseded_ =
      static_cast<std::uint64_t>(std::count(arrivals.begin(), arrivals.end(), Arrival::superseded));
  not_applied_by_.clear();
  if (events_.size() != 1) return;
  alone_ = events_[0]->id;
  for (const HandlerRow& row : rows)
    if (row.arrival == Arrival::first) not_applied_by_.push_back(row.handler);
}

void HandlerBatch::choose(Events to_apply) {
  is_chosen_.assign(events_.size(), false);
  std::size_t at = 0;
  for (const Event* event : to_apply) {
    while (at < events_.size() && events_[at] != event) ++at;
    if (at < events_.size()) is_chosen_[at++] = true;
  }
}

Events HandlerBatch::events_for(std::uint32_t handler) {
  places_.clear();
  for (const HandlerRow& row : rows)
    if (row.handler == handler && row.arrival == Arrival::first && is_chosen_[row.event])
      places_.push_back(row.event);
  std::sort(places_.begin(), places_.end());
  chosen_.clear();
  for (const std::uint32_t place : places_) chosen_.push_back(events_[place]);
  return chosen_;
}

std::span<const std::uint32_t> HandlerBatch::not_applied_by(const EventId& id) const {
  if (alone_ == id) return not_applied_by_;
  return {};
}

}  // namespace dovetail
