// How a WalSource changes from windows to the log.
#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "core/event/sha256.h"
#include "core/relay/server_run.h"
#include "host/errand.h"
#include "host/host.h"
#include "postgres/wal/source_state.h"

namespace dovetail::postgres {

namespace {

using namespace std::chrono_literals;

constexpr Duration kSettledLately = 2s;
constexpr Duration kAttemptEndsWithin = 500ms;
constexpr Duration kSayWhoHoldsUpAfter = 2s;
constexpr Duration kRetryMin = 100ms;
constexpr Duration kRetryMax = 5s;

// Rows that carry the number of a transaction that is still to come, from another cluster: windows
// wait for a new number of theirs, and a stream knows nothing of that.
const std::string kHasForeignRows =
    "SELECT EXISTS (SELECT FROM dovetail.outbox WHERE xid >= "
    "pg_snapshot_xmax(pg_current_snapshot())), " +
    kServerRun;

// A snapshot that was made from the log ends behind the last commit, and begins further on when all
// who came later have ended without one. The server reads no such text back.
constexpr std::string_view kImported =
    "SELECT CASE WHEN pg_snapshot_xmin(s) > pg_snapshot_xmax(s) "
    "THEN pg_snapshot_xmin(s)::text || ':' || pg_snapshot_xmin(s)::text || ':' ELSE s::text END "
    "FROM pg_current_snapshot() AS s";

// What a snapshot shows that another connection has exported.
Result<std::string> import_snapshot(Connection& connection, const std::string& name) {
  const Result<Transaction> transaction =
      Transaction::begin(connection, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
  if (!transaction) return fail(transaction.error());
  DOVETAIL_TRY(connection.execute("SET TRANSACTION SNAPSHOT " + quoted_text(name)));
  const Result<Rows> rows = connection.query(kImported);
  if (!rows) return fail(rows.error());
  return std::string(rows->text(0, 0));
}

std::string random_text() {
  std::array<std::uint8_t, 16> bytes{};
  SystemEntropy().fill(bytes);
  return to_hex({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

}  // namespace

Status WalSource::State::advance() {
  switch (step) {
    case Step::none:
      if (is_time_to_begin()) begin_attempt();
      return {};
    case Step::connecting:
      return take_way();
    case Step::making:
      return take_slot();
    case Step::meeting:
      return end_windows();
    case Step::closing:
      return windows.has_ended() ? start_stream() : Status{};
    case Step::resuming:
      return windows.is_between_windows() ? start_stream() : Status{};
  }
  return {};
}

// A slot that stays is made at once. Otherwise windows come first until they are level, and a sink
// that takes nothing is no reason to let the server keep its log.
bool WalSource::State::is_time_to_begin() const {
  if (clock.now() < try_at) return false;
  if (stays() && !was_too_much) return true;
  const bool is_level = has_looked && windows.is_between_windows();
  const bool flows = progress.is_level() || clock.now() < settled_at + kSettledLately;
  return (is_level && flows) || (stays() && !distrusted.empty());
}

void WalSource::State::begin_attempt() {
  if (attempt.valid()) {
    if (attempt.wait_for(0s) != std::future_status::ready) return;
    (void)attempt.get();  // of an earlier session
  }
  SlotAccessOptions asked;
  asked.conninfo = options.replication_conninfo;
  asked.server = server;
  asked.published = published();
  asked.checks_publication = options.checks_publication;
  asked.temporary = !stays();
  slot = !options.slot.empty() ? options.slot
         : stays()             ? slot_name(reader.relay, server.database)
                               : temporary_slot_name(reader.relay, server.database);
  asked.slot = slot;
  asked.record = record;
  asked.held = {reader.relay, reader.lane, reader.epoch};
  asked.takes_over = takes_over();
  asked.distrusted = distrusted;
  asked.drops_only = stays() && was_too_much && !distrusted.empty();
  options.passing("connecting");
  auto find = std::make_shared<std::packaged_task<Result<SlotAccess>()>>(
      [asked = std::move(asked), stop = attempt_stop.get_token()] {
        return find_slot_access(asked, stop);
      });
  attempt = find->get_future();
  run_errand([find] { (*find)(); });
  step = Step::connecting;
}

// A hanging connect cannot be interrupted, so shutdown does not wait for it.
void WalSource::State::abandon_attempt() {
  attempt_stop.request_stop();
  if (attempt.valid()) (void)attempt.wait_for(kAttemptEndsWithin);
}

Status WalSource::State::take_way() {
  if (attempt.wait_for(0s) != std::future_status::ready) return {};
  Result<SlotAccess> found = attempt.get();
  if (!found && found.error().code == Errc::rejected && stays() && !has_streamed)
    return fail(found.error());
  if (!found) return give_up(found.error());
  access = std::move(*found);
  is_way_known = true;
  distrusted.clear();
  step = Step::none;
  if (!access.resumes && std::exchange(may_resume, false)) slot_wanted_at = clock.now();
  if (!access.replication) {  // only dropped; a new one is made when the sink takes again
    is_given_up = !access.lost.empty();
    return {};
  }
  was_too_much = false;
  options.passing("connected");
  if (access.resumes) {
    step = Step::resuming;
    return advance();
  }
  if (!std::exchange(is_given_up, false) && !access.lost.empty())
    say(false, access.lost + "; the gap is closed from the table");
  const Status asked = access.replication.ask_for_slot(slot, !stays(), stays());
  if (!asked) return give_up(asked.error());
  options.passing("slot asked for");
  asked_at = clock.now();
  say_who_at = asked_at + kSayWhoHoldsUpAfter;
  step = Step::making;
  return advance();
}

Status WalSource::State::take_slot() {
  Result<std::optional<CreatedSlot>> slot_made = access.replication.slot_made();
  if (!slot_made) return give_up(slot_made.error());
  if (!*slot_made) return say_who_holds_up();
  made = std::move(**slot_made);
  options.passing("slot made");
  Result<std::string> imported = import_snapshot(reader.connection, made.exported_snapshot);
  if (!imported) {
    if (!reader.connection) return fail(imported.error());
    return give_up(imported.error());
  }
  end = std::move(*imported);
  step = Step::meeting;
  return advance();
}

// The server makes a slot when every transaction that is open has ended.
Status WalSource::State::say_who_holds_up() {
  if (clock.now() < say_who_at) return {};
  say_who_at = clock.now() + options.retry_every;
  const auto holder = who_holds_up(reader.connection, access.replication.backend_pid());
  if (!holder) return fail(holder.error());
  if (*holder) say(false, "the server makes no slot before it ends: " + **holder);
  return {};
}

// Windows may have gone past the end meanwhile; what they had handed out before is left out of the
// stream.
Status WalSource::State::end_windows() {
  if (!windows.is_between_windows()) return {};
  const Result<bool> visible = is_visible(reader.connection, end);
  if (!visible) return fail(visible.error());
  if (!*visible) return {};
  before = progress.read_to().prev;
  DOVETAIL_TRY(windows.end_at_exported(made.exported_snapshot, end));
  options.passing("windows end");
  step = Step::closing;
  return {};
}

// Written before the stream begins: nothing that the server has of it may be gone on with until
// what windows have handed out is settled.
Status WalSource::State::record_slot() {
  if (!stays()) return {};
  SlotRecord now{slot, server.timeline, access.publication, {}, server.system_identifier};
  const bool is_ours = !takes_over() && record.timeline == server.timeline;
  if (access.resumes) now.reported = is_ours ? record.reported : access.confirmed;
  record = std::move(now);
  return write_slot(reader, record);
}

Status WalSource::State::start_stream() {
  const Result<Rows> foreign = reader.connection.query(kHasForeignRows);
  if (!foreign) return fail(foreign.error());
  // What windows have handed out is left out of the stream, which is connected already and would
  // not outlive a crash.
  if (!is_same_run(run, foreign->text(0, 1))) return fail(run_has_ended());
  if (!reader.mapped && foreign->boolean(0, 0)) {
    distrusted = "the table has rows of another cluster";
    (void)give_up(Error{Errc::unavailable, distrusted});
    return fail(Errc::unavailable, distrusted + ", which get new numbers now");
  }
  if (step == Step::resuming) before = progress.read_to().prev;
  Result<Snapshot> shown = Snapshot::parse(before);
  if (!shown) return fail(shown.error());
  const bool has_messages = access.replication.server_version() >= 140000;
  // The server may not have heard our last report. On another timeline positions mean something
  // else.
  const bool is_ours = access.resumes && !takes_over() && record.timeline == server.timeline;
  const WalPosition from = is_ours ? record.reported : WalPosition{};
  DOVETAIL_TRY(record_slot());
  options.passing("stream starting");
  const Status started =
      access.replication.start({slot, options.publication, has_messages, options.binary, from});
  if (!started) return give_up(started.error());
  progress.begin_stream(access.resumes ? WalPosition{} : made.start,
                        stays() ? std::optional(record.reported) : std::nullopt);
  stream = std::make_unique<WalStream>(std::move(access.replication), options.make_rows(), progress,
                                       clock, WalStreamOptions{options.replication_conninfo});
  // Of a mapped table windows may have passed the start of a new slot, but not have seen a row that
  // was deleted by then.
  if (!reader.mapped || access.resumes) stream->leave_out(std::move(*shown));
  options.passing("stream started");
  step = Step::none;
  has_streamed = true;
  started_at = pending_since = clock.now();
  awaited = {};
  pending.reset();
  safe_point_at = idle_safe_point_at = consider_at = report_at = TimePoint{};
  has_read = leaves_out = true;
  is_leaving = false;
  write_covered_at.reset();
  moved_to = {};
  metrics.stream_starts.fetch_add(1, std::memory_order_relaxed);
  say(true, "through the slot " + slot + (access.resumes ? ", where it stood" : ""));
  probe.clear();
  return has_messages && !stays() ? send_probe() : Status{};
}

// Back to windows, until it is tried again.
Status WalSource::State::give_up(const Error& why) {
  if (step == Step::closing) windows.go_on();
  step = Step::none;
  access = {};
  is_way_known = true;
  ++failures;
  try_at = clock.now() + (why.code == Errc::rejected ? options.retry_every : retry_delay());
  say(false, why.text);
  return {};
}

Duration WalSource::State::retry_delay() const {
  const Duration longest = std::min(kRetryMax, options.retry_every);
  return std::min(longest, kRetryMin * (1 << std::clamp(failures - 1, 0, 10)));
}

// Proves that what is written into the log comes out of it.
Status WalSource::State::send_probe() {
  probe = random_text();
  const Result<Rows> written = reader.connection.query(
      "SELECT pg_logical_emit_message(false, $1, $2)", Params().text(kProbePrefix).text(probe));
  if (written) return {};
  if (!reader.connection) return fail(written.error());
  probe.clear();  // the right was taken from PUBLIC: the log is read all the same
  return {};
}

}  // namespace dovetail::postgres
