// Tracks which submitted events are confirmed, for sinks whose broker answers event by event, in
// any order and sometimes twice.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "core/relay/sink.h"

namespace dovetail {

// Every submitted event gets a tag, counted from 1. For one thread.
class ConfirmTracker {
 public:
  // Starts a batch of `count` events; returns the tag of its first.
  std::uint64_t add_batch(std::size_t count);

  // Sets the outcome of one event. The first outcome counts: a repeat or an unknown tag changes
  // nothing.
  void resolve(std::uint64_t tag, Outcome outcome);
  // The same for every unresolved tag up to and including `tag`.
  void resolve_through(std::uint64_t tag, const Outcome& outcome);

  bool oldest_is_complete() const;
  // Moves the outcomes of the oldest batch out. REQUIRES: oldest_is_complete().
  void take_oldest(std::span<Outcome> outcomes);

  std::size_t unresolved() const { return unresolved_; }
  void clear();  // forgets all events; tags continue to grow

 private:
  struct Pending {
    std::uint64_t first_tag;
    std::size_t unresolved;
    std::vector<Outcome> outcomes;
    std::vector<bool> resolved;
  };
  void mark(Pending& batch, std::size_t index, Outcome outcome);

  std::deque<Pending> batches_;
  std::uint64_t next_tag_ = 1;
  std::size_t unresolved_ = 0;
};

}  // namespace dovetail
