// What a relay does now, for operators. The store keeps it, so that every process can show
// it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/clock.h"

namespace dovetail {

// All times are relative to the moment of the report. A store adds them to its own clock, and
// readers compare them with that clock only.
struct RelayState {
  enum class Kind : std::uint8_t {
    standby,      // another relay owns the lane
    held,         // an operator has paused or drained it
    delivering,   // also when nothing is pending
    backing_off,  // the sink or a store is unavailable or sick; it retries
    halted,       // something is wrong and needs a change; it still retries
  };
  Kind kind = Kind::standby;
  Duration since{};          // how long it has been in this state
  std::string last_error{};  // why; empty while delivering
  Duration next_try{};       // the time until the next try; 0 while delivering
};

// "standby", "held", "delivering", "backing_off" or "halted". The first two are not stored: the
// lane's row says more.
std::string_view to_string(RelayState::Kind kind);

}  // namespace dovetail
