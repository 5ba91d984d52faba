// What operators can read and do in a file. Each call opens the file, works and closes it; none
// blocks the application for long. What an operator does is written to dovetail_audit, with the
// user of this process, in the same transaction.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/operations.h"
#include "core/relay/hold.h"
#include "core/steering.h"
#include "sql/retention.h"

namespace dovetail::sqlite {

// Creates the file if missing, sets WAL mode, and creates or upgrades the tables.
Status create_store(const std::string& path);

// False: the file is missing, or has no dovetail tables.
Result<bool> has_tables(const std::string& path);

struct StoreStatus {
  std::vector<RelayStatus> relays;
  std::map<std::string, WallTime> leases_ended{};  // by relay: those that nobody renewed
  std::vector<ConsumerStatus> consumers;
  std::uint64_t outbox_rows = 0;
  std::uint64_t mailbox_rows = 0;
  std::uint64_t inbox_rows = 0;
  bool are_rows_estimated = false;  // some of these three, because a table is too large to count
  std::uint64_t file_bytes = 0;
  std::uint64_t wal_bytes = 0;
  std::int64_t schema_version = 0;
};
Result<StoreStatus> status(const std::string& path, Clock& clock);

// For a broker: parked events and what became of them.
Result<std::vector<EventRow>> list_events(const std::string& path, const EventFilter& filter);

Result<std::vector<ParkedRow>> list_parked(const std::string& path, const ParkedFilter& filter);

// Actions of operators, newest first; with a subject, only those about it.
Result<std::vector<AuditRow>> list_audit(const std::string& path, const AuditFilter& filter = {});
// Records that somebody sees the payload of an event.
Status note_reveal(const std::string& path, const EventId& id, std::string_view reason,
                   Clock& clock);
// As in assembly::Database.
Status note_refusal(const std::string& path, std::string_view request, std::uint64_t times,
                    std::string_view reason, Clock& clock);
// Publishes a changed copy of an event, records that, and discards the event for every relay that
// parked it: all or nothing. `copy` has its id. Returns the number of relays. rejected: the event
// waits behind another one, or no reason is given.
Result<std::uint64_t> publish_edited(const std::string& path, const EventId& replaced,
                                     const NewEvent& copy, const EventLimits& limits,
                                     std::string_view reason, Clock& clock);

// What operators order for a relay; see RelayControl.
Result<bool> has_owner(const std::string& path, const std::string& relay, Clock& clock);
Status write_hold(const std::string& path, const std::string& relay, Hold hold,
                  const std::string& reason, Clock& clock);
Result<SeekCounts> write_seek(const std::string& path, const std::string& relay, const SeekTo& to,
                              const std::string& reason, Hold after, bool dry_run, Clock& clock);
Status write_rename(const std::string& path, const std::string& relay, const std::string& new_name,
                    const std::string& reason, Clock& clock);
Status write_forget(const std::string& path, const std::string& relay, const std::string& reason,
                    Clock& clock);

// Lets a relay continue with another target; returns the old one. rejected: no such relay, or it is
// running. Keeps the reason.
Result<std::string> retarget(const std::string& path, const std::string& reader,
                             const std::string& target, const std::string& reason, Clock& clock);

// The payload of an event from the outbox, the mailbox or parking. Empty: none of them has it.
Result<std::optional<std::string>> payload_of(const std::string& path, const EventId& id);

// Sends an event again at once, with attempts 0; events behind it follow by themselves. An empty
// `reader` means every reader that parked it. Returns the number of readers. rejected: it is not
// parked, or waits behind another one.
Result<std::uint64_t> replay_event(const std::string& path, std::string_view reader,
                                   const EventId& id, Clock& clock, std::string_view reason = {});
// Gives an event up for good and keeps the reason; events behind it can go. rejected: the event is
// not parked, waits behind another one, or several readers have it and none was named.
Status discard(const std::string& path, std::string_view reader, const EventId& id,
               std::string_view reason, Clock& clock);

// For an event that an operator checked: the consumer, or one of its handlers ("stock.mail"), has
// not applied it. It will be applied whatever its age. Returns for how many handlers; 0: all have
// applied it. rejected: no such consumer, or no reason.
Result<std::uint64_t> apply_event(const std::string& path, std::string_view consumer,
                                  const EventId& id, std::string_view reason, Clock& clock);

// After a wrong clock: events that could first be applied after `since` count as
// remembered again. Returns the old limit. rejected: nothing was forgotten since then, or
// no reason.
Result<WallTime> remember_since(const std::string& path, WallTime since, std::string_view reason,
                                Clock& clock);

using PruneOptions = RetentionOptions;

// unavailable: the clock was set recently, so ages are unknown; nothing was deleted.
Result<PruneReport> prune(const std::string& path, const PruneOptions& options, Clock& clock);

}  // namespace dovetail::sqlite
