// Access to the server's log: a connection for replication, and a slot that can be resumed or
// must be created.
#pragma once

#include <stop_token>
#include <string>

#include "postgres/stream/replication.h"
#include "postgres/wal/slot.h"
#include "postgres/wal/slot_record.h"

namespace dovetail::postgres {

struct SlotAccessOptions {
  std::string conninfo{};   // of the server itself
  ServerIdentity server{};  // that the table is read from
  Published published{};    // what is to be streamed
  bool checks_publication = true;
  std::string slot{};
  bool temporary = true;
  // Of a slot that stays.
  SlotRecord record{};
  LaneHeld held{};          // when the record was read
  bool takes_over = false;  // it belongs to another relay: resumed where it is
  // Why it must not be resumed, whatever it looks like; empty: it may be.
  std::string distrusted{};
  bool drops_only = false;  // what is distrusted is dropped, and nothing is made in its place
};

struct SlotAccess {
  Replication replication{};  // none, where a slot was only to be dropped
  bool resumes = false;       // the slot stands where we left it
  WalPosition confirmed{};    // what the server has of us, when it resumes
  std::string publication{};  // its mark
  std::string lost{};         // why a slot that we had cannot be resumed; empty: we had none
};

// Connects, checks, and drops a slot that does not hold what we miss. May take 20 s, so it runs
// beside the relay's thread; shares nothing with it, and may come back when another relay has taken
// the lane over: it does not drop the slot of that one. rejected: this server, this role or this
// publication cannot. unavailable: not now. stopped: nobody wants it any more, and it has changed
// nothing since; a connection that is being made is waited for nevertheless.
Result<SlotAccess> find_slot_access(const SlotAccessOptions& asked, const std::stop_token& stop);

}  // namespace dovetail::postgres
