// The answer to a claim: whether this consumer may cause the event's effect now.
#pragma once

#include <cstdint>

namespace dovetail {

struct Claim {
  enum class State : std::uint8_t {
    first,        // we hold it until the lease ends
    duplicate,    // completed before
    in_progress,  // another worker holds it, and its lease has not ended
    forgotten,    // too old: it may have been applied and forgotten; we do not hold it
    conflict,     // another event has this id with another payload; we do not hold it
  };
  State state = State::first;
  std::int64_t epoch = 0;      // of a claim that we hold; unique among the event's claims
  std::uint32_t attempts = 0;  // claims counted so far, including this one
};

}  // namespace dovetail
