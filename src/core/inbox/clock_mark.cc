#include "core/inbox/clock_mark.h"

#include <chrono>

#include "core/event/time_text.h"

namespace dovetail {

namespace {

constexpr Duration kTolerance = std::chrono::hours(1);
constexpr Duration kSettled = std::chrono::hours(1);
// A machine may be off, or unchecked, this long without a doubt about its clock.
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
  // A doubt about a time in the past does not affect a time ahead, and vice versa.
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
    return "the clock may be wrong: at the first check after the start of the machine it shows " +
           text_of(now.wall) + ", at the last check before it showed " +
           text_of(*known.trusted_before) +
           "; nothing is deleted until the clock has run evenly for an hour; check the clock";
  const WallTime expected = known.trusted->wall + (now.steady - known.trusted->steady);
  return "the clock was set: it shows " + text_of(now.wall) + ", expected was " +
         text_of(expected) +
         "; nothing is deleted until it is set back or has run evenly for an hour; check the clock";
}

std::optional<std::string> clocks_disagree(WallTime database, WallTime machine) {
  const Duration apart = database > machine ? database - machine : machine - database;
  if (apart <= kTolerance) return std::nullopt;
  return "the database's clock shows " + text_of(database) + ", the clock of this machine " +
         text_of(machine) + "; nothing is deleted while they differ; check both clocks";
}

}  // namespace dovetail
