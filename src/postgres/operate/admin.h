// What an operator asks of a database, and does to it. Each call opens a connection, works and
// closes it; none of them holds up the application. What an operator does is written down in
// dovetail.audit, in the same transaction.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/operations.h"
#include "postgres/mapped/table.h"

namespace dovetail::postgres {

struct LaneStatus {
  std::string relay;
  std::uint32_t lane = 0;
  std::uint32_t lanes = 1;
  SourceKind source = SourceKind::outbox;
  bool has_row = true;           // false: it was never started, or could not be
  std::uint64_t pending = 0;     // counted exactly up to 100,000 for each relay, estimated above
  Duration oldest_age{0};        // of the oldest pending event; 0 when there is none
  bool is_pending_known = true;  // false: the table is too large to be counted
  bool is_age_known = true;      // false: events are pending, and nothing says since when
  double events_per_second = 0;  // over the last ten seconds or so
  std::uint64_t delivered_total = 0;
  std::uint64_t parked_total = 0;
  std::uint64_t replayed_total = 0;
  std::uint64_t skipped_total = 0;
  std::uint64_t parked = 0;   // now, needing an operator
  std::uint64_t waiting = 0;  // now, behind them or before a retry
  std::string owner;          // until the lease is given back; see lease_left
  std::int64_t epoch = 0;
  Duration lease_left{0};     // 0: expired
  WallTime lease_ended_at{};  // when its owner's lease ran out; 0: it did not
  WallTime updated_at{};
  bool reads_wal = false;  // and not the table
  WallTime reads_since{};
  std::string reads_why{};
  std::string slot{};             // through which the log is read; empty: none is there
  std::int64_t retained_wal = 0;  // bytes that the server keeps for it
  std::string target{};           // where its events go; empty: not known yet
  std::optional<SaidState> said{};
  HoldStatus hold{};
  std::optional<Error> error{};  // why what is pending is not known, such as a wrong mapping
};

struct StoreStatus {
  std::vector<LaneStatus> lanes;
  std::vector<ConsumerStatus> consumers;
  std::vector<QueueStatus> queues;  // those with events in them
  std::uint64_t outbox_rows = 0;    // estimated from the statistics
  std::uint64_t outbox_bytes = 0;
  std::uint64_t inbox_rows = 0;  // estimated likewise
  std::uint64_t partitions = 0;
  std::int64_t schema_version = 0;
  std::string server_version;
  bool standby = false;
  std::optional<DelayedStatus> delayed{};
  std::uint64_t wal_end = 0;  // where the server writes its log; 0: it is a standby
  Duration clock_ahead{0};    // of the server's clock before ours; exact to the length of a call
};
// Without its mapping, what is pending of a relay that serves a table of its own is not known. One
// that was never started is shown as a lane of nobody. A mapping that is wrong is told in its
// lanes, and hides nothing else.
Result<StoreStatus> status(const std::string& url, const MappedRelays& mapped = {});

// Of the outbox. Delayed ones are listed when they are asked for, by their state or by an id.
Result<std::vector<EventRow>> list_events(const std::string& url, const EventFilter& filter);
// The rows of the table that this relay serves, in their order; here a position is a row's number
// in the list. A deleted row is there as long as its event is known as a parked one.
Result<std::vector<EventRow>> list_mapped_events(const std::string& url, const std::string& relay,
                                                 const TableMapping& mapping,
                                                 const EventFilter& filter);

// Of relays and consumers, and of queues, whose reader is the consumer. Of a queue only the parked
// events are listed: what waits behind them stays in the queue.
Result<std::vector<ParkedRow>> list_parked(const std::string& url, const ParkedFilter& filter);

// The payload of one event, wherever it still is: outbox, parked, or a queue. Empty: nowhere.
Result<std::optional<std::string>> payload_of(const std::string& url, const EventId& id);
// In the table that a relay serves; empty: it has no such row.
Result<std::optional<std::string>> mapped_payload_of(const std::string& url,
                                                     const TableMapping& mapping,
                                                     const EventId& id);

// A parked event goes out again at once, with its attempts back at 0; what waits behind it follows
// by itself. An empty `relay` means every relay that parked it. Returns the number of relays.
// rejected: it is not parked, or stands behind another one. Here and below, the reason is kept in
// dovetail.audit, in the name of the login, which nobody can choose.
Result<std::uint64_t> replay_event(const std::string& url, std::string_view relay,
                                   const EventId& id, std::string_view reason);

// An event that was applied is to be applied once more: the consumer, or one of its handlers
// ("stock.ledger"), forgets it, and then it is delivered again. The first tells how many rows it
// was known by; the second tells false when the outbox does not have it any more. Both keep the
// reason.
Result<std::uint64_t> forget_event(const std::string& url, std::string_view consumer,
                                   const EventId& id, std::string_view reason);
// An operator has checked that the consumer, or one of its handlers, has not applied the event: it
// is applied when it comes, whatever its age. Returns for how many handlers; 0: all have applied
// it.
Result<std::uint64_t> apply_event(const std::string& url, std::string_view consumer,
                                  const EventId& id, std::string_view reason);
// After a wrong clock: what could first have been applied after `since` counts as remembered again.
// Returns until when events were forgotten before. rejected: nothing was forgotten since then.
Result<WallTime> remember_since(const std::string& url, WallTime since, std::string_view reason);
Result<bool> deliver_again(const std::string& url, std::string_view relay, const EventId& id,
                           std::string_view reason);

// Gives an event up, for good; what waits behind it flows. rejected: no reason is given, or the
// event is not parked, or stands behind another, or several relays have it and none was named.
Status discard(const std::string& url, std::string_view relay, const EventId& id,
               std::string_view reason);

// Lets a relay go on with another target, and returns the one before. rejected: there is no such
// relay, or it runs. The reason is kept.
Result<std::string> retarget(const std::string& url, const std::string& relay,
                             const std::string& target, const std::string& reason);

// The newest first; with a subject only what was done to it.
Result<std::vector<AuditRow>> list_audit(const std::string& url, const AuditFilter& filter = {});
// Records that somebody sees the payload of an event. rejected: this database has no such event.
Status note_reveal(const std::string& url, const EventId& id, std::string_view reason);
// As in assembly::Database.
Status note_refusal(const std::string& url, std::string_view request, std::uint64_t times,
                    std::string_view reason);
// Publishes a changed copy of an event, records that, and discards the event for every relay that
// parked it: all or nothing. `copy` has its id and the header dovetail-replaces. Returns the number
// of relays. rejected: the event waits behind another one, or no reason is given.
Result<std::uint64_t> publish_edited(const std::string& url, const EventId& replaced,
                                     const NewEvent& copy, const EventLimits& limits,
                                     std::string_view reason);

}  // namespace dovetail::postgres
