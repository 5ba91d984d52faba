#include "core/clock_mark.h"

#include <chrono>

#include "core/time_text.h"

namespace dovetail {

namespace {

constexpr Duration kTolerance = std::chrono::hours(1);
constexpr Duration kSettled = std::chrono::hours(1);

Duration set_by(const ClockMark& then, const ClockMark& now) {
  return (now.wall - then.wall) - (now.steady - then.steady);
}

std::string text_of(WallTime time) {
  char text[kTimeTextBytes];
  write_time(time, text);
  return {text, sizeof text};
}

bool runs_evenly(const ClockMark& then, const ClockMark& now) {
  const Duration step = set_by(then, now);
  return step <= kTolerance && step >= -kTolerance;
}

}  // namespace

ClockVerdict judge_clock(const ClockMarks& known, const ClockMark& now) {
  if (!known.trusted) return {true, Duration{0}, {now, std::nullopt}};
  const Duration step = set_by(*known.trusted, now);
  if (runs_evenly(*known.trusted, now)) return {true, step, {now, std::nullopt}};
  if (!known.doubted || !runs_evenly(*known.doubted, now))
    return {false, step, {known.trusted, now}};
  if (now.steady - known.doubted->steady >= kSettled) return {true, step, {now, std::nullopt}};
  return {false, step, known};
}

std::string clock_was_set(const ClockMarks& known, const ClockMark& now) {
  const WallTime expected = known.trusted->wall + (now.steady - known.trusted->steady);
  return "the clock was set: it says " + text_of(now.wall) + " where " + text_of(expected) +
         " was expected; nothing is deleted until it is set back, or has run evenly for an hour; "
         "check the clock";
}

std::optional<std::string> clocks_disagree(WallTime database, WallTime machine) {
  const Duration apart = database > machine ? database - machine : machine - database;
  if (apart <= kTolerance) return std::nullopt;
  return "the clock of the database says " + text_of(database) + ", that of this machine " +
         text_of(machine) + "; nothing is deleted while they disagree; check both clocks";
}

}  // namespace dovetail
