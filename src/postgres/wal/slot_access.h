// Access to the server's log: a connection for replication, and a slot that can be resumed or
// must be created.
#pragma once

#include <future>
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

// find_slot_access() in a thread of its own, one at a time. One thread calls.
class SlotSearch {
 public:
  SlotSearch() = default;
  // Returns within a second: a hanging connect cannot be interrupted, so its thread is left to
  // itself, and ends within 20 s.
  ~SlotSearch();
  SlotSearch(const SlotSearch&) = delete;
  SlotSearch& operator=(const SlotSearch&) = delete;

  // False: one that was abandoned has not ended yet.
  bool is_free() const { return !found_.valid() || has_ended(); }
  void begin(SlotAccessOptions asked);
  bool has_ended() const;
  Result<SlotAccess> result() { return found_.get(); }
  // Nobody wants the result any more.
  void abandon();

 private:
  std::future<Result<SlotAccess>> found_{};
  std::stop_source stop_{};
};

}  // namespace dovetail::postgres
