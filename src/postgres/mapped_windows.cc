#include "postgres/mapped_windows.h"

#include <algorithm>
#include <utility>

#include "core/check.h"
#include "postgres/mapped_event.h"
#include "postgres/mapped_publication.h"
#include "postgres/snapshot.h"

namespace dovetail::postgres {

namespace {

using namespace std::chrono_literals;

constexpr Duration kIdleWriteInterval = 5s;
constexpr Duration kGapTimeout = 10min;
constexpr Duration kPauseMin = 500ms;
constexpr int kPauseToGap = 4;
constexpr std::string_view kNothing = "1:1:";  // a snapshot that shows nothing
constexpr std::int64_t kShortNumbers = std::int64_t{1} << 32;
constexpr std::size_t kKeysAtOnce = 1000;

const std::string kLoadProgress =
    "SELECT r.prev::text, r.system_identifier, c.system_identifier, " + kHistory +
    ", (SELECT coalesce(max(p.position), 0)::int8 FROM dovetail.parked AS p WHERE p.relay = $1 "
    "AND p.finished_at IS NULL) FROM dovetail.reader AS r, pg_control_system() AS c WHERE r.relay "
    "= $1 AND r.lane = $2";

// In a cluster that the progress does not belong to, everything is sent again.
constexpr std::string_view kAdoptCluster =
    "UPDATE dovetail.reader SET system_identifier = $3, prev = $4::text::pg_snapshot WHERE relay = "
    "$1 AND lane = $2 AND system_identifier <> $3 AND (epoch = $5 OR $5 = 0)";

// The last condition: the snapshot still belongs to this server.
const std::string kWriteProgress =
    "UPDATE dovetail.reader AS r SET prev = $4::text::pg_snapshot, now = NULL, seq = 0, "
    "settled_total = settled_total + $5, parked_total = parked_total + $6, updated_at = c.now, "
    "previous_at = CASE WHEN c.now >= sample_at + interval '5 s' THEN sample_at ELSE previous_at "
    "END, previous_total = CASE WHEN c.now >= sample_at + interval '5 s' THEN sample_total ELSE "
    "previous_total END, sample_total = CASE WHEN c.now >= sample_at + interval '5 s' THEN "
    "settled_total ELSE sample_total END, sample_at = CASE WHEN c.now >= sample_at + interval "
    "'5 s' THEN c.now ELSE sample_at END FROM (SELECT clock_timestamp() AS now) AS c "
    "WHERE r.relay = $1 AND r.lane = $2 AND (r.epoch = $3 OR $3 = 0) AND " +
    kHistory +
    // Not worth a wait for the disk; the setting ends with this transaction.
    " = $7 RETURNING set_config('synchronous_commit', 'off', true)";

}  // namespace

MappedWindows::MappedWindows(Reader& reader, TableMapping mapping, Clock& clock)
    : reader_(reader), mapping_(std::move(mapping)), clock_(clock) {
  DOVETAIL_CHECK(mapping_.from_log);
  reader_.mapped = true;
}

Status MappedWindows::open() {
  gap_.reset();
  begin_at_ = {};
  ended_ = false;
  handed_out_.clear();
  handed_count_ = settled_count_ = 0;
  settled_since_ = parked_since_ = 0;
  DOVETAIL_TRY(connect(reader_));
  generation_ = reader_.generation;
  Result<CatalogTable> table = look_up(reader_.connection, mapping_);
  if (!table) return fail(table.error());
  table_ = std::move(*table);
  // What was right once may be put right again; only at the first start somebody waits for a word.
  const Status published = ensure_publication(reader_.connection, reader_.relay, table_, mapping_);
  if (!published)
    return fail(has_opened_ ? Errc::unavailable : published.error().code, published.error().text);
  has_opened_ = true;
  write_idle_at_ = clock_.now() + kIdleWriteInterval;
  return load_progress();
}

Status MappedWindows::load_progress() {
  const Result<Rows> rows = reader_.connection.query(
      kLoadProgress, Params().text(reader_.relay).int4(static_cast<std::int32_t>(reader_.lane)));
  if (!rows) return fail(rows.error());
  if (rows->empty())
    return fail(Errc::unavailable, "the row of relay \"" + reader_.relay +
                                       "\" is gone; check who deletes from dovetail.reader");
  read_ = rows->text(0, 0);
  const std::int64_t stored = rows->int8(0, 1);
  const std::int64_t actual = rows->int8(0, 2);
  history_ = rows->text(0, 3);
  // What is read from here on stands behind what is parked already.
  last_position_ = std::max(last_position_, rows->int8(0, 4));
  if (stored != actual && stored != 0) read_ = kNothing;
  settled_ = written_ = read_;
  if (stored == actual) return {};
  const Result<Rows> adopted =
      reader_.connection.query(kAdoptCluster, Params()
                                                  .text(reader_.relay)
                                                  .int4(static_cast<std::int32_t>(reader_.lane))
                                                  .int8(actual)
                                                  .text(read_)
                                                  .int8(reader_.epoch));
  if (!adopted) return fail(adopted.error());
  return {};
}

// What is in memory belongs to one server's history.
Status MappedWindows::check_history() const {
  if (generation_ == reader_.generation && reader_.connection) return {};
  return fail(Errc::unavailable,
              "the connection was lost, or leads to another server now; what was read is read "
              "again; check for a failover");
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
  DOVETAIL_TRY(check_history());
  Result<Connection> opened = Connection::open(reader_.conninfo);
  if (!opened) return fail(opened.error());
  Gap gap;
  gap.connection = std::move(*opened);
  gap.connection.set_timeout(kGapTimeout);
  // A sink that stands still makes it wait, which is no reason to end it. Rows that row level
  // security hides are an error: the log would have had them.
  DOVETAIL_TRY(gap.connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY" + import +
                                      "; SET LOCAL idle_in_transaction_session_timeout = 0; SET "
                                      "LOCAL statement_timeout = 0; SET LOCAL row_security = off"));
  gap.is_last = !snapshot.empty();
  gap.end = std::move(snapshot);
  gap_began_ = clock_.now();
  begin_at_ = gap_began_ + kPauseMin;
  if (!gap.is_last) {
    const Result<Rows> now = gap.connection.query("SELECT pg_current_snapshot()::text");
    if (!now) return fail(now.error());
    gap.end = now->text(0, 0);
    if (gap.end == read_) return {};
  }
  DOVETAIL_TRY(look_for(gap));
  gap_ = std::move(gap);
  ended_ = false;
  return {};
}

// The rows are looked for when the first of them are asked for, which may take long: here the
// server only makes its plan.
Status MappedWindows::look_for(Gap& gap) const {
  const Result<Snapshot> from = Snapshot::parse(read_);
  if (!from) return fail(from.error());
  const Result<Snapshot> to = Snapshot::parse(gap.end);
  if (!to) return fail(to.error());
  const auto first = static_cast<std::int64_t>(from->first_shown_by(*to));
  const std::int64_t numbers = static_cast<std::int64_t>(to->xmax()) - first;
  const bool all = read_ == kNothing || numbers >= kShortNumbers;
  const Result<Rows> declared = gap.connection.query(
      "DECLARE dovetail_gap NO SCROLL CURSOR FOR " + gap_keys_sql(table_, mapping_),
      Params().boolean(all).int8(first % kShortNumbers).int8(numbers));
  if (!declared) return fail(declared.error());
  return {};
}

Status MappedWindows::read(Batch& out, const Limits& limits, std::stop_token stop) {
  DOVETAIL_TRY(check_history());
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
  reach(std::move(gap_->end));
  ended_ = gap_->is_last;
  gap_.reset();
  begin_at_ = std::max(begin_at_, clock_.now() + kPauseToGap * (clock_.now() - gap_began_));
  return {};
}

// False: the server still looks for them. The lease must be kept meanwhile.
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

// The size that is known beforehand may be that of the stored row; what then is too much is read
// again. The first row always comes.
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
  handed_count_ += taken;
  keys.erase(keys.begin(), keys.begin() + static_cast<std::ptrdiff_t>(taken));
  return {};
}

void MappedWindows::handed_out_elsewhere(std::uint64_t events) { handed_count_ += events; }

void MappedWindows::covers(const std::string& snapshot, std::int64_t) { reach(snapshot); }

void MappedWindows::reach(std::string snapshot) {
  read_ = std::move(snapshot);
  if (settled_count_ == handed_count_) {
    handed_out_.clear();
    settled_ = read_;
  } else if (!handed_out_.empty() && handed_out_.back().count == handed_count_) {
    handed_out_.back().after = read_;
  } else {
    handed_out_.push_back(HandedOut{handed_count_, read_});
  }
}

Status MappedWindows::settle(const Batch& batch, std::span<const Settled> fates) {
  DOVETAIL_CHECK(batch.size() == fates.size());
  settled_count_ += fates.size();
  DOVETAIL_CHECK(settled_count_ <= handed_count_);
  settled_since_ += static_cast<std::int64_t>(fates.size());
  parked_since_ += std::count(fates.begin(), fates.end(), Settled::parked);
  while (!handed_out_.empty() && handed_out_.front().count <= settled_count_) {
    settled_ = std::move(handed_out_.front().after);
    handed_out_.pop_front();
  }
  return {};
}

Status MappedWindows::flush() {
  if (settled_since_ == 0 && settled_ == written_) return {};
  return write_progress();
}

// Progress over what others wrote loses nothing in a crash, so it is written seldom.
Status MappedWindows::do_chores() {
  if (clock_.now() < write_idle_at_ || settled_ == written_) return {};
  return write_progress();
}

Status MappedWindows::write_progress() {
  DOVETAIL_TRY(check_history());
  const Result<Rows> rows =
      reader_.connection.query(kWriteProgress, Params()
                                                   .text(reader_.relay)
                                                   .int4(static_cast<std::int32_t>(reader_.lane))
                                                   .int8(reader_.epoch)
                                                   .text(settled_)
                                                   .int8(settled_since_)
                                                   .int8(parked_since_)
                                                   .text(history_));
  if (!rows) return fail(rows.error());
  if (rows->empty()) return fail(taken_over(reader_));
  written_ = settled_;
  settled_since_ = parked_since_ = 0;
  write_idle_at_ = clock_.now() + kIdleWriteInterval;
  return {};
}

}  // namespace dovetail::postgres
