// What operators see of a store and can do with it, for every database. Each adapter implements
// what it has.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/clock.h"
#include "core/relay/hold.h"
#include "dovetail/event.h"
#include "dovetail/result.h"

namespace dovetail {

enum class SourceKind : std::uint8_t {
  outbox,   // what a service publishes
  mailbox,  // what was delivered to the file
  mapped,   // an application's own table that a relay serves
  broker,   // the store only keeps the lease, the counts and the parked events
};
std::string_view to_string(SourceKind source);
SourceKind parse_source_kind(std::string_view stored);  // REQUIRES: it comes from to_string()

// The last state that a relay reported (RelayState), as its store kept it.
struct SaidState {
  std::string state;  // "standby", "delivering", "backing_off" or "halted"
  WallTime since{};
  std::string last_error{};
  std::optional<WallTime> next_try{};
  std::string owner{};      // the process that reported it
  bool is_current = false;  // the process is alive, as far as its lease tells
};

// An operator's order for a relay.
struct HoldStatus {
  Hold hold = Hold::none;
  WallTime since{};
  std::string by{};
  std::string reason{};
};

struct RelayStatus {
  std::string name;
  SourceKind source = SourceKind::outbox;
  std::vector<std::string> topics;
  std::int64_t passed_seq = 0;        // all events up to this number are delivered or parked
  std::uint64_t pending = 0;          // exact up to 100,000, estimated above; 0 for a broker
  bool is_pending_known = true;       // false: too many to count
  Duration oldest_age{0};             // of the oldest pending event; 0 if there are none
  bool is_age_known = true;           // false: events are pending, but their age is unknown
  double events_per_second = 0;       // average of about the last ten seconds
  std::uint64_t delivered_total = 0;  // confirmed by the receiver, including replays
  std::uint64_t parked_total = 0;
  std::uint64_t replayed_total = 0;  // delivered from parking
  std::uint64_t skipped_total = 0;   // passed without delivery: by a filter, or by an order
  std::uint64_t parked = 0;          // now; they need an operator
  std::uint64_t waiting = 0;         // now; behind a parked event or before a retry
  std::string owner;                 // until it gives the lease back; see lease_left
  std::int64_t epoch = 0;
  Duration lease_left{0};  // 0: expired, or of an earlier boot
  WallTime updated_at{};
  std::string target{};             // where its events go; empty: not known yet
  std::optional<SaidState> said{};  // empty: it never reported anything
  HoldStatus hold{};                // while a process still has the lane, it has not obeyed yet
  std::string error{};              // why its numbers are unknown; empty: they are known
};

// "pausing", "paused", "draining" or "drained", as far as its processes have obeyed; empty: it is
// not held.
std::string_view hold_state(const RelayStatus& relay);

struct ConsumerStatus {
  std::string name;
  std::uint64_t applied = 0;
  std::uint64_t duplicates = 0;  // suppressed
  std::uint64_t superseded = 0;  // skipped, because a later version was applied
  std::uint64_t trying = 0;      // events that have failed and are not parked
  std::uint64_t claims = 0;      // held now
  bool clean = true;             // false: running, or its last session died
};

// The queue of a consumer, from which workers take events.
struct QueueStatus {
  std::string consumer;
  std::uint64_t events = 0;   // all in the queue
  std::uint64_t ready = 0;    // free for a worker
  std::uint64_t held = 0;     // held by a worker
  std::uint64_t later = 0;    // before a retry
  std::uint64_t waiting = 0;  // behind another event of their key
  std::uint64_t parked = 0;   // they need an operator
  Duration oldest_age{0};     // since the oldest arrived; 0 if the queue is empty
};

// Events with a later delivery time.
struct DelayedStatus {
  std::uint64_t events = 0;
  std::uint64_t failing = 0;  // of these, due but could not be released
  WallTime next{};            // when the first is due
};

enum class EventState : std::uint8_t {
  pending,
  delivered,
  skipped,  // passed without delivery: left out by a filter, or an operator moved the relay beyond
            // it
  parked,
  waiting,
  discarded,
  delayed
};
std::string_view to_string(EventState state);
Result<EventState> parse_event_state(std::string_view text);

struct EventFilter {
  SourceKind source = SourceKind::outbox;
  std::optional<EventState> state{};
  std::string relay{};  // a relay or consumer; empty: all, one row each
  std::string id{};     // an event id as text
  std::string type{};
  std::string key{};  // aggregate_id
  std::string topic{};
  std::int64_t after = 0;  // position; for paging
  std::size_t limit = 100;
};

// Contains no payload: payloads may be large, and an operator may not be allowed to see them.
struct EventRow {
  std::int64_t position = 0;
  EventId id;
  std::string relay;  // empty: no relay reads it
  EventState state = EventState::pending;
  std::string topic;
  std::string aggregate_type;
  std::string aggregate_id;
  std::string type;
  std::string content_type;
  std::string headers;
  std::uint64_t payload_bytes = 0;
  std::int64_t aggregate_version = 0;
  WallTime created_at{};
  std::optional<WallTime> deliver_at{};  // of a delayed event
  std::string delayed_because{};         // why a due event could not be released
};

struct ParkedFilter {
  std::string relay{};  // empty: all
  std::string key{};    // aggregate_id
  std::string aggregate_type{};
  std::string type{};
  std::string reason_contains{};
  std::string id{};            // an event id as text
  bool heads_only = false;     // one row per blocked key: the event that needs a decision
  bool with_finished = false;  // also delivered and discarded ones: the history
  std::int64_t after = 0;      // ParkedRow::number; for paging
  std::size_t limit = 100;
};

struct ParkedRow {
  std::int64_t number = 0;
  std::string relay;
  EventId id;
  std::int64_t position = 0;
  EventState state = EventState::parked;
  bool head = false;
  std::uint32_t attempts = 0;
  std::string reason;
  std::string note;
  std::string topic;
  std::string aggregate_type;
  std::string aggregate_id;
  std::string type;
  std::uint64_t payload_bytes = 0;
  WallTime parked_at{};
  WallTime retry_at{};
  WallTime finished_at{};
};

// One action of an operator.
struct AuditRow {
  std::int64_t number = 0;
  WallTime at{};
  std::string who{};
  std::string what{};
  std::string relay{};
  std::string subject{};  // an event id, a key, or a filter
  std::uint64_t events = 0;
  std::string reason{};
};

// Between the name of who asked the console and the reason: a database knows only the login of the
// daemon.
inline constexpr std::string_view kByConsole = " by the console: ";

struct AuditFilter {
  std::string subject{};
  std::string what{};
  std::string who{};        // a login, or who asked the console
  std::int64_t before = 0;  // AuditRow::number; for paging; 0: from the newest on
  std::size_t limit = 100;
};

// From the newest event back. One call looks at `look_max` events at most, so it may find none and
// still not be at the end: no search reads a whole table.
struct EventSearch {
  SourceKind source = SourceKind::outbox;  // or mailbox
  std::optional<EventState> state{};
  std::string relay{};
  std::string type{};
  std::string aggregate_type{};
  std::string key{};  // aggregate_id
  std::string topic{};
  std::string word{};  // the type, the topic, the key, or "aggregate_type/key"
  std::optional<WallTime> from{};
  std::optional<WallTime> until{};  // before this
  std::int64_t before = 0;          // position; 0: from the newest on
  std::size_t limit = 50;           // rows; an event that several relays read has several
  std::size_t look_max = 10'000;
};
struct FoundEvents {
  std::vector<EventRow> rows{};  // newest first
  std::int64_t next = 0;         // continue with `before` = next; 0: at the end
  WallTime looked_back_to{};     // of the oldest event that was looked at, if not at the end
};

// Counts rows deleted one by one; partitions dropped as a whole are in the notes.
struct PruneReport {
  std::uint64_t outbox = 0;
  std::uint64_t mailbox = 0;
  std::uint64_t inbox = 0;
  std::uint64_t attempts = 0;
  std::uint64_t claims = 0;
  std::uint64_t requests = 0;
  std::uint64_t parked = 0;
  std::uint64_t audit = 0;
  bool finished = true;            // false: the limit of one call was reached; call it again
  std::vector<std::string> notes;  // why something was not deleted

  std::uint64_t rows() const {
    return outbox + mailbox + inbox + attempts + claims + requests + parked + audit;
  }
};

// How long a broker keeps messages. An inbox must remember events for longer.
struct Kept {
  std::string what;               // "topic orders"
  std::optional<Duration> age{};  // empty: without limit
  bool comes_again = true;        // false: a message is gone once it is acknowledged
};

enum class Severity : std::uint8_t {
  note,     // good to know
  warning,  // causes trouble later or under load
  error,    // events are late, out of order or not sent, or a promise is broken
};
std::string_view to_string(Severity severity);

// A problem of a store, and its remedy.
struct Finding {
  Severity severity = Severity::note;
  std::string code;  // does not change, for scripts: "sequence-cache"
  std::string what;
  std::string what_to_do;
};

}  // namespace dovetail
