// How an outbox table that already exists is to be read and marked: which column holds what, which
// rows are still to be sent, and what becomes of a row afterwards.
//
// Every name is checked against a list of allowed characters, quoted, and looked up in the
// catalogue before it becomes part of a statement; values are quoted as literals. There is no place
// for SQL of one's own.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "dovetail/result.h"

namespace dovetail::postgres {

// One condition of "still to be sent"; all of them must hold.
struct PendingCondition {
  std::string column;
  std::vector<std::string> values{};  // any of these; none: the column is null
};

// What a column becomes.
struct Assignment {
  enum class Value : std::uint8_t {
    text,      // `literal`, read as the column's own type
    now,       // the database's clock
    null,      //
    reason,    // why the event was parked; only in when_parked and when_discarded
    attempts,  // how often it was tried; only in when_parked and when_discarded
  };
  std::string column;
  Value value = Value::text;
  std::string literal{};
};

// A column that travels as a header of its own; a null is left out.
struct HeaderColumn {
  std::string column;
  std::string header;
};

// Columns that are empty do not exist. A name is taken as it is written and, when there is no such
// column or table, in lower case, as PostgreSQL itself folds a name without quotes.
struct TableMapping {
  std::string table;  // "outbox_events" or "orders.outbox_events"

  std::string id = "id";            // uuid, text or an integer, with a unique index
  std::string topic{};              // where the event goes; empty or null: the relay's template
  std::string aggregate_type{};     // none: `default_aggregate_type`
  std::string aggregate_id{};       // none, or null: no order is promised
  std::string aggregate_version{};  // an integer
  std::string type{};               // none: `default_type`
  std::string payload = "payload";  // jsonb, json, text or bytea
  std::string content_type{};       // none, or null: `default_content_type`
  std::string headers{};            // jsonb, json or text: one flat object
  std::string created_at{};         // timestamptz, or timestamp in UTC; none: when it was read
  std::string order_by{};           // none: created_at, and where there is none, the id

  std::vector<HeaderColumn> header_columns{};
  std::string default_aggregate_type{};  // empty: the table's name
  std::string default_type = "event";
  // Empty: application/json, for bytea application/octet-stream.
  std::string default_content_type{};

  std::vector<PendingCondition> pending{};  // none: every row
  // A row is deleted once it is sent or parked: the parked event is kept in dovetail.parked.
  bool delete_when_done = false;
  std::vector<Assignment> when_sent{};
  // Put aside: it failed, or waits behind one that did. May be empty: the relay knows by itself
  // which events are parked, and leaves them alone.
  std::vector<Assignment> when_parked{};
  // Given up by an operator. Empty: as when_sent.
  std::vector<Assignment> when_discarded{};

  // Its inserts are read out of the server's log, in the order of commits, and nothing is ever
  // written to the table: then all of the marks above must be empty.
  bool from_log = false;
  std::string slot{};         // that is taken over at the first start; empty: one of our own
  std::string publication{};  // that has the table already; empty: one of our own
  // What is pending is counted by reading the whole table, so a larger one is not counted.
  std::int64_t counted_bytes_max = std::int64_t{256} << 20;
};

// The tables that relays serve as they are, by the relay's name.
using MappedRelays = std::map<std::string, TableMapping, std::less<>>;

// The layouts that articles and frameworks made popular, as they stand:
//
//   status        outbox_events(id, aggregate_id, aggregate_type, event_type, payload,
//                 status PENDING|SENT|FAILED, created_at, sent_at)
//   sent_at       outbox_events(id, event_type, payload, sent_at): unordered, there is no key
//   message       "OutboxMessage"("Id", "OccurredOn", "MessageType", "Payload", "CorrelationId",
//                 "Destination", "ProcessedOn", "RetryCount", "Error"): unordered, there is no key
//   processed_at  outbox(id, aggregate_type, aggregate_id, event_type, payload, created_at,
//                 processed_at, status pending|processed|failed)
//   debezium      outbox(id, aggregatetype, aggregateid, type, payload): a row is deleted once it
//                 is sent; ordered by id
//
// rejected: there is no preset of that name. An empty `table` means the preset's own.
Result<TableMapping> mapping_preset(std::string_view name, std::string_view table = {});
std::vector<std::string_view> mapping_presets();

// "status = PENDING", "status = PENDING|RETRY", "sent_at is null". A value with spaces or signs
// stands in single quotes; what looks like SQL is refused and never taken for a text.
Result<PendingCondition> parse_pending(std::string_view text);
// "status = SENT", "sent_at = now()", "error = null", "error = reason()", "tries = attempts()".
// Text may stand in single quotes, so that 'null' is a text too.
Result<Assignment> parse_assignment(std::string_view text);

// Whether a name may be used at all: a letter or "_", then letters, digits, "_" and "$", at
// most 63.
bool is_allowed_name(std::string_view name);

// What can be said of a mapping without asking the database. rejected: the text names the setting.
Status check_mapping(const TableMapping& mapping);

}  // namespace dovetail::postgres
