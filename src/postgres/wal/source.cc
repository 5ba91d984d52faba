#include "postgres/wal/source.h"

#include <algorithm>
#include <utility>

#include "core/relay/server_run.h"
#include "postgres/wal/source_state.h"

namespace dovetail::postgres {

namespace {

using namespace std::chrono_literals;

// While something else is to be looked after, one wait of a reader is no longer than this.
constexpr Duration kLookEvery = 20ms;
constexpr Duration kLookAtSlotEvery = 100ms;
constexpr Duration kReportEvery = 1s;
constexpr Duration kReadTableAfter = 1s;
constexpr Duration kIdleSafePoint = 5s;
constexpr Duration kWriteCovered = 200ms;
// A safe point that the stream has not reached while so many could have been taken: it does not
// keep up.
constexpr int kBehindFor = 4;
// Transactions between those that were streamed, that a snapshot can have to name.
constexpr std::size_t kGapsMax = 20'000;
// A stream that ended sooner counts as a failure.
constexpr Duration kLastingStream = 30s;
// So much of the log may stay unreported for the sake of a write less.
constexpr std::uint64_t kReportBytes = 1 << 20;
// Unless the server keeps so much, of what others have written: then it is reported often, and the
// server is made to take notice.
constexpr std::uint64_t kMuchKept = 4 << 20;
constexpr Duration kLookAtMuchKeptEvery = 50ms;
constexpr Duration kReportMuchKeptEvery = 5s;

constexpr std::string_view kLog = "log: ";
constexpr std::string_view kTable = "table: ";

}  // namespace

WalSource::WalSource(Reader& reader, Windows& windows, Clock& clock, RelayMetrics& metrics,
                     WalSourceOptions options)
    : state_(std::make_unique<State>(reader, windows, clock, metrics, std::move(options))) {}

WalSource::~WalSource() {
  state_->abandon_attempt();
  state_->metrics.streams = 0;
  state_->metrics.retained_wal_bytes = 0;
  state_->options.log_settled({});
}

Status WalSource::open() {
  State& s = *state_;
  s.options.passing("open");
  if (s.stream) s.end_stream("the session was lost");
  s.step = State::Step::none;
  s.attempt_stop.request_stop();
  s.attempt_stop = {};
  s.access = {};
  s.settled_at = {};
  s.has_looked = false;
  s.is_way_known = !s.stays();
  DOVETAIL_TRY(connect(s.reader));
  Result<ServerIdentity> server = identify(s.reader.connection);
  if (!server) return fail(server.error());
  s.server = std::move(*server);
  Result<std::string> run = server_run(s.reader.connection);
  if (!run) return fail(run.error());
  s.run = std::move(*run);
  Result<SlotRecord> record = load_slot_record(s.reader);
  if (!record) return fail(record.error());
  s.record = std::move(*record);
  // In another cluster a slot of the same name is another one; the windows will forget the rest.
  if (!s.record.slot.empty() && s.record.system_identifier != s.server.system_identifier) {
    s.record = SlotRecord{};
    DOVETAIL_TRY(write_slot(s.reader, s.record));
  }
  s.may_resume = s.takes_over() || !s.record.slot.empty();
  s.slot_wanted_at = s.clock.now();
  DOVETAIL_TRY(s.windows.open());
  s.options.passing("opened");
  std::string_view how =
      s.options.mode == ReadMode::poll ? "mode is poll" : "begins with the table";
  if (s.said.starts_with(kTable)) how = std::string_view(s.said).substr(kTable.size());
  return write_how_it_reads(s.reader, false, how);
}

Status WalSource::read(Batch& out, const Limits& limits, std::stop_token stop) {
  State& s = *state_;
  if (s.options.mode == ReadMode::poll) return s.windows.read(out, limits, stop);
  if (!s.stream) DOVETAIL_TRY(s.advance());
  return s.stream ? s.read_stream(out, limits, stop) : s.read_windows(out, limits, stop);
}

Status WalSource::settle(const Batch& batch, std::span<const Settled> fates) {
  State& s = *state_;
  DOVETAIL_TRY(s.windows.settle(batch, fates));
  s.settled_at = s.clock.now();
  return {};
}

Status WalSource::flush() {
  State& s = *state_;
  if (s.stream && s.progress.is_level()) s.stream->take_end();
  DOVETAIL_TRY(s.windows.flush());
  s.write_covered_at.reset();
  s.options.passing("progress written");
  return s.stream ? s.report(true) : Status{};
}

Status WalSource::keep_alive() {
  State& s = *state_;
  if (s.stream) {
    const Status runs = s.stream->check();
    if (!runs) return s.fail_stream(runs.error());
    // Also while the sink stands still, so that one is near when it goes on.
    DOVETAIL_TRY(s.take_safe_point_if_due(s.clock.now()));
  }
  return s.look_at_slot_if_due();
}

// A slot that stays is gone on with if that can be: until it is known, windows would only repeat
// what it holds. One that is taken over stands for what the table holds.
bool WalSource::State::holds_windows() const {
  if (!stays()) return false;
  if (takes_over() || (!is_way_known && record.slot == slot)) return true;
  return reader.mapped && holds_mapped_windows();
}

// The log has rows, too, that are deleted when somebody looks for them in the table: that is read
// when there is no slot to go on with, and a new one is long in coming.
bool WalSource::State::holds_mapped_windows() const {
  if (!windows.is_between_windows() || step == Step::closing) return false;
  if (step == Step::meeting || step == Step::resuming) return true;
  return may_resume || clock.now() < slot_wanted_at + kReadTableAfter;
}

Status WalSource::State::read_windows(Batch& out, const Limits& limits, std::stop_token stop) {
  Limits part = limits;
  if (step != Step::none) part.wait_max = std::min(part.wait_max, kLookEvery);
  if (holds_windows()) {
    clock.sleep(std::min(part.wait_max, kLookEvery), stop);
    return {};
  }
  const std::size_t size = out.size();
  DOVETAIL_TRY(windows.read(out, part, stop));
  has_looked = true;
  if (out.size() == size) return {};
  options.passing("windows read");
  return {};
}

Status WalSource::State::read_stream(Batch& out, const Limits& limits, std::stop_token stop) {
  const std::size_t size = out.size();
  const TimePoint until = clock.now() + limits.wait_max;
  while (true) {
    DOVETAIL_TRY(look_after_stream());
    if (!stream) return {};
    Limits part = limits;
    part.wait_max = std::clamp(until - clock.now(), Duration{0}, kLookEvery);
    // The end of a transaction is looked for.
    if (is_leaving) part.events_max = 1;
    const TimePoint began = clock.now();
    const Status done = stream->read(out, part, stop);
    count_read(out, size, std::min(clock.now() - began, part.wait_max));
    if (!done) return fail_stream(done.error());
    if (out.size() > size || stop.stop_requested() || clock.now() >= until) return {};
  }
}

void WalSource::State::count_read(const Batch& out, std::size_t before_size, Duration waited) {
  const std::size_t count = out.size() - before_size;
  if (stream->position() != moved_to || count > 0) {
    moved_to = stream->position();
    awaited = {};
  } else {
    awaited += waited;
  }
  if (count > 0) {
    progress.pass(out.events().back().position);
    has_read = true;
    options.passing(stream->is_inside_transaction() ? "inside a transaction" : "commit read");
  }
  pass_safe_point();
}

Status WalSource::State::look_after_stream() {
  const TimePoint now = clock.now();
  options.log_settled(progress.wal_settled_to());
  DOVETAIL_TRY(windows.do_chores());
  DOVETAIL_TRY(take_safe_point_if_due(now));
  DOVETAIL_TRY(consider_leaving(now));
  if (!stream) return {};
  DOVETAIL_TRY(write_covered(now));
  DOVETAIL_TRY(look_at_slot_if_due());
  if (!stream) return {};
  if (const Status seen = check_probe(); !seen) return fail_stream(seen.error());
  if (now < report_at) return {};
  report_at = now + (is_much_kept() ? Duration{0} : kReportEvery);
  return report(false);
}

Status WalSource::State::take_safe_point_if_due(TimePoint now) {
  if (pending || now < safe_point_at || !(has_read || now >= idle_safe_point_at)) return {};
  Result<SafePoint> taken = take_safe_point(reader.connection, published());
  if (!taken) return fail(taken.error());
  if (taken->timeline != server.timeline)
    return fail_stream(
        Error{Errc::unavailable, "another server has taken over; check for a failover"});
  if (!is_same_run(run, taken->run)) return fail_stream(run_has_ended());
  if (taken->publication != access.publication)
    return fail_stream(Error{Errc::unavailable, "the publication " + options.publication +
                                                    " was changed; check who changes it"});
  pending = std::move(*taken);
  pending_since = now;
  safe_point_at = now + options.safe_point_every;
  idle_safe_point_at = now + kIdleSafePoint;
  has_read = false;
  options.passing("safe point taken");
  pass_safe_point();
  return {};
}

// Everything that committed before the position was handed out, so everything that the snapshot
// shows was.
void WalSource::State::pass_safe_point() {
  if (!pending || stream->position() < pending->position) return;
  progress.cover(pending->snapshot, pending->last_seq);
  // What was handed out before the stream began has committed before that position, too.
  if (std::exchange(leaves_out, false)) stream->leave_out(std::nullopt);
  write_covered_at = clock.now() + kWriteCovered;
  pending.reset();
  options.passing("safe point covered");
}

// Far behind, windows over the table are quicker than the server's decoding; unless it is the sink
// that holds things up, or a transaction that has many numbers and has not committed.
Status WalSource::State::consider_leaving(TimePoint now) {
  if (is_leaving) return stream->is_inside_transaction() ? Status{} : leave_for_windows();
  const bool keeps_up = !pending || now < pending_since + kBehindFor * options.safe_point_every;
  if (stays() || keeps_up || now < consider_at) return {};
  consider_at = now + options.safe_point_every;
  if (!stream->was_drained()) return {};
  const Result<Rows> last = reader.connection.query("SELECT last_value FROM dovetail.outbox_seq");
  if (!last) return fail(last.error());
  behind = last->int8(0, 0) - progress.passed();
  is_leaving = progress.passed() > 0 && behind >= options.catch_up_events;
  return {};
}

// Windows go on behind what was covered last, and behind everything that was streamed since.
Status WalSource::State::leave_for_windows() {
  is_leaving = false;
  const Result<Snapshot> reached = progress.streamed_to();
  if (!reached) return fail(reached.error());
  if (reached->in_progress() > kGapsMax) return {};  // the next safe point leaves fewer
  options.passing("stream left");
  progress.cover(reached->text(), progress.passed());
  windows.go_on();
  end_stream("about " + std::to_string(behind) +
             " events behind, which the table gives quicker than the log");
  return {};
}

// Time in which nobody reads does not count: a sink may take nothing, or the process be paused.
Status WalSource::State::check_probe() {
  if (probe.empty()) return {};
  if (stream->last_probe() == probe) {
    probe.clear();
    options.passing("probe seen");
    return {};
  }
  if (awaited < options.probe_within) return {};
  return fail(Errc::corrupt,
              "what was written into the log did not come out of it in time; check the server's "
              "log");
}

// While nothing flows nobody else would write it.
Status WalSource::State::write_covered(TimePoint now) {
  if (!write_covered_at || now < *write_covered_at || !progress.has_moved()) return {};
  write_covered_at.reset();
  return windows.flush();
}

// A slot that stays is gone on with only from a position that is known here to be reported: so it
// is written first, and durably.
Status WalSource::State::report(bool events_settled) {
  const WalPosition reached = progress.wal_settled_to();
  if (stays() && reached > record.reported) {
    const bool is_first = record.reported == WalPosition{};
    const bool is_due = is_much_kept() && clock.now() >= report_kept_at;
    const bool is_worth_it = is_first || events_settled || is_due ||
                             reached.value >= record.reported.value + kReportBytes;
    if (!is_worth_it) return {};
    options.passing("confirmed");
    // A progress beyond the start of the slot would have its stream leave out what it alone has.
    if (is_first) DOVETAIL_TRY(windows.flush());
    DOVETAIL_TRY(write_reported(reader, reached));
    record.reported = reached;
    progress.record(reached);
    report_kept_at = clock.now() + kReportMuchKeptEvery;
    options.passing("report written");
  }
  stream->report(progress.reportable());
  options.passing("reported");
  return {};
}

Status WalSource::State::look_at_slot_if_due() {
  const bool has_slot = stream || step > Step::connecting;
  if (!has_slot || clock.now() < look_at_slot_at) return {};
  DOVETAIL_TRY(look_at_slot());
  look_at_slot_at = clock.now() + (is_much_kept() ? kLookAtMuchKeptEvery : kLookAtSlotEvery);
  return {};
}

Status WalSource::State::look_at_slot() {
  const Result<std::optional<SlotState>> found = find_slot(reader.connection, slot);
  if (!found) return fail(found.error());
  const std::int64_t retained = *found ? (*found)->retained_bytes : 0;
  metrics.retained_wal_bytes = static_cast<std::uint64_t>(retained);
  if (retained <= options.retained_wal_max)
    return *found ? let_server_note((*found)->kept_from) : Status{};
  const Error why{Errc::unavailable,
                  "the server keeps " + std::to_string(retained >> 20) +
                      " MiB of its log for us, more than retained_wal_max; the slot is given up; "
                      "check whether the sink is slow, or a transaction open for long"};
  was_too_much = true;
  if (stays()) distrusted = "more of the log was kept for it than retained_wal_max";
  return stream ? fail_stream(why) : give_up(why);
}

bool WalSource::State::is_much_kept() const { return metrics.retained_wal_bytes > kMuchKept; }

// So that it keeps little of what others write while nothing of ours is under way.
Status WalSource::State::let_server_note(WalPosition kept_from) {
  const bool is_level = stream && progress.is_level() && !stream->is_inside_transaction();
  if (!is_level || !is_much_kept() || !standby_snapshot.is_due(clock.now(), kept_from)) return {};
  DOVETAIL_TRY(standby_snapshot.make(reader.connection));
  stream->ask_for_sign();
  report_at = {};
  return {};
}

void WalSource::State::end_stream(std::string_view why) {
  const bool lasted = clock.now() >= started_at + kLastingStream;
  failures = lasted ? 0 : failures + 1;
  try_at = clock.now() + (lasted ? Duration{0} : retry_delay());
  stream.reset();
  pending.reset();
  metrics.stream_ends.fetch_add(1, std::memory_order_relaxed);
  say(false, why);
}

// The table has everything that the stream had: the next session begins with it.
Status WalSource::State::fail_stream(const Error& why) {
  const bool is_lasting = why.code != Errc::unavailable;
  if (is_lasting && stays()) distrusted = why.text;
  end_stream(why.text);
  if (is_lasting) try_at = clock.now() + options.retry_every;
  return fail(Errc::unavailable, why.text);
}

void WalSource::State::say(bool streams, std::string_view why) {
  const std::string now = std::string(streams ? kLog : kTable) + std::string(why);
  metrics.streams = streams ? 1 : 0;
  if (!streams) metrics.retained_wal_bytes = 0;
  if (!streams) options.log_settled({});
  if (now == said) return;
  said = now;
  options.changed(streams, why);
  // If it is not ours any more, the next write of progress says so.
  (void)write_how_it_reads(reader, streams, why);
}

}  // namespace dovetail::postgres
