// The statements about a mapped table.
#include <string>
#include <vector>

#include "postgres/mapped/catalog.h"
#include "postgres/mapped/writer.h"

namespace dovetail::postgres {

namespace {}  // namespace

std::string pending_sql(const CatalogTable& table, const TableMapping& mapping,
                        std::string_view qualifier) {
  std::string result;
  for (const PendingCondition& condition : mapping.pending) {
    const CatalogColumn& column = table.column(condition.column);
    result += (result.empty() ? "" : " AND ") + std::string(qualifier) + mapped_name(column.name);
    if (condition.values.empty()) {
      result += " IS NULL";
      continue;
    }
    // Constants of the column's own type, so that the planner can use a partial index.
    std::string values;
    for (const std::string& value : condition.values)
      values += (values.empty() ? "" : ", ") + quoted_text(value) + "::" + column.type;
    result += condition.values.size() == 1 ? " = " + values : " IN (" + values + ")";
  }
  return result.empty() ? "true" : result;
}

std::string event_id_sql(const CatalogTable& table, const TableMapping& mapping) {
  const MappedWriter writer(table, mapping);
  if (id_kind(table, mapping) == IdKind::uuid)
    return writer.column(mapping.id) + "::pg_catalog.uuid";
  const std::string prefix = quoted_text("dovetail:" + table.schema + "." + table.name + ":");
  const std::string id = writer.text(mapping.id);
  const std::string hash =
      "pg_catalog.sha256(pg_catalog.convert_to(" + prefix + " || " + id + ", 'UTF8'))";
  const auto byte = [&](int index) {
    return "pg_catalog.get_byte(" + hash + ", " + std::to_string(index) + ")";
  };
  const std::string made =
      "pg_catalog.encode(pg_catalog.set_byte(pg_catalog.set_byte(pg_catalog.substr(" + hash +
      ", 1, 16), 6, (" + byte(6) + " & 15) | 128), 8, (" + byte(8) +
      " & 63) | 128), 'hex')::pg_catalog.uuid";
  if (id_kind(table, mapping) == IdKind::integer) return made;
  return "CASE WHEN " + id + " ~ '^[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$' THEN " +
         id + "::pg_catalog.uuid ELSE " + made + " END";
}

namespace {

// Whether a row is pending. If the table is read from the WAL, it is pending while the relay's
// progress ($1) does not show its transaction; the row has a short number, completed with the
// current one. Subtransactions have their own numbers, so this is for people only.
std::string is_pending_sql(const CatalogTable& table, const TableMapping& mapping) {
  if (!mapping.from_wal) return pending_sql(table, mapping);
  const std::string now =
      "pg_catalog.pg_snapshot_xmax(pg_catalog.pg_current_snapshot())::pg_catalog.text::pg_catalog."
      "int8";
  return "NOT pg_catalog.pg_visible_in_snapshot(greatest(" + now + " - (" + now +
         " - t.xmin::pg_catalog.text::pg_catalog.int8) % 4294967296, 0)::pg_catalog.text"
         "::pg_catalog.xid8, coalesce((SELECT r.window_start FROM dovetail.relay_lane AS r WHERE "
         "r.relay = $1 "
         "LIMIT 1), '1:1:'))";
}

// No index helps to find rows that the WAL has not brought yet, so a large table is not counted.
std::string is_counted_sql(const CatalogTable& table, const TableMapping& mapping) {
  if (!mapping.from_wal) return "true";
  const std::string oid = std::to_string(table.oid) + "::pg_catalog.oid";
  return "(SELECT coalesce(pg_catalog.sum(pg_catalog.pg_relation_size(part)), 0) FROM (SELECT " +
         oid + " AS part UNION SELECT tree.relid FROM pg_catalog.pg_partition_tree(" + oid +
         ") AS tree) AS parts) <= " + std::to_string(mapping.counted_bytes_max);
}

std::string aggregate_type_sql(const CatalogTable& table, const TableMapping& mapping) {
  return MappedWriter(table, mapping)
      .text_or(mapping.aggregate_type, default_aggregate_type(table, mapping));
}

// The rows of this lane to send: pending, and not parked by this relay ($`relay`). NOT IN uses a
// hash, however wrong the planner's estimate is. A discarded row stays pending until it is
// marked.
std::string which_sql(const CatalogTable& table, const TableMapping& mapping,
                      const LaneShare& share, int relay) {
  const MappedWriter writer(table, mapping);
  const std::string aggregate_id = writer.text_or_nothing(mapping.aggregate_id);
  const std::string event_id = event_id_sql(table, mapping);
  std::string result = pending_sql(table, mapping);
  // The same key as in dovetail.parked, so that a key is parked in the lane that serves it.
  if (share.lanes > 1)
    result += " AND (CASE WHEN " + aggregate_id +
              " = '' THEN pg_catalog.get_byte(pg_catalog.uuid_send(" + event_id +
              "), 15) ELSE pg_catalog.hashtextextended((" + aggregate_id +
              ") COLLATE \"C\", pg_catalog.hashtextextended((" +
              aggregate_type_sql(table, mapping) + ") COLLATE \"C\", 0)) & 255 END) * " +
              std::to_string(share.lanes) + " / 256 = " + std::to_string(share.lane);
  const std::string own = "$" + std::to_string(relay);
  result += " AND " + event_id +
            " NOT IN (SELECT p.id FROM dovetail.parked AS p WHERE p.relay = " + own +
            " AND p.finished_at IS NULL UNION ALL SELECT p.id FROM dovetail.parked AS p WHERE "
            "p.relay = " +
            own + " AND p.row_state <> p.state)";
  if (is_known_by_event(table, mapping)) return result;
  // Rows with the same event id are parked one by one.
  return result + " AND " + writer.row_key() +
         " NOT IN (SELECT p.row_id FROM dovetail.parked AS p WHERE p.relay = " + own +
         " AND p.finished_at IS NULL AND p.row_id IS NOT NULL)";
}

// The fields of an event in the order of MappedColumn, named "c0", "c1" and so on.
std::vector<std::string> event_columns(const CatalogTable& table, const TableMapping& mapping) {
  const MappedWriter writer(table, mapping);
  std::vector<std::string> columns = {
      writer.row_key(),
      event_id_sql(table, mapping),
      writer.text_or_nothing(mapping.topic),
      aggregate_type_sql(table, mapping),
      writer.text_or_nothing(mapping.aggregate_id),
      writer.version(),
      writer.text_or(mapping.type, mapping.default_type),
      writer.payload(),
      writer.headers(),
      writer.created_at(),
      writer.order_value(),
      writer.text_or(mapping.content_type, default_content_type(table, mapping))};
  for (const HeaderColumn& header : mapping.header_columns)
    columns.push_back(writer.text(header.column));
  return columns;
}

std::string joined(const std::vector<std::string>& parts) {
  std::string result;
  for (const std::string& part : parts) result += (result.empty() ? "" : ", ") + part;
  return result;
}

}  // namespace

std::string mapped_read_sql(const CatalogTable& table, const TableMapping& mapping,
                            const LaneShare& share) {
  const MappedWriter writer(table, mapping);
  std::vector<std::string> columns = event_columns(table, mapping);
  std::vector<std::string> outer;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    outer.push_back("c" + std::to_string(i));
    columns[i] += " AS " + outer[i];
  }
  // Rows are chosen before anything is computed from them, so a sort of a large
  // backlog keeps at most a page. The size is that of the stored row, which is
  // cheap to read; the reader applies the exact limit. The first row always
  // comes.
  const std::string size = "pg_catalog.pg_column_size(" + writer.column(mapping.payload) + ")";
  return "SELECT " + joined(outer) + " FROM (SELECT " + joined(columns) + ", pg_catalog.sum(" +
         size + ") OVER (ORDER BY " + writer.order_by() + " ROWS UNBOUNDED PRECEDING) - " + size +
         " AS before, " + writer.column(order_column(mapping)) + " AS order_value, " +
         writer.column(mapping.id) + " AS row_id FROM (SELECT t.* FROM " + table.quoted +
         " AS t WHERE " + which_sql(table, mapping, share, 2) + " AND NOT " + writer.is_one_of(1) +
         " ORDER BY " + writer.order_by() +
         " LIMIT $3) AS t) AS page WHERE coalesce(before, 0) < $4 ORDER BY order_value, row_id";
}

std::string gap_keys_sql(const CatalogTable& table, const TableMapping& mapping) {
  const MappedWriter writer(table, mapping);
  const bool has_order = !mapping.order_by.empty() || !mapping.created_at.empty() ||
                         order_kind(table, mapping) != OrderKind::other;
  // Transaction numbers in rows are short and wrap around: what counts is the distance from
  // the first wanted one. For text and bytea the server knows the size without reading the
  // value.
  const std::string size = table.column(mapping.payload).base == "jsonb"
                               ? "pg_catalog.pg_column_size(" + writer.column(mapping.payload) + ")"
                               : "pg_catalog.octet_length(" + writer.payload() + ")";
  return "SELECT t.ctid::pg_catalog.text, t.tableoid::pg_catalog.int8, coalesce(" + size +
         ", 0) FROM " + table.quoted +
         " AS t WHERE $1 OR (t.xmin::pg_catalog.text::pg_catalog.int8 - $2 + 4294967296) % "
         "4294967296 < $3 ORDER BY " +
         (has_order ? writer.order_by() : "pg_catalog.age(t.xmin) DESC, t.tableoid, t.ctid");
}

std::string gap_page_sql(const CatalogTable& table, const TableMapping& mapping) {
  return "SELECT " + joined(event_columns(table, mapping)) +
         " FROM ROWS FROM (pg_catalog.unnest($1::pg_catalog.text[]::pg_catalog.tid[]), "
         "pg_catalog.unnest($2::pg_catalog.int8[]::pg_catalog.oid[])) WITH ORDINALITY AS k (at, "
         "part, place) JOIN " +
         table.quoted + " AS t ON t.ctid = k.at AND t.tableoid = k.part ORDER BY k.place";
}

std::string mapped_backlog_sql(const CatalogTable& table, const TableMapping& mapping,
                               const LaneShare& share, std::int64_t exact_max) {
  const MappedWriter writer(table, mapping);
  // Without a column for it, created_at is the time of reading.
  const std::string at =
      mapping.created_at.empty() ? "NULL::pg_catalog.timestamptz" : writer.created_at();
  return "SELECT count(*), CASE WHEN min(page.at) IS NULL THEN -1 ELSE greatest(0, EXTRACT(epoch "
         "FROM pg_catalog.clock_timestamp() - min(page.at)) * 1000000) END::int8, min(page.at) IS "
         "NOT NULL, coalesce(min(page.at), 'epoch'), " +
         is_counted_sql(table, mapping) + " FROM (SELECT " + at + " AS at FROM " + table.quoted +
         " AS t WHERE " +
         (mapping.from_wal
              ? is_counted_sql(table, mapping) + " AND " + is_pending_sql(table, mapping) + " AND "
              : "") +
         which_sql(table, mapping, share, 1) + " LIMIT " + std::to_string(exact_max + 1) +
         ") AS page";
}

namespace {

// A row that is not pending was sent, unless the column of the condition differs from
// when_delivered.
std::string state_sql(const CatalogTable& table, const TableMapping& mapping) {
  const MappedWriter writer(table, mapping);
  std::string sent = "p.state IS DISTINCT FROM 'discarded'";
  for (const PendingCondition& condition : mapping.pending) {
    for (const Assignment& each : mapping.when_delivered) {
      if (each.column != condition.column || each.value != Assignment::Value::text) continue;
      sent += " AND " + writer.column(each.column) + " = " + quoted_text(each.literal) +
              "::" + table.column(each.column).type;
    }
  }
  return "CASE WHEN p.id IS NOT NULL AND p.finished_at IS NULL THEN p.state WHEN " +
         is_pending_sql(table, mapping) + " THEN 'pending' WHEN " + sent +
         " THEN 'delivered' ELSE 'discarded' END";
}

}  // namespace

std::string mapped_events_sql(const CatalogTable& table, const TableMapping& mapping, bool of_one) {
  const MappedWriter writer(table, mapping);
  const std::string event_id = event_id_sql(table, mapping);
  std::string all =
      "SELECT 1 AS place, 0::pg_catalog.int8 AS position, " + writer.column(order_column(mapping)) +
      " AS order_value, " + writer.column(mapping.id) + " AS row_id, " + event_id + " AS id, " +
      state_sql(table, mapping) + " AS state, " + writer.text_or_nothing(mapping.topic) +
      " AS topic, " + aggregate_type_sql(table, mapping) + " AS aggregate_type, " +
      writer.text_or_nothing(mapping.aggregate_id) + " AS aggregate_id, " +
      writer.text_or(mapping.type, mapping.default_type) + " AS type, " +
      writer.text_or(mapping.content_type, default_content_type(table, mapping)) +
      " AS content_type, coalesce(pg_catalog.octet_length(" + writer.payload() +
      "), 0) AS payload_bytes, " + writer.version() + " AS aggregate_version, " +
      writer.created_at() + " AS created_at, " + writer.headers() + " AS headers FROM " +
      table.quoted + " AS t LEFT JOIN dovetail.parked AS p ON p.relay = $1 AND p.id = " + event_id;
  if (of_one) all += " WHERE " + event_id + " = $8";
  // For a deleted row, dovetail.parked has the event if it was parked.
  if (mapping.delete_when_done || mapping.from_wal)
    all += " UNION ALL SELECT 0, p.position, NULL::pg_catalog." +
           table.column(order_column(mapping)).base + ", NULL::pg_catalog." +
           table.column(mapping.id).base +
           ", p.id, p.state, p.topic, p.aggregate_type, p.aggregate_id, p.type, p.content_type, "
           "pg_catalog.octet_length(p.payload), p.aggregate_version, p.created_at, p.headers FROM "
           "dovetail.parked AS p WHERE p.relay = $1 AND NOT EXISTS (SELECT 1 FROM " +
           table.quoted + " AS t WHERE " + event_id + " = p.id)" + (of_one ? " AND p.id = $8" : "");
  return "SELECT pg_catalog.row_number() OVER () + $2, page.* FROM (SELECT e.id, "
         "$1::pg_catalog.text AS relay, e.state, e.topic, "
         "e.aggregate_type, e.aggregate_id, e.type, e.content_type, e.payload_bytes, "
         "e.aggregate_version, e.created_at, e.headers FROM (" +
         all +
         ") AS e WHERE ($4 = '' OR e.state = $4) AND ($5 = '' OR e.type COLLATE \"C\" = $5) "
         "AND ($6 = '' OR e.aggregate_id COLLATE \"C\" = $6) AND ($7 = '' OR e.topic COLLATE "
         "\"C\" = $7) ORDER BY e.place, e.position, "
         "e.order_value, e.row_id OFFSET $2 LIMIT $3) AS page";
}

std::string mapped_times_sql(const CatalogTable& table, const TableMapping& mapping) {
  const MappedWriter writer(table, mapping);
  return "SELECT " +
         (mapping.created_at.empty() ? "false"
                                     : writer.column(mapping.created_at) + " IS NOT NULL") +
         ", " + writer.marked_at() + " FROM " + table.quoted + " AS t WHERE " +
         event_id_sql(table, mapping) + " = $1";
}

std::string mapped_payload_sql(const CatalogTable& table, const TableMapping& mapping) {
  const MappedWriter writer(table, mapping);
  const bool is_bytes = table.column(mapping.payload).base == "bytea";
  return "SELECT coalesce(" +
         (is_bytes ? writer.payload() : "pg_catalog.convert_to(" + writer.payload() + ", 'UTF8')") +
         ", '') FROM " + table.quoted + " AS t WHERE " + event_id_sql(table, mapping) + " = $1";
}

}  // namespace dovetail::postgres
