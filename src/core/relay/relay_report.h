// What a relay does now, as an operator reads it. A store keeps it, so that every process can show
// it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/clock.h"

namespace dovetail {

// All times are relative to the moment of the report: a store that keeps them adds them to its own
// clock, and readers compare them with that clock only.
struct RelayState {
  enum class Kind : std::uint8_t {
    standby,      // another relay holds the lane
    delivering,   // also: ready, and there is nothing to deliver
    backing_off,  // the sink or a store is away or sick; it is tried again
    halted,       // what it works with is wrong and needs a change; it is tried again all the same
  };
  Kind kind = Kind::standby;
  Duration since{};          // it is in this state for so long
  std::string last_error{};  // why; empty while delivering
  Duration next_try{};       // so long until the next try; 0 while delivering
};

// As stores keep it: "standby", "delivering", "backing_off" or "halted".
std::string_view to_string(RelayState::Kind kind);

}  // namespace dovetail
