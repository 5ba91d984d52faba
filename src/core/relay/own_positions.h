// For a source whose broker does not number messages.
#pragma once

#include <cstdint>

namespace dovetail {

// Such a source makes positions from the wall clock. That clock may have been set back since the
// last session, or belong to another machine. But parking orders the events of a key by
// position.
class OwnPositions {
 public:
  virtual ~OwnPositions() = default;
  // Call it before open(): all new positions are greater.
  virtual void begin_after(std::int64_t position) = 0;
};

}  // namespace dovetail
