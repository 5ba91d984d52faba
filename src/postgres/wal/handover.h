// The steps between reading the table by snapshot windows and reading the WAL.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/clock.h"
#include "postgres/lane/reader.h"
#include "postgres/outbox/progress.h"
#include "postgres/outbox/windows.h"
#include "postgres/wal/options.h"
#include "postgres/wal/read_status.h"
#include "postgres/wal/slot_access.h"
#include "postgres/wal/slot_keeper.h"

namespace dovetail::postgres {

// A stream that the server has begun to send.
struct StartedStream {
  Replication replication{};
  bool resumes = false;                // the slot was there before
  bool has_messages = false;           // it brings what was written by pg_logical_emit_message()
  WalPosition begins_at{};             // of a new slot: everything before was read by windows
  std::string publication{};           // its mark
  std::optional<Snapshot> left_out{};  // what windows read of the stream
};

// To the WAL: a new slot is made, which shows a snapshot of its start. Windows are read up to that
// snapshot, and then the stream begins: nothing is left out, and nothing comes twice. To the table,
// to catch up: windows begin behind what was covered last and the transactions that were streamed
// since. Why that is exact: docs/decisions/0013-the-log-is-an-accelerator.md. One thread.
class Handover {
 public:
  // All outlive this.
  Handover(Reader& reader, Windows& windows, Clock& clock, SlotKeeper& slot, ReadStatus& status,
           const WalSourceOptions& options)
      : reader_(reader),
        windows_(windows),
        progress_(windows.progress()),
        clock_(clock),
        slot_(slot),
        status_(status),
        options_(options) {}

  // The session is over: what is under way is left.
  void close();
  // A session begins, in this run of the server. `slot` was opened before.
  void open(std::string run);

  // Does what can be done now. A stream: it is to be read from here on, and windows have read
  // everything that is not in it. An error ends the session; what is only not possible now is tried
  // again later.
  Result<std::optional<StartedStream>> advance();
  // The stream has ended. `has_lasted`: its start was no failure.
  void stream_ended(bool has_lasted);
  // What has failed does not change soon.
  void rest() { try_at_ = clock_.now() + options_.retry_every; }
  // Leaves the slot, if there is one on the way, and reads windows until it is tried again.
  void give_up(const Error& why);

  // A slot is looked for or made. Windows are read meanwhile, but for short waits.
  bool is_under_way() const { return step_ != Step::none; }
  // The server keeps WAL for it already.
  bool has_slot() const { return step_ > Step::connecting; }
  // Windows are not to be read now: the slot has what they would repeat, or more.
  bool holds_windows() const;
  void windows_were_read() { has_looked_ = true; }
  void events_were_settled() { settled_at_ = clock_.now(); }

  // Windows go on behind everything that was streamed. False: that would be too much to say; the
  // next safe point leaves less.
  Result<bool> leave_stream();

  Published published() const { return {options_.publication, windows_.table_oid()}; }

 private:
  // Windows are read at each of these steps.
  enum class Step : std::uint8_t {
    none,
    connecting,  // beside this thread
    making,      // the server was asked for a slot
    meeting,     // until what the slot's snapshot shows is visible, and no window is open
    closing,     // windows are read up to that snapshot
    resuming,    // the slot is there; until no window is open
  };
  using Started = Result<std::optional<StartedStream>>;

  bool is_time_to_begin() const;
  bool holds_mapped_windows() const;
  void begin();
  Started take_access();
  Started take_slot();
  Status say_who_holds_up();
  Started end_windows();
  Status check_table();
  Started start();
  Started not_now(const Error& why);
  Duration retry_delay() const;

  Reader& reader_;
  Windows& windows_;
  Progress& progress_;
  Clock& clock_;
  SlotKeeper& slot_;
  ReadStatus& status_;
  const WalSourceOptions& options_;

  // Over all sessions.
  SlotSearch search_{};
  bool has_streamed_ = false;
  int failures_ = 0;
  TimePoint try_at_{};

  // Of a session.
  Step step_ = Step::none;
  std::string run_{};           // in which its snapshots mean something
  bool has_looked_ = false;     // into the table
  TimePoint settled_at_{};      // last
  bool is_slot_known_ = false;  // whether the slot that stays can be resumed
  bool may_resume_ = false;     // unless it is known that it cannot
  TimePoint slot_wanted_at_{};  // a new one

  // Of an attempt.
  SlotAccess access_{};
  CreatedSlot made_{};
  std::string end_{};     // the snapshot of the slot's start
  std::string before_{};  // what windows had read when the end was set
  TimePoint say_who_at_{};
};

}  // namespace dovetail::postgres
