// How a relay reads an outbox whose database has a write-ahead log.
#pragma once

#include <cstdint>

namespace dovetail {

enum class ReadMode : std::uint8_t {
  automatic,  // through the log where it can be read and where that is quicker, else the table
  wal,        // through the log, with a slot that stays when the process ends
  poll,       // the table only
};

}  // namespace dovetail
