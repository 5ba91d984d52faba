// What an operator asks of a file, and does to it. Each call opens the file, works and closes it;
// none of them holds up the application for long.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/clock.h"
#include "dovetail/event.h"
#include "dovetail/result.h"
#include "sqlite/reader.h"

namespace dovetail::sqlite {

// Makes the file when needed, switches it to WAL and creates or updates the tables.
Status create_store(const std::string& path);

struct ReaderStatus {
  std::string name;
  Stream stream = Stream::outbox;
  std::vector<std::string> topics;
  std::int64_t settled = 0;      // everything up to this number is finished
  std::uint64_t pending = 0;     // counted exactly up to 100,000, estimated above
  Duration oldest_age{0};        // of the oldest pending event; 0 when there is none
  double events_per_second = 0;  // over the last ten seconds or so
  std::uint64_t settled_total = 0;
  std::uint64_t parked_total = 0;
  std::uint64_t parked = 0;   // now, needing an operator
  std::uint64_t waiting = 0;  // now, behind them or before a retry
  std::string owner;          // empty: nobody holds the lease
  std::int64_t epoch = 0;
  Duration lease_left{0};  // 0: expired, or of an earlier boot
  WallTime updated_at{};
};

struct ConsumerStatus {
  std::string name;
  std::uint64_t applied = 0;
  std::uint64_t duplicates = 0;  // suppressed
  bool clean = true;             // false: running, or its last session died
};

struct StoreStatus {
  std::vector<ReaderStatus> readers;
  std::vector<ConsumerStatus> consumers;
  std::uint64_t outbox_rows = 0;
  std::uint64_t mailbox_rows = 0;
  std::uint64_t inbox_rows = 0;
  std::uint64_t file_bytes = 0;
  std::uint64_t wal_bytes = 0;
  std::int64_t schema_version = 0;
};
Result<StoreStatus> status(const std::string& path, Clock& clock);

enum class EventState : std::uint8_t { pending, delivered, parked, waiting, discarded };
std::string_view to_string(EventState state);
Result<EventState> parse_event_state(std::string_view text);

struct EventFilter {
  Stream stream = Stream::outbox;
  std::optional<EventState> state{};
  std::string reader{};  // empty: all readers, one row each
  std::string id{};      // text of an event id
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
  std::string reader;  // empty: nobody reads this stream
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
};
Result<std::vector<EventRow>> list_events(const std::string& path, const EventFilter& filter);

struct ParkedFilter {
  std::string reader{};  // empty: all
  std::string key{};
  bool heads_only = false;     // one for each blocked key: what an operator has to decide about
  bool with_finished = false;  // delivered and discarded ones too: the history
  std::int64_t after = 0;      // ParkedRow::number; for paging
  std::size_t limit = 100;
};

struct ParkedRow {
  std::int64_t number = 0;
  std::string reader;
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
Result<std::vector<ParkedRow>> list_parked(const std::string& path, const ParkedFilter& filter);

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

struct PruneOptions {
  Duration events_older_than =
      std::chrono::hours(24 * 7);  // outbox and mailbox, once every reader passed them
  Duration inbox_older_than =
      std::chrono::hours(24 * 30);  // must exceed the time in which anything can come again
  Duration parked_older_than = std::chrono::hours(24 * 90);  // delivered and discarded ones
  std::size_t batch_max = 1000;                              // rows in one transaction
  std::size_t rows_max = 1'000'000;                          // in one call
};

struct PruneReport {
  std::uint64_t outbox = 0;
  std::uint64_t mailbox = 0;
  std::uint64_t inbox = 0;
  std::uint64_t parked = 0;
  bool finished = true;            // false: rows_max was reached, call again
  std::vector<std::string> notes;  // why something was left alone
};
Result<PruneReport> prune(const std::string& path, const PruneOptions& options, Clock& clock);

}  // namespace dovetail::sqlite
