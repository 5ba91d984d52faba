// The statements over a mapped table.
#include <string>
#include <vector>

#include "core/check.h"
#include "postgres/mapped_catalog.h"
#include "postgres/rate_samples.h"
#include "postgres/reader.h"

namespace dovetail::postgres {

namespace {

std::string name_sql(std::string_view name) {
  const Result<std::string> quoted = quoted_name(name);
  DOVETAIL_CHECK(quoted);  // It comes out of the catalogue.
  return *quoted;
}

constexpr std::int64_t kCountedTableBytesMax = std::int64_t{256} << 20;

// Builds the pieces that depend on the types of the columns.
class Writer {
 public:
  Writer(const CatalogTable& table, const TableMapping& mapping)
      : table_(table), mapping_(mapping) {}

  std::string column(std::string_view name) const {
    return "t." + name_sql(table_.column(name).name);
  }
  std::string text(const std::string& name) const { return column(name) + "::pg_catalog.text"; }

  std::string text_or(const std::string& name, const std::string& otherwise) const {
    if (name.empty()) return quoted_text(otherwise);
    return "coalesce(nullif(" + text(name) + ", ''), " + quoted_text(otherwise) + ")";
  }
  std::string text_or_nothing(const std::string& name) const {
    return name.empty() ? "''::pg_catalog.text" : "coalesce(" + text(name) + ", '')";
  }
  // Flat objects of jsonb become objects of texts, as headers are; what is no object stays.
  std::string headers() const {
    if (mapping_.headers.empty() || table_.column(mapping_.headers).base != "jsonb")
      return text_or_nothing(mapping_.headers);
    const std::string all = column(mapping_.headers);
    return "CASE WHEN pg_catalog.jsonb_typeof(" + all +
           ") = 'object' THEN coalesce((SELECT pg_catalog.jsonb_object_agg(h.key, h.value)::text "
           "FROM pg_catalog.jsonb_each_text(" +
           all + ") AS h WHERE h.value IS NOT NULL), '') ELSE coalesce(" + text(mapping_.headers) +
           ", '') END";
  }
  std::string version() const {
    if (mapping_.aggregate_version.empty()) return "0::pg_catalog.int8";
    return "coalesce(" + column(mapping_.aggregate_version) + ", 0)::pg_catalog.int8";
  }
  std::string payload() const {
    if (table_.column(mapping_.payload).base == "bytea") return column(mapping_.payload);
    return text(mapping_.payload);
  }
  // A time without a zone is taken as UTC.
  std::string time(const std::string& name) const {
    if (table_.column(name).base == "timestamptz") return column(name);
    return "(" + column(name) + " AT TIME ZONE 'UTC')";
  }
  std::string created_at() const {
    if (mapping_.created_at.empty()) return "pg_catalog.clock_timestamp()";
    return "coalesce(" + time(mapping_.created_at) + ", pg_catalog.clock_timestamp())";
  }
  std::string order_value() const {
    switch (order_kind(table_, mapping_)) {
      case OrderKind::integer:
        return column(order_column(mapping_)) + "::pg_catalog.int8";
      case OrderKind::time:
        // Infinite and absurd times must not overflow what a position can be.
        return "CASE WHEN " + column(order_column(mapping_)) +
               " BETWEEN '1970-01-01' AND '2200-01-01' THEN (EXTRACT(epoch FROM " +
               time(order_column(mapping_)) + ") * 1000000)::pg_catalog.int8 END";
      case OrderKind::other:
        break;
    }
    return "NULL::pg_catalog.int8";
  }
  std::string order_by() const {
    const std::string id = column(mapping_.id);
    const std::string order = column(order_column(mapping_));
    return order == id ? id : order + ", " + id;
  }
  // An array parameter of ids, as an array of the column's own type.
  std::string ids(int parameter) const {
    const std::string given = "$" + std::to_string(parameter);
    if (table_.column(mapping_.id).type == "uuid") return given + "::pg_catalog.uuid[]";
    if (id_kind(table_, mapping_) == IdKind::uuid)
      return given + "::pg_catalog.uuid[]::" + table_.column(mapping_.id).type + "[]";
    return given + "::pg_catalog.text[]::" + table_.column(mapping_.id).type + "[]";
  }

  std::string assignments(const std::vector<Assignment>& all) const {
    std::string result;
    for (const Assignment& each : all) {
      const CatalogColumn& target = table_.column(each.column);
      result += (result.empty() ? "" : ", ") + name_sql(target.name) + " = " + value(each, target);
    }
    return result;
  }

 private:
  static std::string value(const Assignment& assignment, const CatalogColumn& target) {
    switch (assignment.value) {
      case Assignment::Value::text:
        return quoted_text(assignment.literal) + "::" + target.type;
      case Assignment::Value::now:
        if (target.base == "timestamp") return "(pg_catalog.clock_timestamp() AT TIME ZONE 'UTC')";
        return "pg_catalog.clock_timestamp()";
      case Assignment::Value::null:
        return "NULL";
      case Assignment::Value::reason:
        return "p.reason::" + target.type;
      case Assignment::Value::attempts:
        return "p.attempts::" + target.type;
    }
    return "NULL";
  }

  const CatalogTable& table_;
  const TableMapping& mapping_;
};

// Every write begins with this: it counts, and it finds nothing to update when the lane has another
// owner; then nothing else is written either.
const std::string kFence =
    "WITH fence AS (UPDATE dovetail.reader SET settled_total = settled_total + $4 + $5, "
    "parked_total = parked_total + $5, " +
    kSampled + "WHERE relay = $1 AND lane = $2 AND ($3 = -1 OR epoch = $3)";

// Rows are known by ids that a server may give twice around a crash, as it does numbers of
// transactions.
std::string fence_sql(const LaneShare& share) {
  return kFence + " AND " + kServerRun + " = " + quoted_text(share.run) + " RETURNING 1)";
}

}  // namespace

std::string pending_sql(const CatalogTable& table, const TableMapping& mapping,
                        std::string_view qualifier) {
  std::string result;
  for (const PendingCondition& condition : mapping.pending) {
    const CatalogColumn& column = table.column(condition.column);
    result += (result.empty() ? "" : " AND ") + std::string(qualifier) + name_sql(column.name);
    if (condition.values.empty()) {
      result += " IS NULL";
      continue;
    }
    // Constants of the column's own type, so that the planner recognises a partial index.
    std::string values;
    for (const std::string& value : condition.values)
      values += (values.empty() ? "" : ", ") + quoted_text(value) + "::" + column.type;
    result += condition.values.size() == 1 ? " = " + values : " IN (" + values + ")";
  }
  return result.empty() ? "true" : result;
}

std::string event_id_sql(const CatalogTable& table, const TableMapping& mapping) {
  const Writer writer(table, mapping);
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

// Whether a row is still to be sent. One that is read out of the log is, while the progress of the
// relay ($1) does not show its transaction; the number of that is a short one, made whole by that
// of now. Parts of transactions have numbers of their own, so this is for people.
std::string is_pending_sql(const CatalogTable& table, const TableMapping& mapping) {
  if (!mapping.from_log) return pending_sql(table, mapping);
  const std::string now =
      "pg_catalog.pg_snapshot_xmax(pg_catalog.pg_current_snapshot())::pg_catalog.text::pg_catalog."
      "int8";
  return "NOT pg_catalog.pg_visible_in_snapshot(greatest(" + now + " - (" + now +
         " - t.xmin::pg_catalog.text::pg_catalog.int8) % 4294967296, 0)::pg_catalog.text"
         "::pg_catalog.xid8, coalesce((SELECT r.prev FROM dovetail.reader AS r WHERE r.relay = $1 "
         "LIMIT 1), '1:1:'))";
}

// Nothing helps to find the rows that the log has not brought yet: a large table is left alone.
std::string is_small_sql(const CatalogTable& table) {
  const std::string oid = std::to_string(table.oid) + "::pg_catalog.oid";
  return "(SELECT coalesce(pg_catalog.sum(pg_catalog.pg_relation_size(part)), 0) FROM (SELECT " +
         oid + " AS part UNION SELECT tree.relid FROM pg_catalog.pg_partition_tree(" + oid +
         ") AS tree) AS parts) <= " + std::to_string(kCountedTableBytesMax);
}

std::string aggregate_type_sql(const CatalogTable& table, const TableMapping& mapping) {
  return Writer(table, mapping)
      .text_or(mapping.aggregate_type, default_aggregate_type(table, mapping));
}

// Which rows are this lane's to send: pending, and not parked by this relay ($`relay`). NOT IN is
// looked up in a hash, however wrong the planner's idea of the number of rows is. Older discarded
// ones are marked already.
std::string which_sql(const CatalogTable& table, const TableMapping& mapping,
                      const LaneShare& share, int relay) {
  const Writer writer(table, mapping);
  const std::string aggregate_id = writer.text_or_nothing(mapping.aggregate_id);
  const std::string event_id = event_id_sql(table, mapping);
  std::string result = pending_sql(table, mapping);
  // As dovetail.parked has it, so that a key is parked in the lane that serves it.
  if (share.lanes > 1)
    result += " AND (CASE WHEN " + aggregate_id +
              " = '' THEN pg_catalog.get_byte(pg_catalog.uuid_send(" + event_id +
              "), 15) ELSE pg_catalog.hashtextextended((" + aggregate_id +
              ") COLLATE \"C\", pg_catalog.hashtextextended((" +
              aggregate_type_sql(table, mapping) + ") COLLATE \"C\", 0)) & 255 END) * " +
              std::to_string(share.lanes) + " / 256 = " + std::to_string(share.lane);
  const std::string own = "$" + std::to_string(relay);
  // The relay as an expression, so that the index on the time is used and not the one on the relay.
  return result + " AND " + event_id +
         " NOT IN (SELECT p.id FROM dovetail.parked AS p WHERE p.relay = " + own +
         " AND p.finished_at IS NULL UNION ALL SELECT p.id FROM dovetail.parked AS p WHERE p.relay "
         "|| "
         "'' = " +
         own +
         " AND p.state = 'discarded' AND p.finished_at > pg_catalog.clock_timestamp() - interval "
         "'1 "
         "minute')";
}

// What an event is made of, in the order of MappedColumn, each as "c0", "c1" and so on.
std::vector<std::string> event_columns(const CatalogTable& table, const TableMapping& mapping) {
  const Writer writer(table, mapping);
  std::vector<std::string> columns = {
      writer.text(mapping.id),
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

std::string read_sql(const CatalogTable& table, const TableMapping& mapping,
                     const LaneShare& share) {
  const Writer writer(table, mapping);
  std::vector<std::string> columns = event_columns(table, mapping);
  std::vector<std::string> outer;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    outer.push_back("c" + std::to_string(i));
    columns[i] += " AS " + outer[i];
  }
  // The rows are chosen before anything is computed from them, so that sorting a large backlog,
  // where the planner wants to, needs to keep no more than a page. The size is that of the stored
  // row, which is cheap to ask for; the exact limit is kept by the reader. The first row always
  // comes.
  const std::string size = "pg_catalog.pg_column_size(" + writer.column(mapping.payload) + ")";
  return "SELECT " + joined(outer) + " FROM (SELECT " + joined(columns) + ", pg_catalog.sum(" +
         size + ") OVER (ORDER BY " + writer.order_by() + " ROWS UNBOUNDED PRECEDING) - " + size +
         " AS before, " + writer.column(order_column(mapping)) + " AS order_value, " +
         writer.column(mapping.id) + " AS row_id FROM (SELECT t.* FROM " + table.quoted +
         " AS t WHERE " + which_sql(table, mapping, share, 2) + " AND NOT (" +
         writer.column(mapping.id) + " = ANY (" + writer.ids(1) + ")) ORDER BY " +
         writer.order_by() +
         " LIMIT $3) AS t) AS page WHERE coalesce(before, 0) < $4 ORDER BY order_value, row_id";
}

constexpr std::string_view kFenceHeld = " AND EXISTS (SELECT 1 FROM fence)";
constexpr std::string_view kAnswer = " SELECT EXISTS (SELECT 1 FROM fence)";

std::string mark_sent_sql(const CatalogTable& table, const TableMapping& mapping,
                          const std::string& which) {
  const Writer writer(table, mapping);
  const std::string verb = mapping.delete_when_done ? "DELETE FROM " + table.quoted + " AS t"
                                                    : "UPDATE " + table.quoted + " AS t SET " +
                                                          writer.assignments(mapping.when_sent);
  return ", sent AS (" + verb + " WHERE " + which + std::string(kFenceHeld) + ")";
}

std::string settle_sql(const CatalogTable& table, const TableMapping& mapping,
                       const LaneShare& share) {
  const Writer writer(table, mapping);
  const std::string id = writer.column(mapping.id);
  std::string result =
      fence_sql(share) + mark_sent_sql(table, mapping, id + " = ANY (" + writer.ids(6) + ")");
  if (mapping.delete_when_done) {
    result += ", parked AS (DELETE FROM " + table.quoted + " AS t WHERE " + id + " = ANY (" +
              writer.ids(7) + ")" + std::string(kFenceHeld) + ")";
  } else if (!mapping.when_parked.empty()) {
    result += ", parked AS (UPDATE " + table.quoted + " AS t SET " +
              writer.assignments(mapping.when_parked) + " FROM ROWS FROM (pg_catalog.unnest(" +
              writer.ids(7) +
              "), pg_catalog.unnest($8::pg_catalog.uuid[])) AS k (id, event_id) LEFT JOIN "
              "dovetail.parked AS p ON p.relay = $1 AND p.id = k.event_id WHERE " +
              id + " = k.id AND (p.id IS NULL OR p.finished_at IS NULL)" + std::string(kFenceHeld) +
              ")";
  }
  return result + std::string(kAnswer);
}

std::string mark_discarded_sql(const CatalogTable& table, const TableMapping& mapping) {
  if (mapping.delete_when_done) return {};  // A parked row was deleted already.
  const Writer writer(table, mapping);
  const std::vector<Assignment>& set =
      mapping.when_discarded.empty() ? mapping.when_sent : mapping.when_discarded;
  // Nothing is counted here, so the lane's row is locked and not written.
  return "WITH fence AS (SELECT 1 FROM dovetail.reader WHERE relay = $1 AND lane = $2 AND ($3 = -1 "
         "OR "
         "epoch = $3) FOR NO KEY UPDATE), given_up AS (UPDATE " +
         table.quoted + " AS t SET " + writer.assignments(set) +
         " FROM dovetail.parked AS p WHERE " + pending_sql(table, mapping) +
         " AND p.relay = $1 AND p.state = 'discarded' AND p.finished_at > "
         "pg_catalog.clock_timestamp() - $4 * interval '1 microsecond' AND p.id = " +
         event_id_sql(table, mapping) + std::string(kFenceHeld) + ")" + std::string(kAnswer);
}

}  // namespace

MappedStatements mapped_statements(const CatalogTable& table, const TableMapping& mapping,
                                   const LaneShare& share) {
  const Writer writer(table, mapping);
  MappedStatements statements;
  statements.read = read_sql(table, mapping, share);
  statements.settle = settle_sql(table, mapping, share);
  statements.mark_sent =
      fence_sql(share) +
      mark_sent_sql(table, mapping, writer.column(mapping.id) + " = ANY (" + writer.ids(6) + ")") +
      std::string(kAnswer);
  statements.mark_sent_by_event =
      fence_sql(share) +
      mark_sent_sql(table, mapping,
                    event_id_sql(table, mapping) + " = ANY ($6::pg_catalog.uuid[])") +
      std::string(kAnswer);
  statements.mark_discarded = mark_discarded_sql(table, mapping);
  return statements;
}

std::string gap_keys_sql(const CatalogTable& table, const TableMapping& mapping) {
  const Writer writer(table, mapping);
  const bool has_order = !mapping.order_by.empty() || !mapping.created_at.empty() ||
                         order_kind(table, mapping) != OrderKind::other;
  // Numbers of transactions are short ones, which start over: what counts is how far each is behind
  // the first that is looked for.
  // Of texts and bytes the server knows the size without reading them.
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
  const Writer writer(table, mapping);
  // Without a column for it, created_at() is the time of the look.
  const std::string at =
      mapping.created_at.empty() ? "NULL::pg_catalog.timestamptz" : writer.created_at();
  return "SELECT count(*), CASE WHEN min(page.at) IS NULL THEN -1 ELSE greatest(0, EXTRACT(epoch "
         "FROM pg_catalog.clock_timestamp() - min(page.at)) * 1000000) END::int8, min(page.at) IS "
         "NOT NULL, coalesce(min(page.at), 'epoch') FROM (SELECT " +
         at + " AS at FROM " + table.quoted + " AS t WHERE " +
         (mapping.from_log
              ? is_small_sql(table) + " AND " + is_pending_sql(table, mapping) + " AND "
              : "") +
         which_sql(table, mapping, share, 1) + " LIMIT " + std::to_string(exact_max + 1) +
         ") AS page";
}

namespace {

// A row that is not pending was sent, unless the column of the condition says something else than
// when_sent does.
std::string state_sql(const CatalogTable& table, const TableMapping& mapping) {
  const Writer writer(table, mapping);
  std::string sent = "p.state IS DISTINCT FROM 'discarded'";
  for (const PendingCondition& condition : mapping.pending) {
    for (const Assignment& each : mapping.when_sent) {
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
  const Writer writer(table, mapping);
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
      "), 0) AS payload_length, " + writer.version() + " AS aggregate_version, " +
      writer.created_at() + " AS created_at, " + writer.headers() + " AS headers FROM " +
      table.quoted + " AS t LEFT JOIN dovetail.parked AS p ON p.relay = $1 AND p.id = " + event_id;
  if (of_one) all += " WHERE " + event_id + " = $8";
  // Of a deleted row there is what was parked.
  if (mapping.delete_when_done || mapping.from_log)
    all += " UNION ALL SELECT 0, p.position, NULL::pg_catalog." +
           table.column(order_column(mapping)).base + ", NULL::pg_catalog." +
           table.column(mapping.id).base +
           ", p.id, p.state, p.topic, p.aggregate_type, p.aggregate_id, p.type, p.content_type, "
           "pg_catalog.octet_length(p.payload), p.aggregate_version, p.created_at, p.headers FROM "
           "dovetail.parked AS p WHERE p.relay = $1 AND NOT EXISTS (SELECT 1 FROM " +
           table.quoted + " AS t WHERE " + event_id + " = p.id)" + (of_one ? " AND p.id = $8" : "");
  return "SELECT pg_catalog.row_number() OVER () + $2, page.* FROM (SELECT e.id, e.state, e.topic, "
         "e.aggregate_type, e.aggregate_id, e.type, e.content_type, e.payload_length, "
         "e.aggregate_version, e.created_at, e.headers FROM (" +
         all +
         ") AS e WHERE ($4 = '' OR e.state = $4) AND ($5 = '' OR e.type COLLATE \"C\" = $5) "
         "AND ($6 = '' OR e.aggregate_id COLLATE \"C\" = $6) AND ($7 = '' OR e.topic COLLATE "
         "\"C\" = $7) ORDER BY e.place, e.position, "
         "e.order_value, e.row_id OFFSET $2 LIMIT $3) AS page";
}

std::string mapped_payload_sql(const CatalogTable& table, const TableMapping& mapping) {
  const Writer writer(table, mapping);
  const bool is_bytes = table.column(mapping.payload).base == "bytea";
  return "SELECT coalesce(" +
         (is_bytes ? writer.payload() : "pg_catalog.convert_to(" + writer.payload() + ", 'UTF8')") +
         ", '') FROM " + table.quoted + " AS t WHERE " + event_id_sql(table, mapping) + " = $1";
}

}  // namespace dovetail::postgres
