#include "sql/retention.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <utility>

#include "core/inbox/clock_mark.h"
#include "core/inbox/forgotten.h"

namespace dovetail {

namespace {

// What is known as not applied is seldom much, and may be parked for long.
constexpr Duration kUnappliedKept = std::chrono::hours(24 * 366);
constexpr std::string_view kDoing = "pruning the inbox";

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

Status keep_marks(SqlSession& session, const ClockStatements& sql, const std::string& boot,
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
  Result<SqlTransaction> transaction = SqlTransaction::begin(session, "looking at the clock");
  if (!transaction) return fail(transaction.error());
  const Result<WallTime> wall = now_of(session, sql, clock);
  if (!wall) return wall;
  const ClockMark now{*wall, clock.now()};
  const Result<SqlRows> rows = session.run(sql.marks, SqlParams().text(boot));
  if (!rows) return fail(rows.error());
  const ClockMarks known{mark_in(*rows, 0), mark_in(*rows, 2), wall_in(*rows, 4),
                         wall_in(*rows, 5)};
  const ClockVerdict verdict = judge_clock(known, now);
  DOVETAIL_TRY(keep_marks(session, sql, boot, verdict, now.wall));
  DOVETAIL_TRY(transaction->commit());
  if (verdict.is_trusted) return now.wall;
  return fail(Errc::unavailable, std::string(place) + ": " + clock_was_set(known, now));
}

Status check_clocks_agree(SqlSession& session, const ClockStatements& sql, Clock& clock) {
  const Result<WallTime> now = now_of(session, sql, clock);
  if (!now) return fail(now.error());
  return {};
}

Status check_retention(const RetentionOptions& options) {
  for (const Duration age : {options.events_older_than, options.parked_older_than,
                             options.audit_older_than, options.inbox_older_than})
    if (age < Duration{0})
      return fail(Errc::rejected, "a retention time is negative; check the retention");
  if (options.batch_max == 0)
    return fail(Errc::rejected,
                "batch_max is 0, so nothing could be deleted; set it to at least 1");
  return {};
}

// A row of the inbox, and until when its consumer may have forgotten events once it is deleted.
struct SqlRetention::InboxRow {
  std::int64_t consumer = -1;
  EventId id{};
  WallTime applied_at{};
  WallTime until{};
};

template <class Step>
Status SqlRetention::repeat(const Step& step) {
  std::size_t left = options_.rows_max;
  while (left > 0) {
    const std::size_t limit = std::min(left, options_.batch_max);
    // Rows that it deleted, and whether there may be more.
    const Result<std::pair<std::uint64_t, bool>> done = step(limit);
    if (!done) return fail(done.error());
    if (!done->second) return {};
    left -= std::min<std::size_t>(left, done->first);
    pause();
  }
  report_.finished = false;
  return {};
}

Status SqlRetention::run() {
  DOVETAIL_TRY(prepare());
  for (const RetentionStatements::Box& box : sql_.boxes) DOVETAIL_TRY(clean_box(box));
  DOVETAIL_TRY(sweep(sql_.parked, {now_ - options_.parked_older_than}, report_.parked));
  DOVETAIL_TRY(sweep(sql_.audit, {now_ - options_.audit_older_than}, report_.audit));
  const WallTime before = now_ - options_.inbox_older_than;
  DOVETAIL_TRY(keep_unapplied(before));
  DOVETAIL_TRY(forget_inbox(before));
  DOVETAIL_TRY(sweep(sql_.attempts, {before}, report_.attempts));
  DOVETAIL_TRY(sweep(sql_.claims, {before}, report_.claims));
  const Duration unapplied = std::max<Duration>(options_.inbox_older_than, kUnappliedKept);
  DOVETAIL_TRY(sweep(sql_.unapplied, {now_ - unapplied}, report_.attempts));
  return sweep(sql_.requests->prune, {}, report_.requests);
}

Status SqlRetention::sweep(const std::string& sql, std::initializer_list<WallTime> times,
                           std::uint64_t& deleted) {
  if (sql.empty()) return {};
  return repeat([&](std::size_t limit) -> Result<std::pair<std::uint64_t, bool>> {
    SqlParams params;
    params.integer(static_cast<std::int64_t>(limit));
    for (const WallTime time : times) params.time(time);
    const Result<SqlRows> gone = session_.run(sql, params);
    if (!gone) return fail(gone.error());
    const std::uint64_t rows = count_in(*gone);
    deleted += rows;
    return std::pair(rows, rows >= limit);
  });
}

// One page after the other, so that rows which must stay are walked over once. It ends at the first
// page that is too young.
Status SqlRetention::clean_box(const RetentionStatements::Box& box) {
  const WallTime before = now_ - options_.events_older_than;
  const Result<SqlRows> hindrance = session_.run(box.hindrance);
  if (!hindrance) return fail(hindrance.error());
  if (!hindrance->is_null(0, 0)) {
    report_.notes.push_back(hindrance->bytes(0, 0));
    return {};
  }
  DOVETAIL_TRY(drop_events(box, before));
  std::int64_t after = 0;
  DOVETAIL_TRY(repeat([&](std::size_t limit) -> Result<std::pair<std::uint64_t, bool>> {
    const Result<SqlRows> page = session_.run(
        box.page,
        SqlParams().integer(static_cast<std::int64_t>(limit)).time(before).integer(after));
    if (!page) return fail(page.error());
    if (page->is_null(0, 0) || !page->boolean(0, 1)) return std::pair(std::uint64_t{0}, false);
    const std::int64_t last = page->integer(0, 0);
    const Result<SqlRows> gone =
        session_.run(box.remove, SqlParams().integer(after).integer(last).time(before));
    if (!gone) return fail(gone.error());
    after = last;
    const auto rows = static_cast<std::uint64_t>(gone->affected());
    report_.*box.count += rows;
    return std::pair(rows, true);
  }));
  std::uint64_t receipts = 0;
  return sweep(box.receipts, {}, receipts);
}

// What is parked here, and not applied as long as that is known, is written down as such: it may be
// replayed at any time.
Status SqlRetention::keep_unapplied(WallTime before) {
  std::int64_t after = 0;
  while (true) {
    const Result<std::size_t> rows = note_page(after, before);
    if (!rows) return fail(rows.error());
    if (*rows == 0) return {};
  }
}

Result<std::size_t> SqlRetention::note_page(std::int64_t& after, WallTime before) {
  const Result<SqlRows> rows =
      session_.run(sql_.parked_events, SqlParams()
                                           .integer(after)
                                           .integer(static_cast<std::int64_t>(options_.batch_max))
                                           .time(before + kSkewMax));
  if (!rows) return fail(rows.error());
  std::vector<SqlParams> notes;
  for (std::size_t i = 0; i < rows->size(); ++i) {
    after = rows->integer(i, 0);
    if (rows->is_null(i, 1)) continue;
    Event event;
    event.id = rows->id(i, 2);
    event.created_at = rows->time(i, 3);
    if (is_forgotten(event, before) && !is_forgotten(event, rows->time(i, 4)))
      notes.push_back(SqlParams().integer(rows->integer(i, 1)).id(event.id));
  }
  if (!notes.empty()) {
    Result<SqlTransaction> transaction = SqlTransaction::begin(session_, kDoing);
    if (!transaction) return fail(transaction.error());
    DOVETAIL_TRY(run_each(sql_.note_unapplied, notes));
    DOVETAIL_TRY(transaction->commit());
  }
  return rows->size();
}

// Walks once through what was applied long ago, and reads without a lock. A row stays whose event
// would not be known as forgotten. Without a digest nobody wrote down when the event came to be.
Status SqlRetention::forget_inbox(WallTime before) {
  InboxRow last;
  return repeat([&](std::size_t limit) -> Result<std::pair<std::uint64_t, bool>> {
    const Result<SqlRows> rows =
        session_.run(sql_.inbox_rows, SqlParams()
                                          .integer(last.consumer)
                                          .id(last.id)
                                          .time(last.applied_at)
                                          .time(before - kSkewMax)
                                          .integer(static_cast<std::int64_t>(limit)));
    if (!rows) return fail(rows.error());
    std::vector<InboxRow> found;
    for (std::size_t i = 0; i < rows->size(); ++i) {
      last = {rows->integer(i, 0), rows->id(i, 1), rows->time(i, 2), WallTime::min()};
      last.until = time_of(last.id).value_or(WallTime::min());
      if (!rows->is_null(i, 4)) last.until = std::max(last.until, rows->time(i, 4));
      if (!rows->boolean(i, 3) || last.until == WallTime::min())
        last.until = std::max(last.until, last.applied_at + kSkewMax);
      if (last.until < before) found.push_back(last);
    }
    DOVETAIL_TRY(forget(found));
    return std::pair(std::uint64_t{found.size()}, rows->size() >= limit);
  });
}

// The line moves in the transaction that deletes the rows.
Status SqlRetention::forget(const std::vector<InboxRow>& rows) {
  if (rows.empty()) return {};
  std::vector<SqlParams> gone;
  std::vector<SqlParams> known;
  std::map<std::int64_t, WallTime> until;
  for (const InboxRow& row : rows) {
    known.push_back(SqlParams().integer(row.consumer).id(row.id));
    gone.push_back(known.back());
    gone.back().time(row.applied_at);
    WallTime& line = until.try_emplace(row.consumer, row.until).first->second;
    line = std::max(line, row.until);
  }
  std::vector<SqlParams> lines;
  for (const auto& [consumer, line] : until)
    lines.push_back(SqlParams().integer(consumer).time(line));
  Result<SqlTransaction> transaction = SqlTransaction::begin(session_, kDoing);
  if (!transaction) return fail(transaction.error());
  DOVETAIL_TRY(run_each(sql_.move_line, lines));
  DOVETAIL_TRY(run_each(sql_.forget_row, gone));
  DOVETAIL_TRY(run_each(sql_.forget_unapplied, known));
  DOVETAIL_TRY(transaction->commit());
  report_.inbox += rows.size();
  return {};
}

Status SqlRetention::run_each(const std::string& sql, const std::vector<SqlParams>& sets) {
  const Result<std::vector<SqlRows>> done = session_.run_each(sql, sets);
  if (!done) return fail(done.error());
  return {};
}

}  // namespace dovetail
