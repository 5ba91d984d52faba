// What an operator has ordered for a relay: to stop for a while, in all of its processes.
#pragma once

#include <cstdint>
#include <string_view>

namespace dovetail {

enum class Hold : std::uint8_t {
  none,
  paused,    // what is in flight finishes; then the lease is released, and nobody takes it
  draining,  // nothing new is read; what is in flight or waits for its next try is delivered
  drained,   // draining has ended; nobody takes the lease
};

// The stored texts: "", "paused", "draining" or "drained".
std::string_view to_string(Hold hold);
// An unknown text of a newer version holds the relay, too: `paused`.
Hold parse_hold(std::string_view stored);

// Nobody may take the lease.
constexpr bool stops(Hold hold) { return hold == Hold::paused || hold == Hold::drained; }

}  // namespace dovetail
