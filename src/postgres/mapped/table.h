// How to read and mark an application's own outbox table: which column has what, which rows are
// pending, and how settled rows are marked.
//
// Every name is checked against a list of allowed characters, quoted, and found in the catalogue
// before it becomes part of a statement. Values are quoted as literals. Custom SQL is not
// possible.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "dovetail/result.h"
#include "sql/mapped_columns.h"

namespace dovetail::postgres {

// One condition for "pending"; all of them must hold.
struct PendingCondition {
  std::string column;
  std::vector<std::string> values{};  // any of these; empty: the column is null
};

// The new value of a column.
struct Assignment {
  enum class Value : std::uint8_t {
    text,      // `literal`, parsed as the column's type
    now,       // the database's clock
    null,      //
    reason,    // why the event was parked; only for when_parked and when_discarded
    attempts,  // the number of attempts; only for when_parked and when_discarded
  };
  std::string column;
  Value value = Value::text;
  std::string literal{};
};

// A column that becomes a header; null values are left out.
struct HeaderColumn {
  std::string column;
  std::string header;
};

struct TableMapping : sql::MappedColumns {
  std::string table;  // "outbox_events" or "orders.outbox_events"

  std::vector<HeaderColumn> header_columns{};

  std::vector<PendingCondition> pending{};  // empty: every row
  // Deletes a row once it is sent or parked: dovetail.parked keeps the parked event.
  bool delete_when_done = false;
  std::vector<Assignment> when_delivered{};
  // For rows that failed or wait behind a failure. May be empty: the relay knows its parked events
  // and skips them.
  std::vector<Assignment> when_parked{};
  // For rows that an operator discarded. Empty: like when_delivered.
  std::vector<Assignment> when_discarded{};

  // Inserts are read from the WAL in commit order, and the table is never written: then all marks
  // above must be empty.
  bool from_wal = false;
  std::string slot{};         // taken over at the first start; empty: dovetail's own
  std::string publication{};  // an existing one with the table; empty: dovetail's own
  // Counting pending rows reads the whole table, so larger tables are not counted.
  std::int64_t counted_bytes_max = std::int64_t{256} << 20;
};

// The mapped tables, by relay name.
using MappedRelays = std::map<std::string, TableMapping, std::less<>>;

// Common layouts of articles and frameworks:
//
//   status outbox_events(id, aggregate_id, aggregate_type, event_type, payload,
//                 status PENDING|SENT|FAILED, created_at, sent_at)
//   sent_at outbox_events(id, event_type, payload, sent_at): unordered, there is no key
//   message "OutboxMessage"("Id", "OccurredOn", "MessageType", "Payload", "CorrelationId",
//                 "Destination", "ProcessedOn", "RetryCount", "Error"): unordered, there is no key
//   processed_at outbox(id, aggregate_type, aggregate_id, event_type, payload, created_at,
//                 processed_at, status pending|processed|failed)
//   debezium outbox(id, aggregatetype, aggregateid, type, payload): a row is deleted once it
//                 is sent; ordered by id
//
// rejected: no preset has that name. An empty `table` means the preset's own.
Result<TableMapping> mapping_preset(std::string_view name, std::string_view table = {});
std::vector<std::string_view> mapping_presets();

// "status = PENDING", "status = PENDING|RETRY", "sent_at is null". A value with spaces or signs
// needs single quotes. Text that looks like SQL is refused.
Result<PendingCondition> parse_pending(std::string_view text);
// "status = SENT", "sent_at = now()", "error = null", "error = reason()", "tries = attempts()".
// Text may have single quotes, so 'null' can be a text.
Result<Assignment> parse_assignment(std::string_view text);

// Whether a name is allowed: a letter or "_", then letters, digits, "_" and "$", at most 63
// characters.
bool is_allowed_name(std::string_view name);

// Checks a mapping without the database. rejected: the text names the setting.
Status check_mapping(const TableMapping& mapping);

}  // namespace dovetail::postgres
