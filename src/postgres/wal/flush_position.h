// The rule by which the server is told what it need not keep.
#pragma once

#include <cstdint>
#include <deque>

#include "postgres/stream/position.h"

namespace dovetail::postgres {

// The position that may be reported is the last one at which every event handed out before it is
// settled. So a transaction counts when all of its events do, and a sign of life of the server,
// which comes behind everything before it, counts at once when nothing is in flight.
class FlushPosition {
 public:
  // Everything up to `position` was handed out, `events` in all since the start: the end of a
  // transaction, or a sign of life outside of one. Neither ever goes back.
  void reached(WalPosition position, std::uint64_t events);
  // So many events in all are settled, in the order in which they were handed out.
  void settled(std::uint64_t events);

  WalPosition confirmed() const { return confirmed_; }

 private:
  struct Reached {
    WalPosition position;
    std::uint64_t events;
  };
  void take();

  std::deque<Reached> waiting_;
  std::uint64_t settled_ = 0;
  WalPosition confirmed_{};
};

}  // namespace dovetail::postgres
