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

// A stream that the server has started.
struct StartedStream {
  Replication replication{};
  bool resumes = false;                // the slot existed before
  bool has_messages = false;           // it includes messages of pg_logical_emit_message()
  WalPosition begins_at{};             // of a new slot: windows read everything before it
  std::string publication{};           // its mark
  std::optional<Snapshot> left_out{};  // the part of the stream that windows have read
};

// To the WAL: a new slot shows a snapshot of its start. Windows read up to that snapshot, and then
// the stream begins: nothing is left out, and nothing comes twice. Back to the table: windows begin
// after the last covered snapshot plus the transactions streamed since.
// docs/decisions/0013-the-log-is-an-accelerator.md says why that is exact. One thread.
class Handover {
 public:
  // All must outlive this.
  Handover(Reader& reader, Windows& windows, Clock& clock, SlotKeeper& slot, ReadStatus& status,
           const WalSourceOptions& options)
      : reader_(reader),
        windows_(windows),
        progress_(windows.progress()),
        clock_(clock),
        slot_(slot),
        status_(status),
        options_(options) {}

  // The session is over: drops what is under way.
  void close();
  // A session begins in this run of the server. `slot` is open already.
  void open(std::string run);

  // Does what is possible now. Returns a stream when it is the next to read: windows have read
  // everything that it does not have. An error ends the session; what is impossible only for now is
  // retried later.
  Result<std::optional<StartedStream>> advance();
  // The stream has ended. `has_lasted`: its start was not a failure.
  void stream_ended(bool has_lasted);
  // Waits longer: this failure will not pass soon.
  void rest() { try_at_ = clock_.now() + options_.retry_every; }
  // Gives up the slot that is being made, and reads windows until the next try.
  void give_up(const Error& why);

  // A slot is being found or made. Windows are read meanwhile, with short waits.
  bool is_under_way() const { return step_ != Step::none; }
  // The server keeps WAL for it already.
  bool has_slot() const { return step_ > Step::connecting; }
  // Windows must wait: the slot has what they would repeat, or more.
  bool holds_windows() const;
  void windows_were_read() { has_looked_ = true; }
  void events_were_settled() { settled_at_ = clock_.now(); }

  // Makes windows continue after everything streamed. False: that is too much for a snapshot; the
  // next safe point leaves less.
  Result<bool> leave_stream();

  Published published() const { return {options_.publication, windows_.table_oid()}; }

 private:
  // In each of these steps, windows are read.
  enum class Step : std::uint8_t {
    none,
    connecting,  // on another thread
    making,      // asked the server for a slot
    meeting,     // until the slot's snapshot is visible and no window is open
    closing,     // windows read up to that snapshot
    resuming,    // the slot is ready; waits until no window is open
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

  // For all sessions.
  SlotSearch search_{};
  bool has_streamed_ = false;
  int failures_ = 0;
  TimePoint try_at_{};

  // For one session.
  Step step_ = Step::none;
  std::string run_{};           // in which its snapshots are valid
  bool has_looked_ = false;     // in the table
  TimePoint settled_at_{};      // the last time
  bool is_slot_known_ = false;  // whether the lasting slot can be resumed
  bool may_resume_ = false;     // false: it is known that it cannot
  TimePoint slot_wanted_at_{};  // a new slot

  // For one attempt.
  SlotAccess access_{};
  CreatedSlot made_{};
  std::string end_{};     // the snapshot of the slot's start
  std::string before_{};  // what windows had read when the end was set
  TimePoint say_who_at_{};
};

}  // namespace dovetail::postgres
