#include "core/inbox/clock_mark.h"

#include <chrono>

#include "core/event/time_text.h"

namespace dovetail {

namespace {

constexpr Duration kTolerance = std::chrono::hours(1);
constexpr Duration kSettled = std::chrono::hours(1);
// So long a machine may be off, or nobody look, without a doubt about its clock.
constexpr Duration kAwayMax = std::chrono::hours(36);

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

ClockVerdict trust(const ClockMark& now, Duration step) {
  ClockVerdict verdict;
  verdict.set_by = step;
  verdict.marks.trusted = now;
  return verdict;
}

ClockVerdict doubt(const ClockMarks& known, const ClockMark& since, Duration step) {
  ClockVerdict verdict;
  verdict.is_trusted = false;
  verdict.set_by = step;
  verdict.marks.trusted = known.trusted;
  verdict.marks.doubted = since;
  return verdict;
}

ClockVerdict judge_after_start(const ClockMarks& known, const ClockMark& now) {
  if (!known.trusted_before) return trust(now, Duration{0});
  const Duration away = now.wall - *known.trusted_before;
  const auto is_back = [&](WallTime wall) { return wall < *known.trusted_before - kTolerance; };
  // A doubt about a time in the past says nothing about a time ahead, and the reverse.
  const bool is_doubted = known.doubted_before && now.wall >= *known.doubted_before &&
                          is_back(now.wall) == is_back(*known.doubted_before);
  if (is_doubted && now.wall >= *known.doubted_before + kSettled) return trust(now, away);
  if (!is_doubted && away >= -kTolerance && away <= kAwayMax) return trust(now, Duration{0});
  if (!known.doubted || !runs_evenly(*known.doubted, now)) return doubt(known, now, away);
  if (now.steady - known.doubted->steady >= kSettled) return trust(now, away);
  return doubt(known, *known.doubted, away);
}

}  // namespace

ClockVerdict judge_clock(const ClockMarks& known, const ClockMark& now) {
  if (!known.trusted) return judge_after_start(known, now);
  const Duration step = set_by(*known.trusted, now);
  if (runs_evenly(*known.trusted, now)) return trust(now, step);
  if (!known.doubted || !runs_evenly(*known.doubted, now)) return doubt(known, now, step);
  if (now.steady - known.doubted->steady >= kSettled) return trust(now, step);
  return doubt(known, *known.doubted, step);
}

std::string clock_was_set(const ClockMarks& known, const ClockMark& now) {
  if (!known.trusted)
    return "the clock may be wrong: it says " + text_of(now.wall) +
           " at the first look after a start, and said " + text_of(*known.trusted_before) +
           " at the last one before; nothing is deleted until it has run evenly for an hour; check "
           "the clock";
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
