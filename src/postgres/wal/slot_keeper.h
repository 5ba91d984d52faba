// Manages the slot of a lane: its name, whether it can be trusted, how much WAL the server may keep
// for it, and what is reported to the server.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/clock.h"
#include "core/metrics.h"
#include "postgres/lane/reader.h"
#include "postgres/outbox/progress.h"
#include "postgres/wal/options.h"
#include "postgres/wal/slot_access.h"
#include "postgres/wal/slot_record.h"
#include "postgres/wal/standby_snapshot.h"

namespace dovetail::postgres {

// In mode wal the slot stays between streams. It is resumed only from a position that the database
// has recorded as reported. In mode auto the slot is temporary and ends with its stream. One
// thread.
class SlotKeeper {
 public:
  // All must outlive this.
  SlotKeeper(Reader& reader, Progress& progress, Clock& clock, RelayMetrics& metrics,
             const WalSourceOptions& options)
      : reader_(reader), progress_(progress), clock_(clock), metrics_(metrics), options_(options) {}

  // A session begins on `server`. Forgets a record of another cluster.
  Status open(ServerIdentity server);

  bool stays() const { return options_.reading.mode == ReadMode::wal; }
  // The slot belongs to another relay and is resumed at its position.
  bool takes_over() const { return !options_.slot.empty() && record_.slot != options_.slot; }
  // This lane has streamed through a slot before; with is_same: through the current one.
  bool is_recorded() const { return !record_.slot.empty(); }
  bool is_same_as_recorded() const { return record_.slot == name_; }
  const std::string& name() const { return name_; }
  const ServerIdentity& server() const { return server_; }

  // What to look for. Names the slot.
  SlotAccessOptions wanted(const Published& published);
  // It was found or can be made. Returns why the old one is lost, unless that was reported.
  std::string found(const SlotAccess& access);
  // Drops the slot at the next attempt, whatever its state.
  void distrust(std::string why) { distrusted_ = std::move(why); }
  bool is_distrusted() const { return stays() && !distrusted_.empty(); }
  // Too much was kept: no new slot until the sink takes events again.
  bool waits_for_sink() const { return !stays() || was_too_much_; }

  // Records, before the stream begins, that the lane uses the slot: until everything read before is
  // settled, the server's position may not be resumed. Returns where to start streaming; 0: at the
  // slot's position.
  Result<WalPosition> record(const SlotAccess& access);
  // The position recorded as reported; nullopt: no record is needed.
  std::optional<WalPosition> recorded() const {
    return stays() ? std::optional(record_.reported) : std::nullopt;
  }

  struct Look {
    std::optional<Error> too_much{};  // the slot is given up
    // The server has logged its running transactions and could release some WAL: ask it how far it
    // is.
    bool has_noted = false;
  };
  // Checks how much the server keeps, if it is time. `is_level`: everything read is settled.
  Result<Look> look_if_due(bool is_level);

  // A stream begins: it reports at once.
  void stream_begins() { report_at_ = {}; }
  bool is_report_due();
  // The first report of a lasting slot.
  bool is_first_report() const {
    return stays() && progress_.recorded_to() == WalPosition{} &&
           progress_.wal_settled_to() > WalPosition{};
  }
  // Records what may be reported, if that is needed and worth it. `has_settled`: more events are
  // settled; else the report only covers the WAL of others. nullopt: not now.
  Result<std::optional<WalPosition>> report(bool has_settled);

 private:
  bool is_much_kept() const;

  Reader& reader_;
  Progress& progress_;
  Clock& clock_;
  RelayMetrics& metrics_;
  const WalSourceOptions& options_;

  // For all sessions.
  std::string distrusted_{};   // why
  bool was_too_much_ = false;  // the server kept more WAL for us than allowed
  bool is_given_up_ = false;   // the slot was dropped for that, and that was reported

  // For one session.
  ServerIdentity server_{};
  SlotRecord record_{};
  std::string name_{};
  TimePoint look_at_{};
  TimePoint report_at_{};
  TimePoint report_kept_at_{};
  StandbySnapshot standby_snapshot_{};
};

}  // namespace dovetail::postgres
