// Decides whether the wall clock can be trusted before rows are deleted by age.
#pragma once

#include <optional>
#include <string>

#include "core/clock.h"

namespace dovetail {

// One moment by two clocks: the wall clock, which gives ages, and one that never steps.
struct ClockMark {
  WallTime wall{};
  TimePoint steady{};
};

// What the store keeps between two checks, for each machine.
struct ClockMarks {
  std::optional<ClockMark> trusted{};  // empty: not trusted since the machine started
  std::optional<ClockMark> doubted{};  // when a step of the wall clock was first noticed
  // The last trusted time from another machine or before this start. Their steady clocks cannot be
  // compared with ours.
  std::optional<WallTime> trusted_before{};
  std::optional<WallTime> doubted_before{};
};

struct ClockVerdict {
  bool is_trusted = true;
  Duration set_by{};   // how far the wall clock stepped since it was last trusted
  ClockMarks marks{};  // store them for the next check of this machine
};

// If the wall clock and the steady clock have moved apart by more than an hour, the wall clock
// was set, and nobody knows which time is right. It is trusted again after an hour of even
// running, so a correction needs no operator, and a step that is soon taken back is never
// followed. At the first check after a start, only earlier wall clock times can be compared.
// The clock must not have gone back by an hour, or ahead by a day and a half, as after a lost
// battery, and no other machine may doubt it. Otherwise it must first run for an hour here, or
// until another machine checks it an hour later. Without any earlier check the clock is
// trusted.
ClockVerdict judge_clock(const ClockMarks& known, const ClockMark& now);

// Why nothing is deleted, with both times.
std::string clock_was_set(const ClockMarks& known, const ClockMark& now);

// Why nothing is deleted if two clocks differ by more than an hour; empty: they do not.
std::optional<std::string> clocks_disagree(WallTime database, WallTime machine);

}  // namespace dovetail
