// What an operator does to a relay, and what follows from it. Commands, JSON and the dashboard show
// the consequences first, as they are.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "core/clock.h"

namespace dovetail {

struct Consequence {
  std::string kind;  // does not change, for scripts: "sent-again"
  std::string text;  // for people
};

// Where a relay continues.
struct SeekTo {
  enum class Kind : std::uint8_t {
    beginning,  // with the oldest event that is still there
    now,        // with what comes from now on
    position,   // with this event, by its number
    time,       // with the first event of this time or later
  };
  Kind kind = Kind::now;
  std::int64_t position = 0;
  WallTime time{};
};

// How many events a move of a relay sends again or skips.
struct SeekCounts {
  std::uint64_t again = 0;
  std::uint64_t skipped = 0;
  std::uint64_t discarded = 0;  // of those sent again: an operator had given them up
};

struct ActionRequest {
  std::string reason;    // recorded in the audit
  bool dry_run = false;  // changes nothing
  // The longest wait for the processes of the relay to let go of it.
  Duration wait_max = std::chrono::minutes(1);
};

struct ActionReport {
  bool is_done = false;  // false: a dry run
  std::vector<Consequence> consequences{};
  // Events.
  std::uint64_t pending = 0;
  std::uint64_t parked = 0;
  std::uint64_t waiting = 0;
  std::uint64_t sent_again = 0;
  std::uint64_t skipped = 0;
};

}  // namespace dovetail
