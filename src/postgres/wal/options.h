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

struct WalSourceOptions {
  ReadMode mode = ReadMode::automatic;
  // Past a pooler, which knows nothing of replication; empty: that of the reader.
  std::string replication_conninfo{};
  std::string publication{kOutboxPublication};
  // Whether the whole publication must look like ours. Where it is of another table, the windows
  // check the part that matters.
  bool checks_publication = true;
  bool binary = true;  // values come in binary form where the server can
  // Only in mode wal: the slot of another relay, which is there at the first start. It is taken
  // over at its position, and what the table holds counts as delivered. rejected: there is no such
  // slot. From then on it is ours, and made again when it is lost. Empty: a slot of our own.
  std::string slot{};
  std::function<std::unique_ptr<WalRows>()> make_rows = outbox_rows;
  // How much of the WAL the server may keep for us before the slot is given up.
  std::int64_t retained_wal_max = std::int64_t{1} << 30;
  // How long reads wait for what is written into the WAL to come out of it, before the table is
  // read instead.
  Duration probe_within = std::chrono::seconds(30);
  // `streams`: from here on the WAL is read; else the table. For people: one line for each change.
  std::function<void(bool streams, std::string_view why)> changed = [](bool, std::string_view) {};
  // Everything in the WAL up to this position is settled; 0: it is not read any more.
  std::function<void(WalPosition position)> wal_settled = [](WalPosition) {};
  // Performance
  std::int64_t catch_up_events = 50'000;  // so far behind windows are quicker
  Duration safe_point_every = std::chrono::milliseconds(250);
  Duration retry_every = std::chrono::seconds(30);  // after the server could not stream
  // Called at each step between which a crash could fall, for tests that die there.
  std::function<void(std::string_view step)> passing = [](std::string_view) {};
};

}  // namespace dovetail::postgres
