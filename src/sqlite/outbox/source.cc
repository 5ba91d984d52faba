#include "sqlite/outbox/source.h"

#include <algorithm>
#include <chrono>

#include "core/check.h"
#include "sqlite/connection/event_columns.h"
#include "sqlite/lane/reader_session.h"

namespace dovetail::sqlite {

namespace {

using Steady = std::chrono::steady_clock;
using namespace std::chrono_literals;

// A commit's bytes wake us before it is visible; the disk's sync lies in between.
constexpr Duration kHotProbe = 1ms;
constexpr Duration kHotFor = 20ms;
constexpr Duration kWarmProbe = 5ms;
constexpr Duration kWarmFor = 250ms;
// If the kernel sends no notice, or a notice is lost.
constexpr Duration kSlowProbe = 100ms;
constexpr auto kIdleBeforeCheckpoint = 1s;
// A crash loses nothing of progress over other topics, so it is written rarely.
constexpr std::int64_t kSkippedBeforeWrite = 1000;

constexpr std::string_view kInsertReceipt =
    "INSERT INTO dovetail_receipt (relay, at, owner, first_seq, last_seq, events, places) SELECT "
    "relay, ?2, substr(owner, 1, instr(owner || '@', '@') - 1), ?3, ?4, ?5, ?6 FROM dovetail_relay "
    "WHERE relay = ?1";

std::size_t bytes_of(const Event& event) {
  return event.topic.size() + event.aggregate_type.size() + event.aggregate_id.size() +
         event.type.size() + event.content_type.size() + event.headers.size() +
         event.payload.size();
}

}  // namespace

SqliteSource::SqliteSource(Reader& reader, Clock& clock) : reader_(reader), clock_(clock) {}

Status SqliteSource::open() {
  OpenOptions options;
  options.durability = Durability::ordered;
  Result<Database> database = open_store(reader_.path, options);
  if (!database) return fail(database.error());
  database_ = std::move(*database);
  DOVETAIL_TRY(ensure_reader(database_, reader_));
  DOVETAIL_TRY(prepare());

  Result<Statement> settled =
      database_.prepare("SELECT passed_seq FROM dovetail_relay WHERE relay = ?1");
  if (!settled) return fail(settled.error());
  const Result<bool> row = settled->bind_text(1, reader_.name).step();
  if (!row) return fail(row.error());
  settled_ = *row ? settled->integer(0) : 0;
  read_to_ = handed_to_ = written_ = settled_;
  settled_since_ = parked_since_ = skipped_since_ = 0;
  receipt_.clear();
  file_ = database_.file();
  watch_.open(file_);
  active_at_ = Steady::now();
  return {};
}

Status SqliteSource::prepare() {
  const std::string table(table_of(reader_.source));
  std::string sql =
      "SELECT seq, " + std::string(kEventColumns) + " FROM " + table + " WHERE seq > ?1";
  if (!reader_.topics.empty()) {
    sql += " AND topic IN (";
    for (std::size_t i = 0; i < reader_.topics.size(); ++i)
      sql += (i == 0 ? "?" : ",?") + std::to_string(i + 3);
    sql += ")";
  }
  sql += " ORDER BY seq LIMIT ?2";
  DOVETAIL_TRY(database_.prepare(select_, sql));
  for (std::size_t i = 0; i < reader_.topics.size(); ++i)
    select_.bind_text(static_cast<int>(i + 3), reader_.topics[i]);
  DOVETAIL_TRY(database_.prepare(select_last_, "SELECT max(seq) FROM " + table));
  DOVETAIL_TRY(database_.prepare(insert_receipt_, kInsertReceipt));
  return database_.prepare(update_progress_, update_progress_sql());
}

Status SqliteSource::read(Batch& out, const Limits& limits, std::stop_token stop) {
  if (!database_) return fail(Errc::unavailable, "the source is not open; call open() first");
  if (settled_since_ > 0 || settled_ - written_ >= kSkippedBeforeWrite)
    DOVETAIL_TRY(write_progress());
  const std::size_t before = out.size();
  DOVETAIL_TRY(read_now(out, limits));
  if (out.size() > before || limits.wait_max <= Duration::zero()) return {};

  // Reads the version before it looks at the table again, so that it does not miss a commit in
  // between.
  const Result<std::int64_t> version = database_.data_version();
  if (!version) return fail(version.error());
  data_version_ = *version;
  const Steady::time_point end = Steady::now() + limits.wait_max;
  while (true) {
    DOVETAIL_TRY(read_now(out, limits));
    if (out.size() > before || stop.stop_requested()) return {};
    const auto left = std::chrono::duration_cast<Duration>(end - Steady::now());
    const Result<bool> changed = wait_for_commit(left, stop);
    if (!changed) return fail(changed.error());
    if (!*changed) return {};
  }
}

Status SqliteSource::read_now(Batch& out, const Limits& limits) {
  std::int64_t last = 0;
  if (!reader_.topics.empty()) {
    const Result<bool> row = select_last_.step();
    if (!row) return fail(row.error());
    last = select_last_.integer(0);
    select_last_.reset();
  }
  const Reading reading(select_);
  select_.bind(1, read_to_).bind(2, static_cast<std::int64_t>(limits.events_max));
  std::size_t count = 0;
  std::size_t bytes = 0;
  bool exhausted = false;
  while (true) {
    const Result<bool> row = select_.step();
    if (!row) return fail(row.error());
    if (!*row) {
      exhausted = count < limits.events_max;
      break;
    }
    const Event event = read_event(select_, select_.integer(0), 1);
    bytes += bytes_of(event);
    if (count > 0 && bytes > limits.bytes_max) break;
    read_to_ = handed_to_ = out.append(event).position;
    ++count;
  }
  if (count > 0) active_at_ = Steady::now();
  if (exhausted && last > read_to_) {
    const bool nothing_open = settled_ >= handed_to_;
    read_to_ = last;
    if (nothing_open) settled_ = read_to_;
  }
  return {};
}

Result<bool> SqliteSource::wait_for_commit(Duration wait_max, std::stop_token stop) {
  const Steady::time_point end = Steady::now() + wait_max;
  Steady::time_point woken_at = Steady::time_point::min();
  while (true) {
    const Result<std::int64_t> version = database_.data_version();
    if (!version) return fail(version.error());
    const Steady::time_point now = Steady::now();
    if (*version != data_version_) {
      data_version_ = *version;
      return true;
    }
    const auto left = std::chrono::duration_cast<Duration>(end - now);
    if (left <= Duration::zero() || stop.stop_requested()) return false;
    if (now - active_at_ > kIdleBeforeCheckpoint) checkpointer_.when_idle(database_.get(), file_);

    if (woken_at != Steady::time_point::min() && now - woken_at < kWarmFor) {
      // A write was noticed and is not visible yet; further notices add nothing.
      const Duration pause = now - woken_at < kHotFor ? kHotProbe : kWarmProbe;
      watch_.pause(std::min(pause, left), stop);
      continue;
    }
    const ChangeWatch::Wake wake = watch_.wait(std::min(kSlowProbe, left), stop);
    if (wake == ChangeWatch::Wake::changed) woken_at = Steady::now();
  }
}

Status SqliteSource::settle(const Batch& batch, std::span<const Settled> fates) {
  DOVETAIL_CHECK(batch.size() == fates.size());
  if (batch.empty()) return {};
  settled_ = std::max(settled_, batch.events().back().position);
  if (settled_ >= handed_to_) settled_ = std::max(settled_, read_to_);
  settled_since_ += static_cast<std::int64_t>(fates.size());
  parked_since_ += std::count(fates.begin(), fates.end(), Settled::parked);
  skipped_since_ += std::count(fates.begin(), fates.end(), Settled::skipped);
  return {};
}

// read() writes progress, too, but no receipt: single events that come one after the other would
// get a row each.
Status SqliteSource::flush() {
  if (!database_) return fail(Errc::unavailable, "the source is not open; call open() first");
  if (receipt_.empty()) return settled_ == written_ ? Status{} : write_progress();
  constexpr std::string_view kDoing = "recording progress";
  Result<Transaction> transaction = Transaction::begin(database_.get(), kDoing);
  if (!transaction) return fail(transaction.error());
  DOVETAIL_TRY(update_progress());
  DOVETAIL_TRY(insert_receipt());
  DOVETAIL_TRY(transaction->commit(kDoing));
  written();
  receipt_.clear();
  return {};
}

Status SqliteSource::write_progress() {
  DOVETAIL_TRY(update_progress());
  written();
  return {};
}

Status SqliteSource::update_progress() {
  update_progress_.bind_text(1, reader_.name)
      .bind(2, reader_.epoch)
      .bind(3, settled_)
      .bind(4, settled_since_)
      .bind(5, parked_since_)
      .bind(6, to_stored(clock_.wall()))
      .bind(7, skipped_since_);
  DOVETAIL_TRY(update_progress_.run());
  if (update_progress_.changes() == 0) return fail(taken_over(lane_of(reader_)));
  return {};
}

Status SqliteSource::insert_receipt() {
  const std::string places = to_text(receipt_.places());
  return insert_receipt_.bind_text(1, reader_.name)
      .bind(2, to_stored(clock_.wall()))
      .bind(3, receipt_.first())
      .bind(4, receipt_.last())
      .bind(5, static_cast<std::int64_t>(receipt_.events()))
      .bind_text(6, places)
      .run();
}

void SqliteSource::written() {
  written_ = settled_;
  settled_since_ = parked_since_ = skipped_since_ = 0;
  checkpointer_.after_commit(database_.get(), file_);
}

}  // namespace dovetail::sqlite
