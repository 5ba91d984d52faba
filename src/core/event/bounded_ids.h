// Remembers a limited number of event ids.
#pragma once

#include <cstddef>
#include <set>

#include "dovetail/event.h"

namespace dovetail {

// When it is full, each new id replaces one old id. The others stay, so a set of events that keeps
// coming back is recognised even if it is larger than the limit.
class BoundedIds {
 public:
  explicit BoundedIds(std::size_t ids_max) : ids_max_(ids_max) {}

  // True: the id was not there.
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
