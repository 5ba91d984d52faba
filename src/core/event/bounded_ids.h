// Remembers a bounded number of events for a while.
#pragma once

#include <cstddef>
#include <set>

#include "dovetail/event.h"

namespace dovetail {

// When it is full, one is forgotten for each that is added; the others stay, so that events which
// come round and round are found again, however many there are.
class BoundedIds {
 public:
  explicit BoundedIds(std::size_t ids_max) : ids_max_(ids_max) {}

  // True: it was not there.
  bool insert(const EventId& id) {
    if (ids_.contains(id)) return false;
    if (!ids_.empty() && ids_.size() >= ids_max_) ids_.erase(ids_.begin());
    ids_.insert(id);
    return true;
  }
  void erase(const EventId& id) { ids_.erase(id); }
  bool contains(const EventId& id) const { return ids_.contains(id); }
  void clear() { ids_.clear(); }
  std::size_t size() const { return ids_.size(); }

 private:
  std::size_t ids_max_;
  std::set<EventId> ids_;
};

}  // namespace dovetail
