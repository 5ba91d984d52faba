#include "postgres/wal/slot_keeper.h"

#include <utility>

namespace dovetail::postgres {

namespace {

using namespace std::chrono_literals;

constexpr Duration kLookAtSlotEvery = 100ms;
constexpr Duration kReportEvery = 1s;
// This much WAL may stay unreported to save a write.
constexpr std::uint64_t kReportBytes = 1 << 20;
// If the server keeps this much WAL of others, reports are frequent, and the server is made to
// process them.
constexpr std::uint64_t kMuchKept = 4 << 20;
constexpr Duration kLookAtMuchKeptEvery = 50ms;
constexpr Duration kReportMuchKeptEvery = 5s;

}  // namespace

Status SlotKeeper::open(ServerIdentity server) {
  server_ = std::move(server);
  Result<SlotRecord> record = load_slot_record(reader_);
  if (!record) return fail(record.error());
  record_ = std::move(*record);
  // In another cluster this name is another slot; the windows forget the rest.
  const bool is_ours = record_.system_identifier == server_.system_identifier;
  if (record_.slot.empty() || is_ours) return {};
  record_ = SlotRecord{};
  return write_slot(reader_, record_);
}

SlotAccessOptions SlotKeeper::wanted(const Published& published) {
  name_ = !options_.slot.empty() ? options_.slot
          : stays()              ? slot_name(reader_.relay, server_.database)
                                 : temporary_slot_name(reader_.relay, server_.database);
  SlotAccessOptions wanted;
  wanted.conninfo = options_.replication_conninfo;
  wanted.server = server_;
  wanted.published = published;
  wanted.checks_publication = options_.checks_publication;
  wanted.slot = name_;
  wanted.temporary = !stays();
  wanted.record = record_;
  wanted.held = {reader_.relay, reader_.lane, reader_.epoch};
  wanted.takes_over = takes_over();
  wanted.distrusted = distrusted_;
  wanted.drops_only = is_distrusted() && was_too_much_;
  return wanted;
}

std::string SlotKeeper::found(const SlotAccess& access) {
  distrusted_.clear();
  if (!access.replication) {
    is_given_up_ = !access.lost.empty();
    return {};
  }
  was_too_much_ = false;
  if (access.resumes || std::exchange(is_given_up_, false)) return {};
  return access.lost;
}

Result<WalPosition> SlotKeeper::record(const SlotAccess& access) {
  if (!stays()) return WalPosition{};
  // The server may have missed our last report. On another timeline positions have another
  // meaning.
  const bool is_ours = access.resumes && !takes_over() && record_.timeline == server_.timeline;
  const WalPosition from = is_ours ? record_.reported : WalPosition{};
  SlotRecord now{name_, server_.timeline, access.publication, {}, server_.system_identifier};
  if (access.resumes) now.reported = is_ours ? from : access.confirmed;
  DOVETAIL_TRY(write_slot(reader_, now));
  record_ = std::move(now);
  return from;
}

bool SlotKeeper::is_much_kept() const { return metrics_.retained_wal_bytes > kMuchKept; }

Result<SlotKeeper::Look> SlotKeeper::look_if_due(bool is_level) {
  Look look;
  if (clock_.now() < look_at_) return look;
  const Result<std::optional<SlotState>> found = find_slot(reader_.connection, name_);
  if (!found) return fail(found.error());
  const std::int64_t retained = *found ? (*found)->retained_bytes : 0;
  metrics_.retained_wal_bytes = static_cast<std::uint64_t>(retained);
  look_at_ = clock_.now() + (is_much_kept() ? kLookAtMuchKeptEvery : kLookAtSlotEvery);
  if (retained > options_.reading.retained_wal_max) {
    was_too_much_ = true;
    if (stays()) distrust("more WAL was kept for it than retained_wal_max");
    look.too_much =
        Error{Errc::unavailable,
              "the server keeps " + std::to_string(retained >> 20) +
                  " MiB of WAL for us, more than retained_wal_max; the relay gives up the slot; "
                  "check whether the sink is slow, or a transaction open for long"};
    return look;
  }
  // So that it keeps little WAL of others while we have nothing in flight.
  if (!*found || !is_level || !is_much_kept() ||
      !standby_snapshot_.is_due(clock_.now(), (*found)->kept_from))
    return look;
  DOVETAIL_TRY(standby_snapshot_.make(reader_.connection));
  look.has_noted = true;
  report_at_ = {};
  return look;
}

bool SlotKeeper::is_report_due() {
  if (clock_.now() < report_at_) return false;
  report_at_ = clock_.now() + (is_much_kept() ? Duration{0} : kReportEvery);
  return true;
}

Result<std::optional<WalPosition>> SlotKeeper::report(bool has_settled) {
  const WalPosition settled = progress_.wal_settled_to();
  const WalPosition recorded = progress_.recorded_to();
  if (stays() && settled > recorded) {
    const bool is_first = recorded == WalPosition{};
    const bool is_due = is_much_kept() && clock_.now() >= report_kept_at_;
    if (!is_first && !has_settled && !is_due && settled.value < recorded.value + kReportBytes)
      return std::optional<WalPosition>();
    options_.passing("confirmed");
    DOVETAIL_TRY(write_reported(reader_, settled));
    progress_.record(settled);
    report_kept_at_ = clock_.now() + kReportMuchKeptEvery;
    options_.passing("report written");
  }
  return std::optional(progress_.reportable());
}

}  // namespace dovetail::postgres
