#include "postgres/mapped/windows.h"

#include <algorithm>
#include <utility>

#include "core/check.h"
#include "postgres/lane/parking.h"
#include "postgres/mapped/event.h"
#include "postgres/mapped/publication.h"
#include "postgres/outbox/snapshot.h"

namespace dovetail::postgres {

namespace {

using namespace std::chrono_literals;

constexpr Duration kPauseMin = 500ms;
constexpr int kPauseToGap = 4;
constexpr std::string_view kNothing = "1:1:";  // a snapshot that shows nothing
constexpr std::int64_t kShortNumbers = std::int64_t{1} << 32;
constexpr std::size_t kKeysAtOnce = 1000;

}  // namespace

MappedWindows::MappedWindows(Reader& reader, TableMapping mapping, Clock& clock)
    : reader_(reader), mapping_(std::move(mapping)), clock_(clock), row_(reader, clock) {
  DOVETAIL_CHECK(mapping_.from_wal);
  reader_.source = SourceKind::mapped;
}

Status MappedWindows::open() {
  gap_.reset();
  begin_at_ = {};
  ended_ = false;
  DOVETAIL_TRY(connect(reader_));
  Result<CatalogTable> table = look_up(reader_.connection, mapping_);
  if (!table) return fail(table.error());
  table_ = std::move(*table);
  // At the first start an error goes to the operator; later the problem may still be fixed.
  const Status published = ensure_publication(reader_.connection, reader_.relay, table_, mapping_);
  if (!published)
    return fail(has_opened_ ? Errc::unavailable : published.error().code, published.error().text);
  has_opened_ = true;
  Result<ProgressRow::Loaded> loaded = row_.load();
  if (!loaded) return fail(loaded.error());
  progress_.begin(std::move(loaded->position));
  // New positions come after those of parked events.
  const Result<std::int64_t> parked = last_parked_position(reader_);
  if (!parked) return fail(parked.error());
  last_position_ = std::max(last_position_, *parked);
  return {};
}

Status MappedWindows::end_at(const std::string& snapshot) { return begin("", snapshot); }

Status MappedWindows::end_at_exported(const std::string& name, const std::string& snapshot) {
  return begin("; SET TRANSACTION SNAPSHOT " + quoted_text(name), snapshot);
}

void MappedWindows::go_on() {
  ended_ = false;
  if (gap_) gap_->is_last = false;
}

Status MappedWindows::begin(const std::string& import, std::string snapshot) {
  DOVETAIL_CHECK(!gap_);
  DOVETAIL_TRY(row_.check());
  Result<Connection> opened =
      Connection::open(reader_.conninfo, std::min(kConnectMax, reader_.call_max));
  if (!opened) return fail(opened.error());
  Gap gap;
  gap.connection = std::move(*opened);
  gap.connection.set_timeout(reader_.call_max);  // except the search, for which it waits in steps
  // A blocked sink makes it wait, which is no reason to end it. Rows hidden by row level security
  // are an error: the WAL would have them.
  DOVETAIL_TRY(gap.connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY" + import +
                                      "; SET LOCAL idle_in_transaction_session_timeout = 0; SET "
                                      "LOCAL statement_timeout = 0; SET LOCAL row_security = off"));
  gap.is_last = !snapshot.empty();
  gap.end = std::move(snapshot);
  gap_began_ = clock_.now();
  begin_at_ = gap_began_ + kPauseMin;
  const Result<Rows> now =
      gap.connection.query("SELECT pg_current_snapshot()::text, " + kServerRun);
  if (!now) return fail(now.error());
  DOVETAIL_TRY(row_.check(now->text(0, 1)));
  if (!gap.is_last) {
    gap.end = now->text(0, 0);
    if (gap.end == handed_out()) return {};
  }
  DOVETAIL_TRY(look_for(gap));
  gap_ = std::move(gap);
  ended_ = false;
  return {};
}

// The server searches when the first rows are fetched, which may take long; here it only
// plans.
Status MappedWindows::look_for(Gap& gap) const {
  const Result<Snapshot> from = Snapshot::parse(handed_out());
  if (!from) return fail(from.error());
  const Result<Snapshot> to = Snapshot::parse(gap.end);
  if (!to) return fail(to.error());
  const auto first = static_cast<std::int64_t>(from->first_shown_by(*to));
  const std::int64_t numbers = static_cast<std::int64_t>(to->xmax()) - first;
  const bool all = handed_out() == kNothing || numbers >= kShortNumbers;
  const Result<Rows> declared = gap.connection.query(
      "DECLARE dovetail_gap NO SCROLL CURSOR FOR " + gap_keys_sql(table_, mapping_),
      Params().boolean(all).int8(first % kShortNumbers).int8(numbers));
  if (!declared) return fail(declared.error());
  return {};
}

Status MappedWindows::read(Batch& out, const Limits& limits, std::stop_token stop) {
  DOVETAIL_TRY(row_.check());
  if (ended_) return {};
  if (!gap_ && clock_.now() >= begin_at_) DOVETAIL_TRY(begin("", ""));
  if (!gap_) {
    clock_.sleep(limits.wait_max, stop);
    return {};
  }
  if (gap_->keys.empty() && !gap_->has_all_keys) {
    const Result<bool> came = fetch_keys(limits.wait_max);
    if (!came) return fail(came.error());
    if (!*came) return {};
  }
  if (!gap_->keys.empty()) DOVETAIL_TRY(read_page(out, limits));
  if (!gap_->keys.empty() || !gap_->has_all_keys) return {};
  progress_.cover(gap_->end, 0);
  ended_ = gap_->is_last;
  gap_.reset();
  begin_at_ = std::max(begin_at_, clock_.now() + kPauseToGap * (clock_.now() - gap_began_));
  return {};
}

// False: the server is still searching. The lease must be renewed meanwhile.
Result<bool> MappedWindows::fetch_keys(Duration wait_max) {
  static const std::string fetch = "FETCH " + std::to_string(kKeysAtOnce) + " FROM dovetail_gap";
  if (!std::exchange(gap_->is_asked, true))
    DOVETAIL_TRY(gap_->connection.ask_ahead(fetch, Params()));
  if (!wait_for_socket(gap_->connection.get(), false,
                       std::chrono::steady_clock::now() + wait_max + 1ms))
    return false;
  const Result<Rows> rows = gap_->connection.take_ahead();
  if (!rows) return fail(rows.error());
  gap_->is_asked = false;
  for (std::size_t i = 0; i < rows->size(); ++i)
    gap_->keys.push_back({std::string(rows->text(i, 0)), rows->int8(i, 1),
                          static_cast<std::size_t>(rows->int4(i, 2))});
  gap_->has_all_keys = rows->size() < kKeysAtOnce;
  return true;
}

// The known size may be that of the stored row; rows above the limit are read again. The first row
// always comes.
Status MappedWindows::read_page(Batch& out, const Limits& limits) {
  std::deque<Key>& keys = gap_->keys;
  std::vector<std::string_view> places;
  std::vector<std::int64_t> parts;
  std::size_t bytes = 0;
  for (const Key& key : keys) {
    bytes += key.bytes;
    if (!places.empty() && (bytes > limits.bytes_max || places.size() >= limits.events_max)) break;
    places.push_back(key.at);
    parts.push_back(key.part);
  }
  const Result<Rows> rows = gap_->connection.query(gap_page_sql(table_, mapping_),
                                                   Params().text_array(places).int8_array(parts));
  if (!rows) return fail(rows.error());
  if (rows->size() != places.size())
    return fail(Errc::corrupt,
                "rows of " + table_.quoted +
                    " are missing in a snapshot that shows them; check the server for damage");
  std::size_t taken = 0;
  for (; taken < rows->size(); ++taken) {
    const std::size_t more =
        rows->text(taken, kMappedPayload).size() + rows->text(taken, kMappedHeaders).size();
    if (!out.empty() && out.bytes() + more > limits.bytes_max) break;
    append_mapped_event(*rows, taken, mapping_, ++last_position_, out);
  }
  progress_.add(taken);
  keys.erase(keys.begin(), keys.begin() + static_cast<std::ptrdiff_t>(taken));
  return {};
}

Status MappedWindows::settle(const Batch& batch, std::span<const Settled> fates) {
  DOVETAIL_CHECK(batch.size() == fates.size());
  progress_.settle(fates);
  return {};
}

Status MappedWindows::flush() { return row_.write(progress_); }

Status MappedWindows::do_chores() { return row_.write_if_idle(progress_); }

}  // namespace dovetail::postgres
