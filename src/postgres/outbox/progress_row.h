// The row of a lane in dovetail.relay_lane, for sources that use snapshots.
#pragma once

#include <string>
#include <string_view>

#include "core/clock.h"
#include "postgres/lane/reader.h"
#include "postgres/outbox/progress.h"

namespace dovetail::postgres {

// Written without fsync: a crash of the server repeats events and loses none. Used on the reader's
// thread.
class ProgressRow {
 public:
  // Both must outlive this.
  ProgressRow(Reader& reader, Clock& clock) : reader_(reader), clock_(clock) {}

  struct Loaded {
    TablePosition position{};
    bool is_restored = false;  // into another cluster, where the stored position means nothing:
                               // `from` is the start
  };
  // Begins a session: connects, and returns where it starts.
  Result<Loaded> load();

  // unavailable: the state in memory belongs to another session or run of the server.
  Status check() const { return check(run_); }
  Status check(std::string_view run) const;

  // Writes what the database does not have yet. stopped: another relay has taken the lane.
  // unavailable: the server has crashed since.
  Status write(Progress& progress);
  // Progress without own events: a crash loses nothing, so it is written rarely.
  Status write_if_idle(Progress& progress);

 private:
  Reader& reader_;
  Clock& clock_;
  std::uint64_t generation_ = 0;  // of the connection that loaded the progress
  std::string run_{};             // of the server at that time
  TimePoint write_idle_at_{};
};

}  // namespace dovetail::postgres
