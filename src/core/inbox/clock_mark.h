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
  std::optional<ClockMark> trusted{};  // none: nobody has trusted it since the machine was started
  std::optional<ClockMark> doubted{};  // when the wall clock was first seen to have been set
  // The latest looks of other machines, or before this one was started: their steady clocks say
  // nothing here.
  std::optional<WallTime> trusted_before{};
  std::optional<WallTime> doubted_before{};
};

struct ClockVerdict {
  bool is_trusted = true;
  Duration set_by{};   // how far the wall clock was set since it was trusted last
  ClockMarks marks{};  // to keep for the next look; of this machine
};

// A wall clock that has moved by more than an hour more, or less, than the steady one was set, by
// hand or by an accident, and nobody knows which of its times is right. It is trusted again when it
// has run evenly for an hour, so that a correction needs nobody; a step that is taken back soon is
// never followed.
// At the first look after a start there is only the wall clock of earlier looks to compare with. It
// must not have gone back by an hour, nor ahead by a day and a half, as a clock does that lost its
// battery, nor be doubted by another machine: then it is first to run for an hour, or to be found
// an hour later by the next machine. Where nobody has ever looked, it is trusted.
ClockVerdict judge_clock(const ClockMarks& known, const ClockMark& now);

// Why nothing is deleted, with both times.
std::string clock_was_set(const ClockMarks& known, const ClockMark& now);

// Why nothing is deleted where two clocks are more than an hour apart; none: they are not.
std::optional<std::string> clocks_disagree(WallTime database, WallTime machine);

}  // namespace dovetail
