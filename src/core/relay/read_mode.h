// How a relay reads an outbox if the database has a write-ahead log.
#pragma once

#include <cstdint>

namespace dovetail {

enum class ReadMode : std::uint8_t {
  automatic,  // the WAL if it can be read and is faster, else the table
  wal,        // the WAL, with a slot that stays when the process ends
  poll,       // the table only
};

struct ReadOptions {
  ReadMode mode = ReadMode::automatic;
  // How many bytes of WAL the server may keep for the relay before the slot is given up.
  std::int64_t retained_wal_max = std::int64_t{1} << 30;
};

}  // namespace dovetail
