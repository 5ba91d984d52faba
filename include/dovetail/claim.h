// How an event is held while its effect happens: what a claim of it says.
#pragma once

#include <cstdint>

namespace dovetail {

struct Claim {
  enum class State : std::uint8_t {
    first,        // it is ours until the lease ends
    duplicate,    // completed before
    in_progress,  // another holds it, and its lease has not ended
    forgotten,    // so old that it may have been completed and forgotten since; not ours
    conflict,     // another event has the same id and another payload; not ours
  };
  State state = State::first;
  std::int64_t epoch = 0;      // of a claim that is ours; no other claim of the event ever has it
  std::uint32_t attempts = 0;  // claims that count so far, with this one
};

}  // namespace dovetail
