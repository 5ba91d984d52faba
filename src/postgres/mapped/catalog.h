// What the catalogue says about a mapped table, and the statements for it.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "dovetail/result.h"
#include "postgres/connection/connection.h"
#include "postgres/mapped/table.h"

namespace dovetail::postgres {

struct CatalogColumn {
  std::string name;  // as the catalogue has it
  std::string type;  // as SQL writes it
  std::string base;  // short name of the type below a domain: "int8", "text", "jsonb"
  bool not_null = false;
  bool is_enum = false;
  bool is_rounded = false;  // a time that keeps fewer digits than the clock has
};

struct CatalogTable {
  std::int64_t oid = 0;
  std::string schema;
  std::string name;
  std::string quoted;                                         // schema and name, for statements
  std::map<std::string, CatalogColumn, std::less<>> columns;  // by name in the mapping
  // The columns of a unique index with the id, as the catalogue names them; only the id if it is
  // unique alone. Empty: no index makes the id unique.
  std::vector<std::string> key{};
  bool may_select = false;
  bool may_update = false;
  bool may_delete = false;
  std::set<std::int64_t> partitions{};  // their oids

  const CatalogColumn& column(std::string_view name_in_mapping) const;
};

enum class Access : std::uint8_t { read, mark };

// Finds the table and all columns of the mapping, and checks types, the index of the id and the
// role's rights. rejected: the text says what is missing and what exists.
Result<CatalogTable> look_up(Connection& connection, const TableMapping& mapping,
                             Access access = Access::mark);

enum class IdKind : std::uint8_t { uuid, text, integer };
enum class OrderKind : std::uint8_t { integer, time, other };

IdKind id_kind(const CatalogTable& table, const TableMapping& mapping);
// Whether the event id identifies a row: it is a uuid and unique.
bool is_known_by_event(const CatalogTable& table, const TableMapping& mapping);
// The column that gives the order: order_by, else created_at, else the id.
const std::string& order_column(const TableMapping& mapping);
OrderKind order_kind(const CatalogTable& table, const TableMapping& mapping);

// The column in which a row says when it was delivered, by the server's clock; null: the mapping
// has none, or rounds it. Rows that are deleted say nothing.
const CatalogColumn* mark_column(const CatalogTable& table, const TableMapping& mapping);

// The content type or aggregate type of rows without one.
std::string default_content_type(const CatalogTable& table, const TableMapping& mapping);
std::string default_aggregate_type(const CatalogTable& table, const TableMapping& mapping);

// SQL about the table as `t`.
std::string pending_sql(const CatalogTable& table, const TableMapping& mapping,
                        std::string_view qualifier = "t.");
// The event id of a row. A uuid is the id itself, even if stored as text. Any other id
// gives a UUID version 8 from the first 16 bytes of SHA-256 over
// "dovetail:<schema>.<table>:<id>": a row always has the same event id, and rows of
// different tables have different ids.
std::string event_id_sql(const CatalogTable& table, const TableMapping& mapping);

// Rows are named by event ids if is_known_by_event(), else by row keys, the first column of
// `read`.
struct MappedStatements {
  // $1 rows in flight, $2 relay, $3 rows at most, $4 bytes at most. Columns: row key, event id,
  // topic, aggregate type, aggregate id, version, type, payload, headers, created_at, order,
  // content type, then one per header column.
  std::string read;
  // $1 relay, $2 lane, $3 epoch, $4 and $5 number of sent and parked rows, $6 sent rows, $7 parked
  // rows. Returns whether the epoch is current; if not, it has written nothing. If there is a
  // mark_column(), also the times between which it has marked the rows.
  std::string settle;
  // $1 relay, $2 lane, $3 epoch, $4 event ids in dovetail.parked: marks their rows by their state
  // there, and records that. Returns the same as `settle`.
  std::string mark;
  // $1 relay. Prepares events that an earlier version parked; may have to read the whole
  // table.
  std::string adopt;
};

struct LaneShare {
  std::uint32_t lane = 0;
  std::uint32_t lanes = 1;
  std::string run{};  // of the server; without it nothing is written
};

MappedStatements mapped_statements(const CatalogTable& table, const TableMapping& mapping,
                                   const LaneShare& share);

std::string mapped_read_sql(const CatalogTable& table, const TableMapping& mapping,
                            const LaneShare& share);

// The rows written by transactions from a number on: $1 all rows, $2 the lower half of that number,
// $3 how many numbers count. Columns: place, partition, bytes. In the order of the mapping's column
// if it has one, else by transaction.
std::string gap_keys_sql(const CatalogTable& table, const TableMapping& mapping);
// The events of these rows, in this order: $1 places, $2 partitions. The columns are those of
// MappedStatements::read.
std::string gap_page_sql(const CatalogTable& table, const TableMapping& mapping);

// $1 relay. Returns the pending rows, counted up to `exact_max` + 1; the age of the oldest in
// microseconds, or -1 if unknown; whether it is known; since when; and whether rows were counted at
// all: a table that is read through the WAL may be too large.
std::string mapped_backlog_sql(const CatalogTable& table, const TableMapping& mapping,
                               const LaneShare& share, std::int64_t exact_max);

// The state of each row, for people. $1 relay, $2 rows to skip, $3 rows at most, $4 state, $5 type,
// $6 aggregate id, $7 topic (each empty for all), $8 the event id, if `of_one`. Columns: number in
// the list, event id, state, topic, aggregate type, aggregate id, type, content type, bytes of the
// payload, version, created_at, headers.
std::string mapped_events_sql(const CatalogTable& table, const TableMapping& mapping, bool of_one);
// $1 event id. Returns whether the row says when it was made, and when it was delivered as it says
// (null: it does not say).
std::string mapped_times_sql(const CatalogTable& table, const TableMapping& mapping);
// $1 event id. Returns the payload as bytes.
std::string mapped_payload_sql(const CatalogTable& table, const TableMapping& mapping);

}  // namespace dovetail::postgres
