// For a source whose broker numbers nothing.
#pragma once

#include <cstdint>

namespace dovetail {

// Such a source makes up the positions of its events, from the wall clock. That clock may have been
// set back since the last session, or be that of another machine, and parking orders the events of
// a key by their positions.
class OwnPositions {
 public:
  virtual ~OwnPositions() = default;
  // Before open(): all positions from here on are greater.
  virtual void begin_after(std::int64_t position) = 0;
};

}  // namespace dovetail
