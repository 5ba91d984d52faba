// What a WalSource knows, and its steps. How it changes to the log is in handover.cc, how it
// reads in source.cc.
#pragma once

#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>

#include "postgres/stream/stream.h"
#include "postgres/wal/slot_access.h"
#include "postgres/wal/slot_record.h"
#include "postgres/wal/source.h"
#include "postgres/wal/standby_snapshot.h"

namespace dovetail::postgres {

struct WalSource::State {
  // How far the change to the log is. Windows are read at each of these steps.
  enum class Step : std::uint8_t {
    none,
    connecting,  // beside this thread
    making,      // the server was asked for a slot
    meeting,     // until what the slot's snapshot shows is visible, and no window is open
    closing,     // windows are read up to that snapshot
    resuming,    // the slot is there; until no window is open
  };

  State(Reader& given_reader, Windows& given_windows, Clock& given_clock,
        RelayMetrics& given_metrics, WalSourceOptions given)
      : reader(given_reader),
        windows(given_windows),
        progress(given_windows.progress()),
        clock(given_clock),
        metrics(given_metrics),
        options(std::move(given)) {
    if (options.replication_conninfo.empty()) options.replication_conninfo = reader.conninfo;
  }

  bool stays() const { return options.mode == ReadMode::wal; }
  bool takes_over() const { return !options.slot.empty() && record.slot != options.slot; }
  Published published() const { return {options.publication, windows.table_oid()}; }

  // The change to the log, step by step.
  Status advance();
  bool is_time_to_begin() const;
  void begin_attempt();
  void abandon_attempt();
  Status take_way();
  Status take_slot();
  Status say_who_holds_up();
  Status end_windows();
  Status start_stream();
  Status record_slot();
  Status send_probe();
  Status give_up(const Error& why);

  // Reading.
  bool holds_windows() const;
  bool holds_mapped_windows() const;
  Status read_windows(Batch& out, const Limits& limits, std::stop_token stop);
  Status read_stream(Batch& out, const Limits& limits, std::stop_token stop);
  void count_read(const Batch& out, std::size_t before, Duration waited);

  // While the log is read.
  Status look_after_stream();
  Status take_safe_point_if_due(TimePoint now);
  void pass_safe_point();
  Status consider_leaving(TimePoint now);
  Status leave_for_windows();
  Status check_probe();
  Status write_covered(TimePoint now);
  Status report(bool events_settled);
  Status look_at_slot();
  Status look_at_slot_if_due();
  Status let_server_note(WalPosition kept_from);
  bool is_much_kept() const;

  void end_stream(std::string_view why);
  Status fail_stream(const Error& why);
  void say(bool streams, std::string_view why);
  Duration retry_delay() const;

  Reader& reader;
  Windows& windows;
  Progress& progress;
  Clock& clock;
  RelayMetrics& metrics;
  WalSourceOptions options;

  // Over all sessions.
  std::future<Result<SlotAccess>>
      attempt{};  // by a thread that may outlive us, and touches nothing here
  std::stop_source attempt_stop{};
  bool has_streamed = false;
  int failures = 0;
  TimePoint try_at{};
  std::string distrusted{};   // why the slot that stays is to be dropped
  bool was_too_much = false;  // more of the log was kept for us than may be
  bool is_given_up = false;   // the slot that stays was dropped for that, and people know
  std::string said{};         // last, by changed()

  // Of a session.
  Step step = Step::none;
  ServerIdentity server{};
  std::string run{};  // of the server, in which the snapshots of this session mean something
  SlotRecord record{};
  bool is_way_known = false;   // whether the slot that stays can be gone on with
  bool may_resume = false;     // unless it is known that it cannot
  TimePoint slot_wanted_at{};  // a new one
  std::string slot{};
  SlotAccess access{};
  CreatedSlot made{};
  std::string end{};     // the snapshot of the slot's start
  std::string before{};  // what windows had handed out when the end was set
  TimePoint asked_at{};
  TimePoint say_who_at{};
  TimePoint look_at_slot_at{};
  StandbySnapshot standby_snapshot{};
  TimePoint settled_at{};
  bool has_looked = false;  // into the table

  // Of a stream.
  std::unique_ptr<WalStream> stream{};
  TimePoint started_at{};
  std::optional<SafePoint> pending{};
  TimePoint pending_since{};
  TimePoint safe_point_at{};
  TimePoint idle_safe_point_at{};
  TimePoint consider_at{};
  bool has_read = true;  // something since the last safe point was taken
  bool leaves_out = false;
  bool is_leaving = false;
  std::int64_t behind = 0;
  std::optional<TimePoint> write_covered_at{};
  TimePoint report_at{};
  TimePoint report_kept_at{};
  std::string probe{};  // empty: seen, or not sent
  Duration awaited{};   // by reads that brought nothing, since the stream last moved
  WalPosition moved_to{};
};

}  // namespace dovetail::postgres
