#include "postgres/wal/handover.h"

#include <algorithm>
#include <utility>

#include "core/relay/server_run.h"

namespace dovetail::postgres {

namespace {

using namespace std::chrono_literals;

constexpr Duration kSettledLately = 2s;
constexpr Duration kReadTableAfter = 1s;
constexpr Duration kSayWhoHoldsUpAfter = 2s;
constexpr Duration kRetryMin = 100ms;
constexpr Duration kRetryMax = 5s;
// How many unstreamed transactions between streamed ones windows can name.
constexpr std::size_t kGapsMax = 20'000;

// Rows with a transaction number from the future, from another cluster: windows wait until their
// own numbers reach it, and a stream does not know that.
const std::string kHasForeignRows =
    "SELECT EXISTS (SELECT FROM dovetail.outbox WHERE xid >= "
    "pg_snapshot_xmax(pg_current_snapshot())), " +
    kServerRun;

std::optional<StartedStream> not_yet() { return std::nullopt; }

}  // namespace

void Handover::close() {
  search_.abandon();
  step_ = Step::none;
  access_ = {};
}

void Handover::open(std::string run) {
  close();
  run_ = std::move(run);
  has_looked_ = false;
  settled_at_ = {};
  is_slot_known_ = !slot_.stays();
  may_resume_ = slot_.takes_over() || slot_.is_recorded();
  slot_wanted_at_ = clock_.now();
}

Handover::Started Handover::advance() {
  switch (step_) {
    case Step::none:
      if (is_time_to_begin()) begin();
      return not_yet();
    case Step::connecting:
      return search_.has_ended() ? take_access() : not_yet();
    case Step::making:
      return take_slot();
    case Step::meeting:
      return end_windows();
    case Step::closing:
      return windows_.has_ended() ? start() : not_yet();
    case Step::resuming:
      return windows_.is_between_windows() ? start() : not_yet();
  }
  return not_yet();
}

// A lasting slot is made at once. Otherwise windows first read until they are level; and while the
// sink accepts nothing, the server should not keep WAL.
bool Handover::is_time_to_begin() const {
  if (clock_.now() < try_at_) return false;
  if (!slot_.waits_for_sink() || slot_.is_distrusted()) return true;
  const bool is_level = has_looked_ && windows_.is_between_windows();
  const bool flows = progress_.is_level() || clock_.now() < settled_at_ + kSettledLately;
  return is_level && flows;
}

void Handover::begin() {
  if (!search_.is_free()) return;
  options_.passing("connecting");
  search_.begin(slot_.wanted(published()));
  step_ = Step::connecting;
}

Handover::Started Handover::take_access() {
  Result<SlotAccess> found = search_.result();
  if (!found) {
    if (found.error().code == Errc::rejected && slot_.stays() && !has_streamed_)
      return fail(found.error());
    return not_now(found.error());
  }
  access_ = std::move(*found);
  is_slot_known_ = true;
  step_ = Step::none;
  if (!access_.resumes && std::exchange(may_resume_, false)) slot_wanted_at_ = clock_.now();
  const std::string lost = slot_.found(access_);
  if (!access_.replication) return not_yet();  // the slot was only dropped
  options_.passing("connected");
  if (access_.resumes) {
    step_ = Step::resuming;
    return advance();
  }
  if (!lost.empty()) status_.reads_table(lost + "; the gap is closed from the table");
  const Status asked =
      access_.replication.ask_for_slot(slot_.name(), !slot_.stays(), slot_.stays());
  if (!asked) return not_now(asked.error());
  options_.passing("slot asked for");
  say_who_at_ = clock_.now() + kSayWhoHoldsUpAfter;
  step_ = Step::making;
  return advance();
}

Handover::Started Handover::take_slot() {
  Result<std::optional<CreatedSlot>> made = access_.replication.slot_made();
  if (made && !*made) {
    DOVETAIL_TRY(say_who_holds_up());
    return not_yet();
  }
  if (!made) return not_now(made.error());
  made_ = std::move(**made);
  options_.passing("slot made");
  Result<std::string> imported = import_snapshot(reader_.connection, made_.exported_snapshot);
  if (!imported) {
    if (!reader_.connection) return fail(imported.error());
    return not_now(imported.error());
  }
  end_ = std::move(*imported);
  step_ = Step::meeting;
  return advance();
}

// The server makes a slot when all open transactions have ended.
Status Handover::say_who_holds_up() {
  if (clock_.now() < say_who_at_) return {};
  say_who_at_ = clock_.now() + options_.retry_every;
  const auto holder = who_holds_up(reader_.connection, access_.replication.backend_pid());
  if (!holder) return fail(holder.error());
  if (*holder) status_.reads_table("the server makes no slot before it ends: " + **holder);
  return {};
}

// Windows may have passed the end meanwhile; what they had read before is skipped in the
// stream.
Handover::Started Handover::end_windows() {
  if (!windows_.is_between_windows()) return not_yet();
  const Result<bool> visible = is_visible(reader_.connection, end_);
  if (!visible) return fail(visible.error());
  if (!*visible) return not_yet();
  before_ = progress_.read_to().prev;
  DOVETAIL_TRY(windows_.end_at_exported(made_.exported_snapshot, end_));
  options_.passing("windows end");
  step_ = Step::closing;
  return not_yet();
}

// The stream skips what windows have read. It is connected already and would not survive a
// crash.
Status Handover::check_table() {
  const Result<Rows> foreign = reader_.connection.query(kHasForeignRows);
  if (!foreign) return fail(foreign.error());
  if (!is_same_run(run_, foreign->text(0, 1))) return fail(run_has_ended());
  if (reader_.source == SourceKind::mapped || !foreign->boolean(0, 0)) return {};
  const std::string why = "the table has rows of another cluster";
  slot_.distrust(why);
  give_up(Error{Errc::unavailable, why});
  return fail(Errc::unavailable, why + ", which get new numbers now");
}

Handover::Started Handover::start() {
  DOVETAIL_TRY(check_table());
  if (step_ == Step::resuming) before_ = progress_.read_to().prev;
  Result<Snapshot> shown = Snapshot::parse(before_);
  if (!shown) return fail(shown.error());
  const Result<WalPosition> from = slot_.record(access_);
  if (!from) return fail(from.error());
  options_.passing("stream starting");
  const bool has_messages = access_.replication.server_version() >= 140000;
  const Status started = access_.replication.start(
      {slot_.name(), options_.publication, has_messages, options_.binary, *from});
  if (!started) return not_now(started.error());
  options_.passing("stream started");
  step_ = Step::none;
  has_streamed_ = true;
  StartedStream stream;
  stream.replication = std::move(access_.replication);
  stream.resumes = access_.resumes;
  stream.has_messages = has_messages;
  if (!stream.resumes) stream.begins_at = made_.start;
  stream.publication = access_.publication;
  // For a mapped table, windows may have passed the start of a new slot without seeing a row that
  // was deleted by then.
  if (reader_.source == SourceKind::outbox || stream.resumes) stream.left_out = std::move(*shown);
  return std::optional(std::move(stream));
}

Handover::Started Handover::not_now(const Error& why) {
  give_up(why);
  return not_yet();
}

void Handover::give_up(const Error& why) {
  if (step_ == Step::closing) windows_.go_on();
  step_ = Step::none;
  access_ = {};
  is_slot_known_ = true;
  ++failures_;
  try_at_ = clock_.now() + (why.code == Errc::rejected ? options_.retry_every : retry_delay());
  status_.reads_table(why.text);
}

void Handover::stream_ended(bool has_lasted) {
  failures_ = has_lasted ? 0 : failures_ + 1;
  try_at_ = clock_.now() + (has_lasted ? Duration{0} : retry_delay());
}

Duration Handover::retry_delay() const {
  const Duration longest = std::min(kRetryMax, options_.retry_every);
  return std::min(longest, kRetryMin * (1 << std::clamp(failures_ - 1, 0, 10)));
}

// A lasting slot is resumed if possible: until that is known, windows would only repeat what it
// holds. A slot that is taken over covers what the table holds.
bool Handover::holds_windows() const {
  if (!slot_.stays()) return false;
  if (slot_.takes_over() || (!is_slot_known_ && slot_.is_same_as_recorded())) return true;
  return reader_.source == SourceKind::mapped && holds_mapped_windows();
}

// The WAL also has rows that are deleted before a look at the table. The table is read if no slot
// can be resumed, and a new one takes long.
bool Handover::holds_mapped_windows() const {
  if (!windows_.is_between_windows() || step_ == Step::closing) return false;
  if (step_ == Step::meeting || step_ == Step::resuming) return true;
  return may_resume_ || clock_.now() < slot_wanted_at_ + kReadTableAfter;
}

Result<bool> Handover::leave_stream() {
  const Result<Snapshot> reached = progress_.streamed_to();
  if (!reached) return fail(reached.error());
  if (reached->in_progress() > kGapsMax) return false;
  options_.passing("stream left");
  progress_.cover(reached->text(), progress_.passed());
  windows_.go_on();
  return true;
}

}  // namespace dovetail::postgres
