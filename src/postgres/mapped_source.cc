#include "postgres/mapped_source.h"

#include <algorithm>
#include <utility>

#include "core/check.h"
#include "postgres/mapped_event.h"
#include "postgres/parking.h"

namespace dovetail::postgres {

namespace {

using namespace std::chrono_literals;

constexpr Duration kPollMin = 1ms;
constexpr Duration kPollMax = 50ms;
constexpr Duration kDiscardsEvery = 5s;
constexpr Duration kDiscardsMargin = 1min;
constexpr Duration kEver = std::chrono::hours(24 * 365 * 100);
constexpr std::size_t kParkedKnownMax = 100'000;
constexpr std::size_t kBacklogPage = 100;

}  // namespace

MappedSource::MappedSource(Reader& reader, TableMapping mapping, Clock& clock)
    : reader_(reader), mapping_(std::move(mapping)), clock_(clock) {
  reader_.mapped = true;
}

Status MappedSource::open() {
  in_flight_.clear();
  parked_.clear();
  DOVETAIL_TRY(check_mapping(mapping_));
  DOVETAIL_TRY(connect(reader_));
  const Result<CatalogTable> table = look_up(reader_.connection, mapping_);
  if (!table) return fail(table.error());
  Result<std::string> run = server_run(reader_.connection);
  if (!run) return fail(run.error());
  run_ = std::move(*run);
  statements_ = mapped_statements(*table, mapping_, LaneShare{reader_.lane, reader_.lanes, run_});
  id_kind_ = id_kind(*table, mapping_);
  // What is read from here on stands behind what is parked already.
  const Result<std::int64_t> parked = last_parked_position(reader_);
  if (!parked) return fail(parked.error());
  last_position_ = *parked;
  return mark_discarded(true);
}

Status MappedSource::read(Batch& out, const Limits& limits, std::stop_token stop) {
  const TimePoint end = clock_.now() + limits.wait_max;
  Duration pause = kPollMin;
  while (true) {
    if (clock_.now() >= discards_at_) DOVETAIL_TRY(mark_discarded(false));
    DOVETAIL_TRY(read_page(out, limits));
    const TimePoint now = clock_.now();
    if (!out.empty()) {
      active_at_ = now;
      return {};
    }
    if (now >= end || stop.stop_requested()) return {};
    // While rows flow the table is asked often; the longer nothing comes, the less.
    pause = std::clamp((now - active_at_) / 8, kPollMin, kPollMax);
    clock_.sleep(std::min<Duration>(pause, end - now), stop);
  }
}

Status MappedSource::read_page(Batch& out, const Limits& limits) {
  std::vector<EventId> events;
  std::vector<std::string_view> ids;
  for (const auto& [event, id] : in_flight_) {
    events.push_back(event);
    ids.push_back(id);
  }
  Params params;
  add_ids(params, events, ids)
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

// The planner knows how many rows are pending only after the next ANALYZE; until then it takes a
// backlog for a few rows and sorts all of them for each page. While pages are large it is kept from
// that, and goes along the index. The price that it then puts on a sort would make it compile the
// statement, hence jit.
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
  // Positions grow in the order of reading, whatever the column says: a row that committed late
  // stands behind those of its key that were read before it.
  ++last_position_;
  if (!rows.is_null(row, kMappedOrder))
    last_position_ = std::max(last_position_, rows.int8(row, kMappedOrder));
  append_mapped_event(rows, row, mapping_, last_position_, out);
  in_flight_.emplace(out.events().back().id, id_kind_ == IdKind::uuid
                                                 ? std::string()
                                                 : std::string(rows.text(row, kMappedRowId)));
}

Params& MappedSource::add_ids(Params& params, const std::vector<EventId>& events,
                              const std::vector<std::string_view>& ids) const {
  return id_kind_ == IdKind::uuid ? params.uuid_array(events) : params.text_array(ids);
}

Status MappedSource::written(const Result<Rows>& answer) {
  if (!answer) return fail(answer.error());
  if (answer->boolean(0, 0)) return {};
  return fail(not_written(reader_, run_));
}

Status MappedSource::settle(const Batch& batch, std::span<const Settled> fates) {
  DOVETAIL_CHECK(batch.size() == fates.size());
  if (batch.empty()) return {};
  std::vector<EventId> sent_events;
  std::vector<EventId> parked_events;
  std::vector<std::string_view> sent_ids;
  std::vector<std::string_view> parked_ids;
  std::vector<Ids::iterator> rows;
  std::map<EventId, Ids::iterator> next;  // of each event, since batches come in the read order
  for (std::size_t i = 0; i < fates.size(); ++i) {
    const EventId& id = batch.events()[i].id;
    Ids::iterator& row = next.try_emplace(id, in_flight_.lower_bound(id)).first->second;
    DOVETAIL_CHECK(row != in_flight_.end() && row->first == id);
    const bool parked = fates[i] == Settled::parked;
    (parked ? parked_events : sent_events).push_back(id);
    (parked ? parked_ids : sent_ids).push_back(row->second);
    rows.push_back(row++);
  }
  Params params;
  params.text(reader_.relay)
      .int4(static_cast<std::int32_t>(reader_.lane))
      .int8(reader_.epoch)
      .int8(static_cast<std::int64_t>(sent_events.size()))
      .int8(static_cast<std::int64_t>(parked_events.size()));
  add_ids(params, sent_events, sent_ids);
  add_ids(params, parked_events, parked_ids);
  params.uuid_array(parked_events);
  DOVETAIL_TRY(written(reader_.connection.query(statements_.settle, params)));
  // Of uuids everything is known by the event id.
  if (parked_.size() > kParkedKnownMax) parked_.clear();
  for (std::size_t i = 0; i < fates.size(); ++i) {
    Ids::node_type row = in_flight_.extract(rows[i]);
    if (fates[i] == Settled::parked && id_kind_ != IdKind::uuid) parked_.insert(std::move(row));
  }
  return {};
}

Status MappedSource::mark_delivered(std::span<const EventId> ids) {
  if (mapping_.delete_when_done || ids.empty()) return {};
  std::vector<EventId> events;
  std::vector<std::string_view> known;
  std::vector<EventId> unknown;
  for (const EventId& id : ids) {
    if (id_kind_ == IdKind::uuid) {
      events.push_back(id);
      continue;
    }
    // An event may be delivered out of parking before its batch is settled.
    const auto [first, last] = (parked_.contains(id) ? parked_ : in_flight_).equal_range(id);
    if (first == last) unknown.push_back(id);
    for (auto row = first; row != last; ++row) known.push_back(row->second);
  }
  const auto mark = [&](const std::string& statement, bool by_event) {
    Params params;
    params.text(reader_.relay)
        .int4(static_cast<std::int32_t>(reader_.lane))
        .int8(reader_.epoch)
        .int8(0)
        .int8(0);
    if (by_event) {
      params.uuid_array(unknown);
    } else {
      add_ids(params, events, known);
    }
    return written(reader_.connection.query(statement, params));
  };
  if (!events.empty() || !known.empty()) DOVETAIL_TRY(mark(statements_.mark_sent, false));
  if (!unknown.empty()) DOVETAIL_TRY(mark(statements_.mark_sent_by_event, true));
  for (const EventId& id : ids) parked_.erase(id);
  return {};
}

Status MappedSource::mark_discarded(bool all) {
  // Those since the last look, and some more: clocks and commits are not exact.
  const TimePoint now = clock_.now();
  const Duration since = all ? kEver : now - discards_at_ + kDiscardsEvery + kDiscardsMargin;
  if (!statements_.mark_discarded.empty())
    DOVETAIL_TRY(written(reader_.connection.query(statements_.mark_discarded,
                                                  Params()
                                                      .text(reader_.relay)
                                                      .int4(static_cast<std::int32_t>(reader_.lane))
                                                      .int8(reader_.epoch)
                                                      .int8(since.count()))));
  discards_at_ = now + kDiscardsEvery;
  return {};
}

Status MappedParking::delivered(std::span<const EventId> ids) {
  // In this order: after a crash between the two the event is sent and marked once more.
  DOVETAIL_TRY(source_.mark_delivered(ids));
  return parking_.delivered(ids);
}

}  // namespace dovetail::postgres
