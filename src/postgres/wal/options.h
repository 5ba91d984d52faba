// How a lane reads the WAL.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "core/clock.h"
#include "core/relay/read_mode.h"
#include "postgres/stream/position.h"
#include "postgres/stream/rows.h"
#include "postgres/wal/slot.h"

namespace dovetail::postgres {

using dovetail::ReadMode;
using dovetail::ReadOptions;

struct WalSourceOptions {
  ReadOptions reading{};
  // Without a pooler, which does not support replication; empty: the reader's.
  std::string replication_conninfo{};
  std::string publication{kOutboxPublication};
  // Whether the whole publication must look like ours. For another table, the windows check the
  // relevant part.
  bool checks_publication = true;
  bool binary = true;  // values in binary form if the server can
  // Mode wal only: the existing slot of another program. It is taken over at its position at the
  // first start, and what the table has before counts as delivered. rejected: the slot does not
  // exist. From then on it is ours, and made again if lost. Empty: our own slot.
  std::string slot{};
  std::function<std::unique_ptr<WalRows>()> make_rows = outbox_rows;
  // How long reads wait for our probe to come out of the WAL before they use the table
  // instead.
  Duration probe_within = std::chrono::seconds(30);
  // `streams`: the WAL is read from now on; else the table. For people: one line per change.
  std::function<void(bool streams, std::string_view why)> changed = [](bool, std::string_view) {};
  // Everything in the WAL up to this position is settled; 0: the WAL is not read.
  std::function<void(WalPosition position)> wal_settled = [](WalPosition) {};
  // Performance
  std::int64_t catch_up_events = 50'000;  // this far behind, windows are faster
  Duration safe_point_every = std::chrono::milliseconds(250);
  Duration retry_every = std::chrono::seconds(30);  // after the server could not stream
  // Called at each step between which a crash could happen; tests die there.
  std::function<void(std::string_view step)> passing = [](std::string_view) {};
};

}  // namespace dovetail::postgres
