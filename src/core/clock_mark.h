// Whether a wall clock can be trusted before something is deleted because of its age.
#pragma once

#include <optional>
#include <string>

#include "core/clock.h"

namespace dovetail {

// The same moment by two clocks: the wall clock that ages are counted by, and one that never steps.
struct ClockMark {
  WallTime wall{};
  TimePoint steady{};
};

// What is kept between two looks, of each machine that looks.
struct ClockMarks {
  std::optional<ClockMark> trusted{};  // none: nobody has looked since the machine was started
  std::optional<ClockMark> doubted{};  // when the wall clock was first seen to have been set
};

struct ClockVerdict {
  bool is_trusted = true;
  Duration set_by{};   // how far the wall clock was set since it was trusted last
  ClockMarks marks{};  // to keep for the next look
};

// A wall clock that has moved by more than an hour more, or less, than the steady one was set, by
// hand or by an accident, and nobody knows which of its times is right. It is trusted again when it
// has run evenly for an hour, so that a correction needs nobody; a step that is taken back soon is
// never followed.
ClockVerdict judge_clock(const ClockMarks& known, const ClockMark& now);

// Why nothing is deleted, with both times.
std::string clock_was_set(const ClockMarks& known, const ClockMark& now);

// Why nothing is deleted where two clocks are more than an hour apart; none: they are not.
std::optional<std::string> clocks_disagree(WallTime database, WallTime machine);

}  // namespace dovetail
