// Reads a table through the server's log where it can, and by windows over the table where it
// cannot or where that is quicker.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "core/metrics.h"
#include "core/relay/read_mode.h"
#include "postgres/lane/reader.h"
#include "postgres/outbox/windows.h"
#include "postgres/stream/rows.h"
#include "postgres/wal/slot.h"

namespace dovetail::postgres {

using dovetail::ReadMode;

struct WalSourceOptions {
  ReadMode mode = ReadMode::automatic;
  // Past a pooler, which knows nothing of replication; empty: that of the reader.
  std::string replication_conninfo{};
  std::string publication{kOutboxPublication};
  // Whether all of the publication must be as ours is. Where it is somebody else's, or of another
  // table, whoever made `windows` looks at the part that matters.
  bool checks_publication = true;
  bool binary = true;  // values come in binary form where the server can
  // Only in mode wal: a slot that is there at the first start, of somebody who stood in our place.
  // It is taken over where it stands, and what the table holds counts as sent. rejected: there is
  // none. From then on it is ours, and made again when it is lost. Empty: one of our own.
  std::string slot{};
  std::function<std::unique_ptr<WalRows>()> make_rows = outbox_rows;
  // So much of the log may be kept for us before the slot is given up.
  std::int64_t retained_wal_max = std::int64_t{1} << 30;
  // How long reads wait for what is written into the log to come out of it, before the table is
  // read instead.
  Duration probe_within = std::chrono::seconds(30);
  // `streams`: from here on the log is read; else the table. For people: one line for each change.
  std::function<void(bool streams, std::string_view why)> changed = [](bool, std::string_view) {};
  // Everything in the log up to this position is settled; 0: it is not read any more.
  std::function<void(WalPosition position)> log_settled = [](WalPosition) {};
  // Performance
  std::int64_t catch_up_events = 50'000;  // so far behind windows are quicker
  Duration safe_point_every = std::chrono::milliseconds(250);
  Duration retry_every = std::chrono::seconds(30);  // after the server could not stream
  // Called at each step between which a crash could fall, for tests that die there.
  std::function<void(std::string_view step)> passing = [](std::string_view) {};
};

// The table stays the truth. While the log is read, now and then a snapshot is taken and then a
// position of the log: once everything up to the position is settled, everything in the snapshot
// is, and the progress of the lane may say so. Whatever happens to the slot, reading goes on from
// there.
//
// To the log: a new slot is made, which shows a snapshot of its start. Windows are read up to that
// snapshot, and then the stream begins: nothing is left out, and nothing comes twice. Away from the
// log, to catch up: windows begin behind what was covered last and the transactions that were
// streamed since. After a failure the session starts over from the last progress. Why that is
// exact: docs/decisions/0013-the-log-is-an-accelerator.md.
class WalSource final : public Source {
 public:
  // `windows` reads the same table, through the same reader.
  WalSource(Reader& reader, Windows& windows, Clock& clock, RelayMetrics& metrics,
            WalSourceOptions options);
  // Returns within a second, also while the way to the log leads into nothing: then a thread that
  // connects is left to itself, and ends within 20 s.
  ~WalSource() override;

  Status open() override;
  Status read(Batch& out, const Limits& limits, std::stop_token stop) override;
  Status settle(const Batch& batch, std::span<const Settled> fates) override;
  Status flush() override;
  // unavailable: the log that is kept for us has grown beyond the limit, or the stream has ended.
  Status keep_alive() override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace dovetail::postgres
