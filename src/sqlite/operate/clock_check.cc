#include "sqlite/operate/clock_check.h"

namespace dovetail::sqlite {

namespace {

Status read_other_boots(Database& database, const std::string& boot, ClockMarks& known) {
  Statement select;
  DOVETAIL_TRY(database.prepare(
      select, "SELECT max(wall), max(doubted_wall) FROM dovetail_clock_mark WHERE boot <> ?1"));
  const Result<bool> row = select.bind_text(1, boot).step();
  if (!row) return fail(row.error());
  if (!select.is_null(0)) known.trusted_before = from_stored(select.integer(0));
  if (!select.is_null(1)) known.doubted_before = from_stored(select.integer(1));
  return {};
}

}  // namespace

Status check_clock(Database& database, const std::string& boot, const ClockMark& now) {
  Result<Transaction> transaction = Transaction::begin(database.get(), "looking at the clock");
  if (!transaction) return fail(transaction.error());
  Statement select;
  DOVETAIL_TRY(database.prepare(select,
                                "SELECT wall, boot_time, doubted_wall, doubted_boot_time FROM "
                                "dovetail_clock_mark WHERE boot = ?1"));
  const Result<bool> row = select.bind_text(1, boot).step();
  if (!row) return fail(row.error());
  const auto mark = [&](int column) {
    return ClockMark{from_stored(select.integer(column)),
                     TimePoint(Duration(select.integer(column + 1)))};
  };
  ClockMarks known;
  if (*row && !select.is_null(0)) known.trusted = mark(0);
  if (*row && !select.is_null(2)) known.doubted = mark(2);
  select.reset();
  DOVETAIL_TRY(read_other_boots(database, boot, known));
  const ClockVerdict verdict = judge_clock(known, now);
  // What was before this boot is needed until the clock is trusted in it.
  Statement forget;
  DOVETAIL_TRY(database.prepare(forget, "DELETE FROM dovetail_clock_mark WHERE boot = ?1 OR ?2"));
  DOVETAIL_TRY(forget.bind_text(1, boot).bind(2, verdict.is_trusted ? 1 : 0).run());
  Statement replace;
  DOVETAIL_TRY(
      database.prepare(replace, "INSERT INTO dovetail_clock_mark VALUES (?1, ?2, ?3, ?4, ?5)"));
  const auto bind = [&](int column, const ClockMark& one) {
    replace.bind(column, to_stored(one.wall))
        .bind(column + 1, one.steady.time_since_epoch().count());
  };
  replace.bind_text(1, boot).bind_null(2).bind_null(3).bind_null(4).bind_null(5);
  if (verdict.marks.trusted) bind(2, *verdict.marks.trusted);
  if (verdict.marks.doubted) bind(4, *verdict.marks.doubted);
  DOVETAIL_TRY(replace.run());
  DOVETAIL_TRY(transaction->commit("looking at the clock"));
  if (verdict.is_trusted) return {};
  return fail(Errc::unavailable, database.file() + ": " + clock_was_set(known, now));
}

}  // namespace dovetail::sqlite
