// What an operator asks of a file, and does to it. Each call opens the file, works and closes it;
// none of them holds up the application for long.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/operations.h"

namespace dovetail::sqlite {

// Makes the file when needed, switches it to WAL and creates or updates the tables.
Status create_store(const std::string& path);

// False: the file is not there yet, or has no tables of dovetail.
Result<bool> has_tables(const std::string& path);

struct StoreStatus {
  std::vector<RelayStatus> relays;
  std::vector<ConsumerStatus> consumers;
  std::uint64_t outbox_rows = 0;
  std::uint64_t mailbox_rows = 0;
  std::uint64_t inbox_rows = 0;
  std::uint64_t file_bytes = 0;
  std::uint64_t wal_bytes = 0;
  std::int64_t schema_version = 0;
};
Result<StoreStatus> status(const std::string& path, Clock& clock);

// Of a broker: what was parked, and what became of it.
Result<std::vector<EventRow>> list_events(const std::string& path, const EventFilter& filter);

Result<std::vector<ParkedRow>> list_parked(const std::string& path, const ParkedFilter& filter);

// What operators did, the newest first; with a subject only what was done to it.
Result<std::vector<AuditRow>> list_audit(const std::string& path, std::size_t limit,
                                         std::string_view subject);

// Lets a relay go on with another target, and returns the one before. rejected: there is no such
// relay, or it runs. The reason is kept.
Result<std::string> retarget(const std::string& path, const std::string& reader,
                             const std::string& target, const std::string& reason, Clock& clock);

// The payload of one event, wherever it still is: outbox, mailbox or parked.
Result<std::string> payload_of(const std::string& path, const EventId& id);

// Heads go out again at once, with their attempts back at 0; what waits behind them follows by
// itself. An empty `reader` means every reader. Each returns how many heads were set going; the
// first two refuse with `rejected` when there is nothing of that name, or when the event stands
// behind another.
Result<std::uint64_t> replay_event(const std::string& path, std::string_view reader,
                                   const EventId& id, Clock& clock);
Result<std::uint64_t> replay_key(const std::string& path, std::string_view reader,
                                 std::string_view aggregate_type, std::string_view aggregate_id,
                                 Clock& clock);
Result<std::uint64_t> replay_all(const std::string& path, std::string_view reader, Clock& clock);

// Gives one event up, for good, with the reason kept; what waits behind it flows. rejected: the id
// is not parked, or stands behind another, or several readers have it and none was named.
Status discard(const std::string& path, std::string_view reader, const EventId& id,
               std::string_view reason, Clock& clock);

// Who decides about the inbox, and why; both are kept in dovetail_audit.
struct Decision {
  std::string who;
  std::string reason{};
};

// An operator has checked that the consumer, or one of its handlers ("stock.mail"), has not applied
// the event: it is applied when it comes, whatever its age. Returns for how many handlers; 0: all
// have applied it. rejected: there is no such consumer, or no reason.
Result<std::uint64_t> apply_event(const std::string& path, std::string_view consumer,
                                  const EventId& id, const Decision& decision, Clock& clock);

// After a wrong clock: what could first have been applied after `since` counts as remembered again.
// Returns until when events were forgotten before. rejected: nothing was forgotten since then, or
// no reason.
Result<WallTime> remember_since(const std::string& path, WallTime since, const Decision& decision,
                                Clock& clock);

struct PruneOptions {
  Duration events_older_than =
      std::chrono::hours(24 * 7);  // outbox and mailbox, once every reader passed them
  Duration inbox_older_than =
      std::chrono::hours(24 * 30);  // must exceed the time in which anything can come again
  Duration parked_older_than = std::chrono::hours(24 * 90);  // delivered and discarded ones
  std::size_t batch_max = 1000;                              // rows in one transaction
  std::size_t rows_max = 1'000'000;                          // in one call
};

// unavailable: the clock was set not long ago, so that nobody knows what is old; nothing was done.
Result<PruneReport> prune(const std::string& path, const PruneOptions& options, Clock& clock);

}  // namespace dovetail::sqlite
