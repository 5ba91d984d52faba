// Makes the server log which transactions are running.
#pragma once

#include "core/clock.h"
#include "postgres/connection/connection.h"
#include "postgres/stream/position.h"

namespace dovetail::postgres {

// Whatever we report, the server releases WAL only up to its last record of running
// transactions. It writes one every 15 s, which can be much WAL, and when asked, or when a slot
// is being made.
class StandbySnapshot {
 public:
  // No more often than useful: while a transaction stays open, WAL is kept from `kept_from` on,
  // whatever is logged.
  bool is_due(TimePoint now, WalPosition kept_from);
  // Asks the server if it supports that. Does not wait. Fails only if the connection is
  // lost.
  Status make(Connection& connection);

 private:
  TimePoint made_at_{};
  Duration delay_{};
  WalPosition kept_from_{};
};

}  // namespace dovetail::postgres
