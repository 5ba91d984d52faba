// Has the server note down in its log which transactions run.
#pragma once

#include "core/clock.h"
#include "postgres/connection/connection.h"
#include "postgres/stream/position.h"

namespace dovetail::postgres {

// Whatever is reported, the server lets go of its log only up to where it last noted that down. It
// does so every 15 s, in which others may write very much; and whenever it is asked to, or somebody
// begins to make a slot.
class StandbySnapshot {
 public:
  // Not more often than it helps: while a transaction stays open the log is kept from
  // `kept_from` on, however often it is noted that it runs.
  bool is_due(TimePoint now, WalPosition kept_from);
  // Where the server can be asked. Waits for nobody. Fails when the connection is lost, and only
  // then.
  Status make(Connection& connection);

 private:
  TimePoint made_at_{};
  Duration delay_{};
  WalPosition kept_from_{};
};

}  // namespace dovetail::postgres
