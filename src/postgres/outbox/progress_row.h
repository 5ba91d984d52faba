// The row of a lane in dovetail.relay_lane, as a source that goes by snapshots keeps it.
#pragma once

#include <string>
#include <string_view>

#include "core/clock.h"
#include "postgres/lane/reader.h"
#include "postgres/outbox/progress.h"

namespace dovetail::postgres {

// Written without waiting for the disk: a crash of the server repeats events, and loses none. The
// thread of the reader.
class ProgressRow {
 public:
  // Both outlive this.
  ProgressRow(Reader& reader, Clock& clock) : reader_(reader), clock_(clock) {}

  struct Loaded {
    TablePosition position{};
    bool is_restored = false;  // into another cluster, where the position that was stored means
                               // nothing: this one is the beginning
  };
  // Begins a session: connects, and says where it begins.
  Result<Loaded> load();

  // unavailable: what is in memory belongs to another session or to another run of the server.
  Status check() const { return check(run_); }
  Status check(std::string_view run) const;

  // Writes what the database does not have yet. stopped: another relay has taken the lane over.
  // unavailable: the server has crashed since.
  Status write(Progress& progress);
  // Progress over what belongs to others loses nothing in a crash, so it is written seldom.
  Status write_if_idle(Progress& progress);

 private:
  Reader& reader_;
  Clock& clock_;
  std::uint64_t generation_ = 0;  // of the connection that the progress was loaded through
  std::string run_{};             // of the server then
  TimePoint write_idle_at_{};
};

}  // namespace dovetail::postgres
