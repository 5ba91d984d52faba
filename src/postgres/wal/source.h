// Reads a table from the WAL if possible, and by windows over the table if not, or if that is
// faster.
#pragma once

#include <string_view>

#include "core/metrics.h"
#include "postgres/lane/reader.h"
#include "postgres/outbox/windows.h"
#include "postgres/wal/handover.h"
#include "postgres/wal/options.h"
#include "postgres/wal/read_status.h"
#include "postgres/wal/safe_points.h"
#include "postgres/wal/slot_keeper.h"
#include "postgres/wal/stream_reader.h"

namespace dovetail::postgres {

// The table remains the truth. The lane's progress is that of its windows: whatever happens to the
// slot, reading continues from there. After a failure the session starts over from the last
// progress.
//
// Each part has its own task: `handover` joins windows and stream, `stream` reads, `safe_points`
// tell which part of the table the stream has covered, `slot` limits what the server keeps for us.
// This class connects them.
class WalSource final : public Source {
 public:
  // `windows` reads the same table with the same reader.
  WalSource(Reader& reader, Windows& windows, Clock& clock, RelayMetrics& metrics,
            WalSourceOptions options);

  Status open() override;
  Status read(Batch& out, const Limits& limits, std::stop_token stop) override;
  Status settle(const Batch& batch, std::span<const Settled> fates) override;
  Status flush() override;
  // unavailable: the server keeps too much WAL for us, or the stream has ended.
  Status keep_alive() override;
  Receipt* receipt() override { return windows_.receipt(); }

 private:
  Status read_windows(Batch& out, const Limits& limits, std::stop_token stop);
  Status begin_stream(StartedStream started);
  Status read_stream(Batch& out, const Limits& limits, std::stop_token stop);
  Status look_after_stream();
  Status take_safe_point();
  void pass_safe_point();
  Status consider_leaving();
  Status look_at_slot();
  Status report(bool has_settled);
  void end_stream(std::string_view why);
  Status fail_stream(const Error& why);

  Reader& reader_;
  Windows& windows_;
  Progress& progress_;
  Clock& clock_;
  RelayMetrics& metrics_;
  const WalSourceOptions options_;
  std::string run_{};  // of the server, in this session

  ReadStatus status_;
  SlotKeeper slot_;
  SafePoints safe_points_;
  StreamReader stream_;
  Handover handover_;
};

}  // namespace dovetail::postgres
