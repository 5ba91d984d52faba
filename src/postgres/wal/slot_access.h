// Access to the server's WAL: a replication connection, and a slot to resume or
// create.
#pragma once

#include <future>
#include <stop_token>
#include <string>

#include "postgres/stream/replication.h"
#include "postgres/wal/slot.h"
#include "postgres/wal/slot_record.h"

namespace dovetail::postgres {

struct SlotAccessOptions {
  std::string conninfo{};   // of the server itself, without a pooler
  ServerIdentity server{};  // the server from which the table is read
  Published published{};    // what will be streamed
  bool checks_publication = true;
  std::string slot{};
  bool temporary = true;
  // For a lasting slot.
  SlotRecord record{};
  LaneHeld held{};          // when the record was read
  bool takes_over = false;  // it belongs to another relay: resume it at its position
  // Why it must not be resumed, whatever its state; empty: it may be.
  std::string distrusted{};
  bool drops_only = false;  // drops a distrusted slot and makes no new one
};

struct SlotAccess {
  Replication replication{};  // closed, if a slot was only dropped
  bool resumes = false;       // the slot is as we left it
  WalPosition confirmed{};    // what the server has from us, if it resumes
  std::string publication{};  // its mark
  std::string lost{};         // why our slot cannot be resumed; empty: there was none
};

// Connects, checks, and drops a slot that does not have what we need. May take 20 s, so it runs on
// another thread and shares nothing with the relay's. It may finish after another relay has taken
// the lane, and does not drop that relay's slot. rejected: this server, role or publication cannot
// stream. unavailable: not now. stopped: the result is not wanted any more; nothing was changed
// after that, but it waits for a connect that is under way.
Result<SlotAccess> find_slot_access(const SlotAccessOptions& asked, const std::stop_token& stop);

// Runs find_slot_access() on its own thread, one at a time. One thread calls.
class SlotSearch {
 public:
  SlotSearch() = default;
  // Returns within a second: a hanging connect cannot be interrupted, so its thread is left behind
  // and ends within 20 s.
  ~SlotSearch();
  SlotSearch(const SlotSearch&) = delete;
  SlotSearch& operator=(const SlotSearch&) = delete;

  // False: an abandoned search has not ended yet.
  bool is_free() const { return !found_.valid() || has_ended(); }
  void begin(SlotAccessOptions asked);
  bool has_ended() const;
  Result<SlotAccess> result() { return found_.get(); }
  // The result is not wanted any more.
  void abandon();

 private:
  std::future<Result<SlotAccess>> found_{};
  std::stop_source stop_{};
};

}  // namespace dovetail::postgres
