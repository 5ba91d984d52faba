#include "sql/clock_guard.h"

#include <optional>

#include "core/inbox/clock_mark.h"

namespace dovetail {

namespace {

std::optional<WallTime> wall_in(const SqlRows& rows, std::size_t column) {
  if (rows.is_null(0, column)) return std::nullopt;
  return rows.time(0, column);
}

std::optional<ClockMark> mark_in(const SqlRows& rows, std::size_t column) {
  if (rows.is_null(0, column)) return std::nullopt;
  return ClockMark{rows.time(0, column), TimePoint(rows.microseconds(0, column + 1))};
}

void add_mark(SqlParams& params, const std::optional<ClockMark>& mark) {
  if (mark) {
    params.time(mark->wall).microseconds(mark->steady.time_since_epoch());
  } else {
    params.null().null();
  }
}

// Fails if the two clocks differ.
Result<WallTime> now_of(SqlSession& session, const ClockStatements& sql, Clock& clock) {
  const Result<SqlRows> now = session.run(sql.now);
  if (!now) return fail(now.error());
  const WallTime wall = now->time(0, 0);
  const auto apart = clocks_disagree(wall, clock.wall());
  if (apart) return fail(Errc::unavailable, *apart);
  return wall;
}

Status keep(SqlSession& session, const ClockStatements& sql, const std::string& boot,
            const ClockVerdict& verdict, WallTime now) {
  if (verdict.is_trusted) {
    const Result<SqlRows> gone = session.run(sql.forget_marks, SqlParams().text(boot).time(now));
    if (!gone) return fail(gone.error());
  }
  SqlParams params;
  params.text(boot);
  add_mark(params, verdict.marks.trusted);
  add_mark(params, verdict.marks.doubted);
  const Result<SqlRows> kept = session.run(sql.mark, params);
  if (!kept) return fail(kept.error());
  return {};
}

}  // namespace

Result<WallTime> trusted_now(SqlSession& session, const ClockStatements& sql, Clock& clock,
                             const std::string& boot, std::string_view place) {
  constexpr std::string_view kDoing = "looking at the clock";
  Result<SqlTransaction> transaction = SqlTransaction::begin(session, kDoing);
  if (!transaction) return fail(transaction.error());
  const Result<WallTime> wall = now_of(session, sql, clock);
  if (!wall) return wall;
  const ClockMark now{*wall, clock.now()};
  const Result<SqlRows> rows = session.run(sql.marks, SqlParams().text(boot));
  if (!rows) return fail(rows.error());
  const ClockMarks known{mark_in(*rows, 0), mark_in(*rows, 2), wall_in(*rows, 4),
                         wall_in(*rows, 5)};
  const ClockVerdict verdict = judge_clock(known, now);
  DOVETAIL_TRY(keep(session, sql, boot, verdict, now.wall));
  DOVETAIL_TRY(transaction->commit());
  if (verdict.is_trusted) return now.wall;
  return fail(Errc::unavailable, std::string(place) + ": " + clock_was_set(known, now));
}

Status check_clocks_agree(SqlSession& session, const ClockStatements& sql, Clock& clock) {
  const Result<WallTime> now = now_of(session, sql, clock);
  if (!now) return fail(now.error());
  return {};
}

}  // namespace dovetail
