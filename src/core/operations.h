// What operators see of a store and ask of it, whatever database it is in. Each adapter fills in
// what it has.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/clock.h"
#include "dovetail/event.h"
#include "dovetail/result.h"

namespace dovetail {

enum class SourceKind : std::uint8_t {
  outbox,   // what a service publishes
  mailbox,  // what was delivered to it
  mapped,   // a table that existed before and that a relay serves
  broker,   // a store only keeps the lease, the counts and the parked events
};
std::string_view to_string(SourceKind source);
SourceKind parse_source_kind(std::string_view stored);  // REQUIRES: to_string() made it

// What a relay last said about itself (RelayState), as its store kept it.
struct SaidState {
  std::string state;  // "standby", "delivering", "backing_off" or "halted"
  WallTime since{};
  std::string last_error{};
  std::optional<WallTime> next_try{};
  std::string owner{};      // the process that said it
  bool is_current = false;  // that process lives, as far as its lease tells
};

struct RelayStatus {
  std::string name;
  SourceKind source = SourceKind::outbox;
  std::vector<std::string> topics;
  std::int64_t passed_seq = 0;   // everything up to this number is delivered or parked
  std::uint64_t pending = 0;     // counted exactly up to 100,000, estimated above; 0 for a broker
  bool is_pending_known = true;  // false: there are too many to count
  Duration oldest_age{0};        // of the oldest pending event; 0 when there is none
  bool is_age_known = true;      // false: events are pending, and nothing says since when
  double events_per_second = 0;  // over the last ten seconds or so
  std::uint64_t delivered_total = 0;  // confirmed by the receiver, replayed ones included
  std::uint64_t parked_total = 0;
  std::uint64_t replayed_total = 0;  // delivered out of parking
  std::uint64_t parked = 0;          // now, needing an operator
  std::uint64_t waiting = 0;         // now, behind them or before a retry
  std::string owner;                 // empty: nobody holds the lease
  std::int64_t epoch = 0;
  Duration lease_left{0};  // 0: expired, or of an earlier boot
  WallTime updated_at{};
  std::string target{};             // where its events go; empty: not known yet
  std::optional<SaidState> said{};  // none: it never said anything
  std::string error{};              // why its numbers are not known; empty: they are
};

struct ConsumerStatus {
  std::string name;
  std::uint64_t applied = 0;
  std::uint64_t duplicates = 0;  // suppressed
  std::uint64_t superseded = 0;  // left alone, because a later version was applied
  std::uint64_t trying = 0;      // events that have failed and are not parked
  std::uint64_t claims = 0;      // that are held now
  bool clean = true;             // false: running, or its last session died
};

// The events that a consumer has laid by for services which take them out.
struct QueueStatus {
  std::string consumer;
  std::uint64_t events = 0;   // all that are there
  std::uint64_t ready = 0;    // a worker may take them
  std::uint64_t held = 0;     // a worker has them
  std::uint64_t later = 0;    // before a retry
  std::uint64_t waiting = 0;  // behind another of their key
  std::uint64_t parked = 0;   // needing an operator
  Duration oldest_age{0};     // since the oldest came; 0 when there is none
};

// Events that wait for their time.
struct DelayedStatus {
  std::uint64_t events = 0;
  std::uint64_t failing = 0;  // of them, that could not be let go when they were due
  WallTime next{};            // when the first of them is due
};

enum class EventState : std::uint8_t { pending, delivered, parked, waiting, discarded, delayed };
std::string_view to_string(EventState state);
Result<EventState> parse_event_state(std::string_view text);

struct EventFilter {
  SourceKind source = SourceKind::outbox;
  std::optional<EventState> state{};
  std::string relay{};  // a relay or a consumer; empty: all readers, one row each
  std::string id{};     // text of an event id
  std::string type{};
  std::string key{};  // aggregate_id
  std::string topic{};
  std::int64_t after = 0;  // position; for paging
  std::size_t limit = 100;
};

// Never with payload: it may be large, and not meant for the eyes of an operator.
struct EventRow {
  std::int64_t position = 0;
  EventId id;
  std::string relay;  // empty: nobody reads this
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
  std::optional<WallTime> deliver_at{};  // of one that is delayed
  std::string delayed_because{};         // why it could not be let go when it was due
};

struct ParkedFilter {
  std::string relay{};  // empty: all
  std::string key{};    // aggregate_id
  std::string aggregate_type{};
  std::string type{};
  std::string reason_contains{};
  std::string id{};            // text of an event id
  bool heads_only = false;     // one for each blocked key: what an operator has to decide about
  bool with_finished = false;  // delivered and discarded ones too: the history
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

// What an operator did.
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

// Rows that were deleted one by one; partitions that were dropped as a whole are told by a note.
struct PruneReport {
  std::uint64_t outbox = 0;
  std::uint64_t mailbox = 0;
  std::uint64_t inbox = 0;
  std::uint64_t attempts = 0;
  std::uint64_t claims = 0;
  std::uint64_t requests = 0;
  std::uint64_t parked = 0;
  std::uint64_t audit = 0;
  bool finished = true;            // false: the limit of one call was reached, call again
  std::vector<std::string> notes;  // why something was left alone

  std::uint64_t rows() const {
    return outbox + mailbox + inbox + attempts + claims + requests + parked + audit;
  }
};

// What a broker keeps, and for how long: an inbox must remember for longer what can come again.
struct Kept {
  std::string what;               // "topic orders"
  std::optional<Duration> age{};  // none: for ever
  bool comes_again = true;        // false: it is gone once it is acknowledged
};

enum class Severity : std::uint8_t {
  note,     // good to know
  warning,  // will hurt some day, or under load
  error,    // events are late, unordered or not sent, or a promise does not hold
};
std::string_view to_string(Severity severity);

// What is wrong with a store, and what to do about it.
struct Finding {
  Severity severity = Severity::note;
  std::string code;  // stable, for scripts: "sequence-cache"
  std::string what;
  std::string what_to_do;
};

}  // namespace dovetail
