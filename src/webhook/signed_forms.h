// Events with signatures that are still valid. A signature covers id, time and body. Topic, type
// and key come from the path and from unsigned headers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <unordered_map>

#include "core/clock.h"
#include "dovetail/event.h"

namespace dovetail::http {

// One thread at a time. Forgets the oldest above `count_max`, and all when the process
// ends.
class SignedForms {
 public:
  SignedForms(Duration keep, std::size_t count_max) : keep_(keep), count_max_(count_max) {}

  // Whether the event is new, or has the same unsigned parts as before.
  bool agrees(const Event& event, TimePoint now);

  std::size_t size() const { return forms_.size(); }

 private:
  struct Hash {
    std::size_t operator()(const EventId& id) const;
  };
  struct Seen {
    EventId id;
    TimePoint at;
  };
  void forget(TimePoint now);

  Duration keep_;
  std::size_t count_max_;
  std::unordered_map<EventId, std::string, Hash> forms_;  // digests of the unsigned parts
  std::deque<Seen> seen_;                                 // oldest first
};

}  // namespace dovetail::http
