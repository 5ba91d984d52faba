#include "postgres/mapped/source.h"

#include <algorithm>
#include <utility>

#include "core/check.h"
#include "postgres/lane/parking.h"
#include "postgres/mapped/event.h"

namespace dovetail::postgres {

namespace {

using namespace std::chrono_literals;

constexpr Duration kPollMin = 1ms;
constexpr Duration kPollMax = 50ms;
constexpr int kRestToLook = 3;
constexpr Duration kLookEvery = 1s;
constexpr std::size_t kBacklogPage = 100;
constexpr std::size_t kMarkedAtOnce = 1000;

constexpr std::string_view kUnmarked =
    "SELECT p.id FROM dovetail.parked AS p WHERE p.relay = $1 AND p.row_state <> p.state AND "
    "p.bucket "
    "BETWEEN $2 AND $3 LIMIT $4";
constexpr std::string_view kNameRows =
    "UPDATE dovetail.parked AS p SET row_id = k.row_key FROM unnest($2::uuid[], $3::text[]) AS k "
    "(id, row_key) WHERE p.relay = $1 AND p.id = k.id AND p.finished_at IS NULL";
// The numbers of a row of a mapped table mean nothing to anybody, so its receipt is found by when
// the row was marked, in microseconds. A receipt is not worth an fsync.
constexpr std::string_view kNote =
    "WITH held AS (SELECT split_part(owner, '@', 1) AS owner, set_config('synchronous_commit', "
    "'off', true) AS is_lazy FROM dovetail.relay_lane WHERE relay = $1 AND lane = $2 AND ($3 = -1 "
    "OR epoch = $3)), noted AS (INSERT INTO dovetail.receipt (relay, owner, first_bucket, "
    "last_bucket, first_seq, last_seq, events, places) SELECT $1, owner, $4, $5, $6, $7, $8, $9 "
    "FROM held) SELECT is_lazy FROM held";
constexpr std::string_view kNotAdopted =
    "SELECT EXISTS (SELECT FROM dovetail.parked AS q WHERE q.relay = $1 AND q.row_state IS NULL "
    "AND "
    "q.state IN ('parked', 'waiting', 'discarded'))";

}  // namespace

MappedSource::MappedSource(Reader& reader, TableMapping mapping, Clock& clock)
    : reader_(reader), mapping_(std::move(mapping)), clock_(clock) {
  reader_.source = SourceKind::mapped;
}

Status MappedSource::open() {
  in_flight_.clear();
  DOVETAIL_TRY(check_mapping(mapping_));
  DOVETAIL_TRY(connect(reader_));
  const Result<CatalogTable> table = look_up(reader_.connection, mapping_);
  if (!table) return fail(table.error());
  Result<std::string> run = server_run(reader_.connection);
  if (!run) return fail(run.error());
  run_ = std::move(*run);
  statements_ = mapped_statements(*table, mapping_, LaneShare{reader_.lane, reader_.lanes, run_});
  by_event_ = is_known_by_event(*table, mapping_);
  keeps_receipts_ = mark_column(*table, mapping_) != nullptr;
  clear_receipt();
  // New positions come after those of parked events.
  const Result<std::int64_t> parked = last_parked_position(reader_);
  if (!parked) return fail(parked.error());
  last_position_ = *parked;
  DOVETAIL_TRY(adopt_parked());
  DOVETAIL_TRY(mark_rows({}));  // a mapping that does not fit fails now, not at the first mark
  return mark_changed();
}

Status MappedSource::read(Batch& out, const Limits& limits, std::stop_token stop) {
  const TimePoint end = clock_.now() + limits.wait_max;
  while (true) {
    const TimePoint began = clock_.now();
    if (began < ask_at_ && began < end) {
      clock_.sleep(std::min(ask_at_, end) - began, stop);
      if (clock_.now() < ask_at_) return {};
      continue;
    }
    DOVETAIL_TRY(read_page(out, limits));
    const TimePoint now = clock_.now();
    if (!out.empty()) {
      active_at_ = now;
      return {};
    }
    // While rows come, the table is asked often; the longer none come, the less. Each look skips
    // rows that wait in parking: with many of them, the pause is longer than the look.
    ask_at_ = now + std::max(std::clamp((now - active_at_) / 8, kPollMin, kPollMax),
                             kRestToLook * (now - began));
    if (now >= end || stop.stop_requested()) return {};
  }
}

Status MappedSource::read_page(Batch& out, const Limits& limits) {
  std::vector<const Row*> in_flight;
  for (const auto& [position, row] : in_flight_) in_flight.push_back(&row);
  Params params;
  add_rows(params, in_flight)
      .text(reader_.relay)
      .int8(static_cast<std::int64_t>(limits.events_max))
      .int8(static_cast<std::int64_t>(limits.bytes_max));
  const Result<Rows> rows = query_page(params);
  if (!rows) return fail(rows.error());
  backlog_ = rows->size() >= kBacklogPage;
  for (std::size_t i = 0; i < rows->size() && out.size() < limits.events_max; ++i) {
    const std::size_t bytes =
        rows->text(i, kMappedPayload).size() + rows->text(i, kMappedHeaders).size();
    if (!out.empty() && out.bytes() + bytes > limits.bytes_max) break;
    append(out, *rows, i);
  }
  return {};
}

// The planner knows the number of pending rows only after the next ANALYZE. Until then it takes a
// backlog for a few rows and sorts all of them for each page. While pages are large, sorting is
// disabled, so it uses the index. The high cost that it then assumes would trigger JIT compilation;
// hence jit is off, too.
Result<Rows> MappedSource::query_page(const Params& params) {
  if (!backlog_) return reader_.connection.query(statements_.read, params);
  Result<Transaction> transaction = Transaction::begin(
      reader_.connection, "BEGIN; SET LOCAL enable_sort = off; SET LOCAL jit = off");
  if (!transaction) return fail(transaction.error());
  Result<Rows> rows = reader_.connection.query(statements_.read, params);
  if (rows) DOVETAIL_TRY(transaction->commit());
  return rows;
}

void MappedSource::append(Batch& out, const Rows& rows, std::size_t row) {
  // Positions grow in reading order, whatever the column says: a row that committed late comes
  // after rows of its key that were read before.
  ++last_position_;
  if (!rows.is_null(row, kMappedOrder))
    last_position_ = std::max(last_position_, rows.int8(row, kMappedOrder));
  append_mapped_event(rows, row, mapping_, last_position_, out);
  in_flight_[last_position_] = {
      out.events().back().id,
      by_event_ ? std::string() : std::string(rows.text(row, kMappedRowId))};
}

Params& MappedSource::add_rows(Params& params, const std::vector<const Row*>& rows) const {
  std::vector<EventId> events;
  std::vector<std::string_view> keys;
  for (const Row* row : rows) {
    events.push_back(row->event);
    keys.push_back(row->key);
  }
  return by_event_ ? params.uuid_array(events) : params.text_array(keys);
}

Status MappedSource::written(const Result<Rows>& answer) {
  if (!answer) return fail(answer.error());
  if (answer->boolean(0, 0)) return {};
  return fail(not_written(reader_, run_));
}

Status MappedSource::settle(const Batch& batch, std::span<const Settled> fates) {
  DOVETAIL_CHECK(batch.size() == fates.size());
  if (batch.empty()) return {};
  std::vector<const Row*> sent;
  std::vector<const Row*> parked;
  for (std::size_t i = 0; i < fates.size(); ++i) {
    const auto row = in_flight_.find(batch.events()[i].position);
    DOVETAIL_CHECK(row != in_flight_.end() && row->second.event == batch.events()[i].id);
    (fates[i] == Settled::parked ? parked : sent).push_back(&row->second);
  }
  Params params;
  params.text(reader_.relay)
      .int4(static_cast<std::int32_t>(reader_.lane))
      .int8(reader_.epoch)
      .int8(static_cast<std::int64_t>(sent.size()))
      .int8(static_cast<std::int64_t>(parked.size()));
  add_rows(params, sent);
  add_rows(params, parked);
  const Result<Rows> answer = reader_.connection.query(statements_.settle, params);
  DOVETAIL_TRY(written(answer));
  for (const Event& event : batch.events()) in_flight_.erase(event.position);
  if (!keeps_receipts_) return {};
  if (first_mark_ == WallTime{}) first_mark_ = answer->timestamptz(0, 1);
  last_mark_ = std::max(last_mark_, answer->timestamptz(0, 2));
  return {};
}

Status MappedSource::flush() {
  if (!receipt_.empty()) {
    const Result<Rows> noted =
        reader_.connection.query(kNote, Params()
                                            .text(reader_.relay)
                                            .int4(static_cast<std::int32_t>(reader_.lane))
                                            .int8(reader_.epoch)
                                            .int4(reader_.first_bucket())
                                            .int4(reader_.last_bucket())
                                            .int8(first_mark_.time_since_epoch().count())
                                            .int8(last_mark_.time_since_epoch().count())
                                            .int8(static_cast<std::int64_t>(receipt_.events()))
                                            .text(to_text(receipt_.places())));
    if (!noted) return fail(noted.error());
    if (noted->empty()) return fail(not_written(reader_, run_));
  }
  clear_receipt();
  return {};
}

void MappedSource::clear_receipt() {
  receipt_.clear();
  first_mark_ = WallTime{};
  last_mark_ = WallTime{};
}

Status MappedSource::mark(std::span<const EventId> ids, std::span<const Event* const> events) {
  if (ids.empty()) return {};
  std::vector<EventId> named;
  std::vector<std::string_view> keys;
  for (std::size_t i = 0; i < events.size() && !by_event_; ++i) {
    if (events[i] == nullptr) continue;
    const auto row = in_flight_.find(events[i]->position);
    if (row == in_flight_.end() || row->second.event != events[i]->id) continue;
    named.push_back(ids[i]);
    keys.push_back(row->second.key);
  }
  if (!named.empty()) {
    const Result<Rows> done = reader_.connection.query(
        kNameRows, Params().text(reader_.relay).uuid_array(named).text_array(keys));
    if (!done) return fail(done.error());
  }
  return mark_rows(ids);
}

Status MappedSource::mark_rows(std::span<const EventId> ids) {
  return written(
      reader_.connection.query(statements_.mark, Params()
                                                     .text(reader_.relay)
                                                     .int4(static_cast<std::int32_t>(reader_.lane))
                                                     .int8(reader_.epoch)
                                                     .uuid_array(ids)));
}

Status MappedSource::adopt_parked() {
  const Result<Rows> some = reader_.connection.query(kNotAdopted, Params().text(reader_.relay));
  if (!some) return fail(some.error());
  if (!some->boolean(0, 0)) return {};
  const Result<Rows> done =
      reader_.connection.query(statements_.adopt, Params().text(reader_.relay));
  if (!done) return fail(done.error());
  return {};
}

Status MappedSource::mark_changed() {
  while (true) {
    const Result<Rows> rows =
        reader_.connection.query(kUnmarked, Params()
                                                .text(reader_.relay)
                                                .int4(reader_.first_bucket())
                                                .int4(reader_.last_bucket())
                                                .int8(static_cast<std::int64_t>(kMarkedAtOnce)));
    if (!rows) return fail(rows.error());
    std::vector<EventId> ids;
    for (std::size_t i = 0; i < rows->size(); ++i) ids.push_back(rows->uuid(i, 0));
    if (!ids.empty()) DOVETAIL_TRY(mark_rows(ids));
    if (ids.size() < kMarkedAtOnce) break;
  }
  look_at_ = clock_.now() + kLookEvery;
  return {};
}

Status MappedSource::keep_alive() { return clock_.now() < look_at_ ? Status{} : mark_changed(); }

Status MappedParking::changed(std::span<const Kept> events) {
  std::vector<EventId> ids;
  std::vector<const Event*> parked;
  for (const Kept& kept : events) {
    ids.push_back(kept.id);
    parked.push_back(kept.event);
  }
  return source_.mark(ids, parked);
}

}  // namespace dovetail::postgres
