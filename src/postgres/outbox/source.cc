#include "postgres/outbox/source.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/check.h"
#include "postgres/outbox/snapshot.h"

namespace dovetail::postgres {

namespace {

using namespace std::chrono_literals;

constexpr std::int32_t kAdoptedAtOnce = 10'000;
constexpr std::int32_t kReleasedAtOnce = 1000;
// For delayed events, if the server is not asked anything else.
constexpr Duration kLookForDelayed = 250ms;
// If a window has nothing for this lane, the range of numbers per page grows up to this.
constexpr std::int64_t kSpanMax = 1'000'000;

constexpr std::string_view kWindow =
    "SELECT * FROM dovetail.read_window($1::xid8, $2::xid8[], $3, $4, $5, $6)";

constexpr std::string_view kBounds =
    "SELECT first, last FROM dovetail.window_bounds($1::xid8, $2::xid8[], $3::xid8)";

// The next events of a window that is read in pages: the lane's events between two numbers,
// in order. All of them (at most $8) if they have at most $9 bytes, else only the first.
// The last columns are the number of bytes, and the run of the server. The bounds keep it
// fast whatever the planner estimates, and no function is in between, which would copy
// every row.
const std::string kPageRows =
    "FROM dovetail.outbox AS o WHERE o.seq > $3 AND o.seq <= $4 AND ($5 OR "
    "dovetail.bucket(o.aggregate_type, o.aggregate_id, o.id) BETWEEN $6 AND $7) "
    "AND NOT pg_visible_in_snapshot(o.xid, $1::text::pg_snapshot) "
    "AND pg_visible_in_snapshot(o.xid, $2::text::pg_snapshot) ORDER BY o.seq LIMIT ";
const std::string kPage =
    "WITH page AS MATERIALIZED (SELECT coalesce(sum(size.bytes), 0)::bigint AS bytes FROM ("
    "SELECT octet_length(o.payload) + octet_length(o.headers) AS bytes " +
    kPageRows +
    "$8) AS size) "
    "SELECT o.seq, o.id, o.topic, o.aggregate_type, o.aggregate_id, o.type, o.content_type, "
    "o.headers, o.payload, o.aggregate_version, o.created_at, (SELECT bytes FROM page)" +
    (", " + kServerRun) + " " + kPageRows +
    "CASE WHEN (SELECT bytes FROM page) <= $9 THEN $8 ELSE 1 END";

// Then: whether delayed events are due, and the run of the server. Two snapshots can be compared
// within one run only.
const std::string kProbe =
    "SELECT pg_current_snapshot()::text, $1 AND coalesce((SELECT deliver_at <= clock_timestamp() "
    "FROM dovetail.delayed ORDER BY deliver_at, number LIMIT 1), false), " +
    kServerRun;

// Microseconds until the first delayed event is due.
constexpr std::string_view kFirstDelayed =
    "SELECT (extract(epoch FROM least(deliver_at - clock_timestamp(), interval '1 s')) * "
    "1000000)::bigint FROM dovetail.delayed ORDER BY deliver_at, number LIMIT 1";

constexpr std::string_view kRelease = "SELECT dovetail.release_delayed($1)";

// The parts of a snapshot's text, "xmin:xmax:xip,xip".
struct SnapshotParts {
  std::string xmax;
  std::string xip;  // as an array
};

SnapshotParts parts_of(const std::string& snapshot) {
  const std::size_t first = snapshot.find(':');
  const std::size_t second = snapshot.find(':', first + 1);
  DOVETAIL_CHECK(first != std::string::npos && second != std::string::npos);
  return {snapshot.substr(first + 1, second - first - 1), "{" + snapshot.substr(second + 1) + "}"};
}

// How many events to ask for if `events` of them had `bytes`, with some reserve.
std::size_t events_that_fit(std::int64_t events, std::int64_t bytes, std::int64_t bytes_max) {
  const double each = static_cast<double>(bytes) / static_cast<double>(events) + 1;
  return static_cast<std::size_t>(0.9 * static_cast<double>(bytes_max) / each) + 1;
}

}  // namespace

PostgresSource::PostgresSource(Reader& reader, Clock& clock, SourceOptions options)
    : reader_(reader), clock_(clock), options_(std::move(options)), row_(reader, clock) {}

Status PostgresSource::open() {
  window_end_ = 0;
  exhausted_.clear();
  asked_.reset();
  delayed_are_due_ = false;
  go_on();
  pause_ = options_.poll_min;
  look_again_at_ = {};
  return load_progress();
}

Status PostgresSource::load_progress() {
  Result<ProgressRow::Loaded> loaded = row_.load();
  if (!loaded) return fail(loaded.error());
  if (loaded->is_restored)
    options_.log("relay \"" + reader_.relay + "\", lane " + std::to_string(reader_.lane) +
                 ": the database was restored into another cluster, where its progress means "
                 "nothing; every event that is still there is sent again");
  DOVETAIL_TRY(adopt_foreign_rows());
  progress_.begin(std::move(loaded->position));
  return at().now.empty() ? Status{} : open_window(at().now);
}

Status PostgresSource::adopt_foreign_rows() {
  std::int64_t adopted = 0;
  while (true) {
    const Result<Rows> some = reader_.connection.query("SELECT dovetail.adopt_foreign_rows($1)",
                                                       Params().int4(kAdoptedAtOnce));
    if (!some) return fail(some.error());
    adopted += some->int8(0, 0);
    if (some->int8(0, 0) == 0) break;
  }
  if (adopted > 0)
    options_.log(std::to_string(adopted) +
                 " events come from another cluster; they count as published now");
  return {};
}

Status PostgresSource::read(Batch& out, const Limits& limits, std::stop_token stop) {
  DOVETAIL_TRY(row_.check());
  const std::size_t before = out.size();
  const TimePoint end = clock_.now() + limits.wait_max;
  while (true) {
    const TimePoint now = clock_.now();
    if (now >= look_again_at_) {
      DOVETAIL_TRY(row_.write_if_idle(progress_));
      DOVETAIL_TRY(read_now(out, limits));
      if (out.size() > before) {
        pause_ = options_.poll_min;
        look_again_at_ = {};
        return {};
      }
      if (has_ended()) return {};
      look_again_at_ = clock_.now() + pause_;
      pause_ = std::min(pause_ + pause_ / 4 + Duration{1}, options_.poll_max);
    }
    // A look that is due before the end is made, however late this thread wakes up.
    const TimePoint until = std::min(end, look_again_at_);
    if (stop.stop_requested() || (until == end && clock_.now() >= end)) return {};
    clock_.sleep(std::max(until - clock_.now(), Duration{0}), stop);
  }
}

Status PostgresSource::read_now(Batch& out, const Limits& limits) {
  const std::size_t before = out.size();
  while (!has_ended()) {
    if (delayed_are_due_) {
      delayed_are_due_ = false;
      const Result<Rows> released =
          reader_.connection.query(kRelease, Params().int4(kReleasedAtOnce));
      if (!released) return fail(released.error());
    }
    if (at().now.empty()) {
      const Result<bool> ended = something_ended();
      if (!ended) return fail(ended.error());
      if (!*ended) return {};
      DOVETAIL_TRY(read_window(out, limits));
    } else {
      DOVETAIL_TRY(read_page(out, limits));
    }
    // A page may have nothing for this lane although more follow.
    if (out.size() > before || at().prev == exhausted_) return {};
  }
  return {};
}

// While the snapshot stays the same, no writing transaction has begun or ended, so there is nothing
// new. An idle relay asks this over and over. While events come, the full look is shorter, with a
// look at delayed events from time to time.
Result<bool> PostgresSource::something_ended() {
  const bool is_flowing = pause_ <= options_.poll_min;
  if (is_flowing && (reader_.lane != 0 || clock_.now() < look_for_delayed_at_)) return true;
  look_for_delayed_at_ = clock_.now() + options_.poll_max;
  const Result<Rows> rows = reader_.connection.query(kProbe, Params().boolean(reader_.lane == 0));
  if (!rows) return fail(rows.error());
  DOVETAIL_TRY(row_.check(rows->text(0, 2)));
  if (!rows->boolean(0, 1)) return is_flowing || rows->text(0, 0) != exhausted_;
  delayed_are_due_ = true;
  return true;
}

Status PostgresSource::read_window(Batch& out, const Limits& limits) {
  const SnapshotParts prev = parts_of(at().prev);
  const std::size_t fits = std::max<std::size_t>(limits.events_max, 1);
  const Result<Rows> rows =
      reader_.connection.query(kWindow, Params()
                                            .unknown(prev.xmax)
                                            .unknown(prev.xip)
                                            .int4(reader_.first_bucket())
                                            .int4(reader_.last_bucket())
                                            .int8(static_cast<std::int64_t>(fits))
                                            .int8(static_cast<std::int64_t>(limits.bytes_max)));
  if (!rows) return fail(rows.error());
  std::vector<std::size_t> order;
  std::size_t head = rows->size();
  for (std::size_t row = 0; row < rows->size(); ++row) {
    if (rows->is_null(row, 1)) {
      head = row;
    } else {
      order.push_back(row);
    }
  }
  DOVETAIL_CHECK(head < rows->size());
  DOVETAIL_TRY(row_.check(rows->text(head, 13)));
  const std::string now(rows->text(head, 12));
  if (static_cast<std::size_t>(rows->int8(head, 11)) != order.size()) return open_window(now);

  // The window is complete. The order of a statement's rows is not guaranteed.
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return rows->int8(a, 0) < rows->int8(b, 0); });
  for (const std::size_t row : order) out.append(read_event(*rows, row));
  exhausted_ = now;
  move_to(TablePosition{now, {}, 0, rows->int8(head, 14)}, order.size());
  return {};
}

// The window is too large for one statement: read it page by page, from the current position.
Status PostgresSource::open_window(const std::string& now) {
  const SnapshotParts from = parts_of(at().prev);
  const Result<Rows> rows = reader_.connection.query(
      kBounds, Params().unknown(from.xmax).unknown(from.xip).unknown(parts_of(now).xmax));
  if (!rows) return fail(rows.error());
  window_end_ = rows->int8(0, 1);
  const std::int64_t before_first = std::max<std::int64_t>(rows->int8(0, 0) - 1, 0);
  move_to(TablePosition{at().prev, now, std::max(at().seq, before_first), at().passed}, 0);
  return {};
}

// An end is a window whose upper snapshot was taken elsewhere.
Status PostgresSource::end_at(const std::string& snapshot) {
  DOVETAIL_CHECK(is_between_windows());
  DOVETAIL_TRY(row_.check());
  look_again_at_ = {};
  ends_ = true;
  return open_window(snapshot);
}

// The position after the open window is read. An upper snapshot from elsewhere may lack what ours
// showed before.
Result<TablePosition> PostgresSource::behind_window(std::int64_t passed) const {
  const Result<Snapshot> before = Snapshot::parse(at().prev);
  if (!before) return fail(before.error());
  const Result<Snapshot> now = Snapshot::parse(at().now);
  if (!now) return fail(now.error());
  return TablePosition{Snapshot::either(*before, *now).text(), {}, 0, passed};
}

Status PostgresSource::ask_for_page(const Limits& limits) {
  const auto events = static_cast<std::int64_t>(
      std::clamp<std::size_t>(page_events_, 1, std::max<std::size_t>(limits.events_max, 1)));
  span_ = std::clamp(span_, events + events / 4, kSpanMax);
  asked_ = Asked{at(), events, static_cast<std::int64_t>(limits.bytes_max),
                 std::min(window_end_, at().seq + span_)};
  return reader_.connection.ask_ahead(kPage, Params()
                                                 .text(at().prev)
                                                 .text(at().now)
                                                 .int8(at().seq)
                                                 .int8(asked_->upto)
                                                 .boolean(reader_.lanes == 1)
                                                 .int4(reader_.first_bucket())
                                                 .int4(reader_.last_bucket())
                                                 .int8(asked_->events)
                                                 .int8(asked_->bytes_max));
}

// Asks for the next page while this one is processed.
Status PostgresSource::read_page(Batch& out, const Limits& limits) {
  const bool is_asked = asked_ && asked_->from == at() &&
                        asked_->events <= static_cast<std::int64_t>(limits.events_max) &&
                        asked_->bytes_max <= static_cast<std::int64_t>(limits.bytes_max);
  if (!is_asked) DOVETAIL_TRY(ask_for_page(limits));
  const Asked asked = *std::exchange(asked_, std::nullopt);
  const Result<Rows> rows = reader_.connection.take_ahead();
  if (!rows) return fail(rows.error());

  if (!rows->empty()) DOVETAIL_TRY(row_.check(rows->text(0, 12)));
  const auto got = static_cast<std::int64_t>(rows->size());
  const std::int64_t bytes = got == 0 ? 0 : rows->int8(0, 11);
  const bool is_whole = bytes <= asked.bytes_max;
  if (got > 0 && is_whole) page_events_ = events_that_fit(got, bytes, asked.bytes_max);
  if (!is_whole) page_events_ = static_cast<std::size_t>(asked.events / 4);
  if (is_whole && got < asked.events / 2) span_ *= 4;
  if (is_whole && got == asked.events) span_ /= 2;
  TablePosition next = at();
  next.seq = next.passed =
      is_whole && got < asked.events ? asked.upto : rows->int8(rows->size() - 1, 0);
  if (next.seq >= window_end_) {
    Result<TablePosition> behind = behind_window(std::max(window_end_, next.passed));
    if (!behind) return fail(behind.error());
    next = std::move(*behind);
  }
  move_to(std::move(next), rows->size());
  if (!at().now.empty()) DOVETAIL_TRY(ask_for_page(limits));
  for (std::size_t row = 0; row < rows->size(); ++row) out.append(read_event(*rows, row));
  return {};
}

void PostgresSource::move_to(TablePosition to, std::size_t events) {
  progress_.add(events);
  progress_.reach(std::move(to));
}

// New ones may become due at any time; the first known one is never late.
Status PostgresSource::do_chores() {
  DOVETAIL_TRY(row_.check());
  if (reader_.lane != 0 || clock_.now() < look_for_delayed_at_) return {};
  const Result<Rows> first = reader_.connection.query(kFirstDelayed);
  if (!first) return fail(first.error());
  const Duration due_in = first->empty() ? kLookForDelayed : Duration{first->int8(0, 0)};
  look_for_delayed_at_ = clock_.now() + std::min(due_in, kLookForDelayed);
  if (due_in > Duration::zero()) return {};
  const Result<Rows> released = reader_.connection.query(kRelease, Params().int4(kReleasedAtOnce));
  if (!released) return fail(released.error());
  return {};
}

Status PostgresSource::settle(const Batch& batch, std::span<const Settled> fates) {
  DOVETAIL_CHECK(batch.size() == fates.size());
  progress_.settle(fates);
  return {};
}

Status PostgresSource::flush() { return row_.write(progress_); }

}  // namespace dovetail::postgres
