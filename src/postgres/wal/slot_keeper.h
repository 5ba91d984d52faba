// Keeps the slot of a lane: which one it is, whether it can be trusted, how much of the WAL the
// server may keep for it, and what the server is told.
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

// Mode wal has a slot that stays between streams: it is resumed only from a position that the
// database knows to be reported. Mode auto has a temporary one, which ends with its stream. One
// thread.
class SlotKeeper {
 public:
  // All outlive this.
  SlotKeeper(Reader& reader, Progress& progress, Clock& clock, RelayMetrics& metrics,
             const WalSourceOptions& options)
      : reader_(reader), progress_(progress), clock_(clock), metrics_(metrics), options_(options) {}

  // A session begins on `server`. A record of another cluster is forgotten.
  Status open(ServerIdentity server);

  bool stays() const { return options_.mode == ReadMode::wal; }
  // The slot belongs to another relay, and is resumed at its position.
  bool takes_over() const { return !options_.slot.empty() && record_.slot != options_.slot; }
  // This lane has streamed through a slot before; with is_same: through the very one of now.
  bool is_recorded() const { return !record_.slot.empty(); }
  bool is_same_as_recorded() const { return record_.slot == name_; }
  const std::string& name() const { return name_; }
  const ServerIdentity& server() const { return server_; }

  // What to look for. Gives the slot its name.
  SlotAccessOptions wanted(const Published& published);
  // It was found, or can be made. Returns why the one that we had is lost, unless people know.
  std::string found(const SlotAccess& access);
  // The slot is dropped at the next attempt, whatever it looks like.
  void distrust(std::string why) { distrusted_ = std::move(why); }
  bool is_distrusted() const { return stays() && !distrusted_.empty(); }
  // Too much was kept: there is no new slot before the sink takes events again.
  bool waits_for_sink() const { return !stays() || was_too_much_; }

  // Records that the lane streams through the slot, before the stream begins: until what was read
  // before it is settled, nothing that the server has of it may be resumed. Returns from where to
  // stream; 0: from where the slot is.
  Result<WalPosition> record(const SlotAccess& access);
  // The position that is recorded as reported; nullopt: there is no need to record it.
  std::optional<WalPosition> recorded() const {
    return stays() ? std::optional(record_.reported) : std::nullopt;
  }

  struct Look {
    std::optional<Error> too_much{};  // the slot is given up
    // The server has noted which transactions run, and could let go of some WAL: ask it how far it
    // is.
    bool has_noted = false;
  };
  // Looks how much the server keeps, if it is time. `is_level`: nothing of ours is under way.
  Result<Look> look_if_due(bool is_level);

  // A stream begins: it reports at once what it can.
  void stream_begins() { report_at_ = {}; }
  bool is_report_due();
  // The first report of a slot that stays.
  bool is_first_report() const {
    return stays() && progress_.recorded_to() == WalPosition{} &&
           progress_.wal_settled_to() > WalPosition{};
  }
  // Writes down what may be reported, where that is needed and worth it. `has_settled`: more was
  // settled, and a report is not only for what others have written. nullopt: not now.
  Result<std::optional<WalPosition>> report(bool has_settled);

 private:
  bool is_much_kept() const;

  Reader& reader_;
  Progress& progress_;
  Clock& clock_;
  RelayMetrics& metrics_;
  const WalSourceOptions& options_;

  // Over all sessions.
  std::string distrusted_{};   // why
  bool was_too_much_ = false;  // more of the WAL was kept for us than may be
  bool is_given_up_ = false;   // the slot was dropped for that, and people know

  // Of a session.
  ServerIdentity server_{};
  SlotRecord record_{};
  std::string name_{};
  TimePoint look_at_{};
  TimePoint report_at_{};
  TimePoint report_kept_at_{};
  StandbySnapshot standby_snapshot_{};
};

}  // namespace dovetail::postgres
