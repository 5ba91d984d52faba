#include "postgres/wal/source.h"

#include <algorithm>
#include <utility>

namespace dovetail::postgres {

namespace {

using namespace std::chrono_literals;

// The longest wait of a read while other work is pending.
constexpr Duration kLookAtStreamEvery = 20ms;

WalSourceOptions complete(WalSourceOptions options, const Reader& reader) {
  if (options.replication_conninfo.empty()) options.replication_conninfo = reader.conninfo;
  return options;
}

}  // namespace

WalSource::WalSource(Reader& reader, Windows& windows, Clock& clock, RelayMetrics& metrics,
                     WalSourceOptions options)
    : reader_(reader),
      windows_(windows),
      progress_(windows.progress()),
      clock_(clock),
      metrics_(metrics),
      options_(complete(std::move(options), reader)),
      status_(reader, metrics, options_),
      slot_(reader, progress_, clock, metrics, options_),
      safe_points_(reader, progress_, clock, options_),
      stream_(progress_, clock, options_, reader.source == SourceKind::outbox),
      handover_(reader, windows, clock, slot_, status_, options_) {}

Status WalSource::open() {
  options_.passing("open");
  if (stream_) end_stream("the session was lost");
  handover_.close();
  DOVETAIL_TRY(connect(reader_));
  Result<ServerIdentity> server = identify(reader_.connection);
  if (!server) return fail(server.error());
  Result<std::string> run = server_run(reader_.connection);
  if (!run) return fail(run.error());
  run_ = std::move(*run);
  DOVETAIL_TRY(slot_.open(std::move(*server)));
  handover_.open(run_);
  DOVETAIL_TRY(windows_.open());
  options_.passing("opened");
  return status_.open();
}

Status WalSource::read(Batch& out, const Limits& limits, std::stop_token stop) {
  if (options_.reading.mode == ReadMode::poll) return windows_.read(out, limits, stop);
  if (!stream_) {
    Result<std::optional<StartedStream>> started = handover_.advance();
    if (!started) return fail(started.error());
    if (*started) DOVETAIL_TRY(begin_stream(std::move(**started)));
  }
  return stream_ ? read_stream(out, limits, stop) : read_windows(out, limits, stop);
}

Status WalSource::settle(const Batch& batch, std::span<const Settled> fates) {
  DOVETAIL_TRY(windows_.settle(batch, fates));
  handover_.events_were_settled();
  return {};
}

Status WalSource::flush() {
  if (stream_ && progress_.is_level()) stream_.take_end();
  DOVETAIL_TRY(windows_.flush());
  safe_points_.written();
  options_.passing("progress written");
  return stream_ ? report(true) : Status{};
}

Status WalSource::keep_alive() {
  if (stream_) {
    if (const Status runs = stream_.check(); !runs) return fail_stream(runs.error());
    // Also while the sink blocks, so that a safe point is near when it continues.
    DOVETAIL_TRY(take_safe_point());
  }
  return look_at_slot();
}

Status WalSource::read_windows(Batch& out, const Limits& limits, std::stop_token stop) {
  Limits part = limits;
  if (handover_.is_under_way()) part.wait_max = std::min(part.wait_max, kLookAtStreamEvery);
  if (handover_.holds_windows()) {
    clock_.sleep(std::min(part.wait_max, kLookAtStreamEvery), stop);
    return {};
  }
  const std::size_t before = out.size();
  DOVETAIL_TRY(windows_.read(out, part, stop));
  handover_.windows_were_read();
  if (out.size() > before) options_.passing("windows read");
  return {};
}

Status WalSource::begin_stream(StartedStream started) {
  progress_.begin_stream(started.begins_at, slot_.recorded());
  stream_.begin(std::move(started.replication), std::move(started.left_out));
  safe_points_.begin(handover_.published(),
                     Proof{slot_.server().timeline, run_, std::move(started.publication)});
  slot_.stream_begins();
  metrics_.stream_starts.fetch_add(1, std::memory_order_relaxed);
  status_.reads_wal("through the slot " + slot_.name() +
                    (started.resumes ? ", where it stood" : ""));
  if (!started.has_messages || slot_.stays()) return {};
  return stream_.send_probe(reader_.connection);
}

Status WalSource::read_stream(Batch& out, const Limits& limits, std::stop_token stop) {
  const std::size_t before = out.size();
  const TimePoint until = clock_.now() + limits.wait_max;
  while (true) {
    DOVETAIL_TRY(look_after_stream());
    if (!stream_) return {};
    const Duration wait_max = std::clamp(until - clock_.now(), Duration{0}, kLookAtStreamEvery);
    const Status done = stream_.read(out, limits, wait_max, stop);
    if (out.size() > before) safe_points_.has_read();
    pass_safe_point();
    if (!done) return fail_stream(done.error());
    if (out.size() > before || stop.stop_requested() || clock_.now() >= until) return {};
  }
}

Status WalSource::look_after_stream() {
  options_.wal_settled(progress_.wal_settled_to());
  DOVETAIL_TRY(windows_.do_chores());
  DOVETAIL_TRY(take_safe_point());
  DOVETAIL_TRY(consider_leaving());
  if (!stream_) return {};
  if (safe_points_.is_write_due()) {
    safe_points_.written();
    DOVETAIL_TRY(windows_.flush());
  }
  DOVETAIL_TRY(look_at_slot());
  if (const Status seen = stream_.check_probe(); !seen) return fail_stream(seen.error());
  return slot_.is_report_due() ? report(false) : Status{};
}

Status WalSource::take_safe_point() {
  const Result<std::string> why_not = safe_points_.take_if_due();
  if (!why_not) return fail(why_not.error());
  if (!why_not->empty()) return fail_stream(Error{Errc::unavailable, *why_not});
  pass_safe_point();
  return {};
}

// What windows read before the stream also committed before its first safe point.
void WalSource::pass_safe_point() {
  if (safe_points_.pass(stream_.position())) stream_.leave_nothing_out();
}

Status WalSource::consider_leaving() {
  if (!slot_.stays() && safe_points_.is_overdue())
    DOVETAIL_TRY(stream_.consider_leaving(reader_.connection));
  if (!stream_.can_leave()) return {};
  const Result<bool> left = handover_.leave_stream();
  if (!left) return fail(left.error());
  if (*left) {
    end_stream("about " + std::to_string(stream_.behind()) +
               " events behind, which the table gives quicker than the WAL");
  } else {
    stream_.stay();
  }
  return {};
}

Status WalSource::look_at_slot() {
  if (!stream_ && !handover_.has_slot()) return {};
  const bool is_level = stream_ && progress_.is_level() && !stream_.is_inside_transaction();
  const Result<SlotKeeper::Look> look = slot_.look_if_due(is_level);
  if (!look) return fail(look.error());
  if (look->has_noted) stream_.ask_for_sign();
  if (!look->too_much) return {};
  if (stream_) return fail_stream(*look->too_much);
  handover_.give_up(*look->too_much);
  return {};
}

Status WalSource::report(bool has_settled) {
  // Progress beyond the slot's start would make its stream skip what only the stream has.
  if (slot_.is_first_report()) DOVETAIL_TRY(windows_.flush());
  const Result<std::optional<WalPosition>> position = slot_.report(has_settled);
  if (!position) return fail(position.error());
  if (!*position) return {};
  stream_.report(**position);
  options_.passing("reported");
  return {};
}

void WalSource::end_stream(std::string_view why) {
  handover_.stream_ended(stream_.end());
  safe_points_.end();
  metrics_.stream_ends.fetch_add(1, std::memory_order_relaxed);
  status_.reads_table(why);
}

// The table has everything that the stream had: the next session begins with the table.
Status WalSource::fail_stream(const Error& why) {
  const bool is_lasting = why.code != Errc::unavailable;
  if (is_lasting && slot_.stays()) slot_.distrust(why.text);
  end_stream(why.text);
  if (is_lasting) handover_.rest();
  return fail(Errc::unavailable, why.text);
}

}  // namespace dovetail::postgres
