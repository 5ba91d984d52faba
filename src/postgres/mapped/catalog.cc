#include "postgres/mapped/catalog.h"

#include <algorithm>
#include <array>
#include <set>
#include <vector>

#include "core/ascii.h"
#include "core/check.h"

namespace dovetail::postgres {

namespace {

constexpr std::string_view kFindTable =
    "SELECT c.oid::pg_catalog.int8, n.nspname::pg_catalog.text, c.relname::pg_catalog.text, "
    "c.relkind::pg_catalog.text, pg_catalog.has_any_column_privilege(c.oid, 'SELECT'), "
    "pg_catalog.has_any_column_privilege(c.oid, 'UPDATE'), "
    "pg_catalog.has_table_privilege(c.oid, 'DELETE') "
    "FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace "
    "WHERE c.oid = pg_catalog.to_regclass($1)";

// Follows a domain down to its base type. In SQL, "character" means a length of 1; the type of any
// length is called bpchar.
constexpr std::string_view kColumns =
    "WITH RECURSIVE base(attnum, typid, typmod) AS ("
    "SELECT a.attnum, a.atttypid, a.atttypmod FROM pg_catalog.pg_attribute a WHERE a.attrelid = "
    "$1::int8::oid "
    "AND a.attnum > 0 AND NOT a.attisdropped "
    "UNION ALL SELECT b.attnum, y.typbasetype, y.typtypmod FROM base b JOIN pg_catalog.pg_type y "
    "ON y.oid = b.typid WHERE y.typtype = 'd') "
    "SELECT a.attname::text, CASE a.atttypid WHEN 'pg_catalog.bpchar'::regtype THEN "
    "'pg_catalog.bpchar' ELSE pg_catalog.format_type(a.atttypid, NULL) END, y.typname::text, "
    "a.attnotnull, y.typtype = 'e', y.typname IN ('timestamp', 'timestamptz') AND b.typmod "
    "BETWEEN 0 AND 5 FROM pg_catalog.pg_attribute a JOIN base b ON b.attnum = "
    "a.attnum "
    "JOIN pg_catalog.pg_type y ON y.oid = b.typid AND y.typtype <> 'd' "
    "WHERE a.attrelid = $1::int8::oid ORDER BY a.attnum";

// The unique index with the fewest columns that contains the id. One without nullable columns is
// preferred, because many rows may have null.
constexpr std::string_view kUniqueIndex =
    "SELECT n.name FROM (SELECT k.names FROM pg_catalog.pg_index AS i CROSS JOIN LATERAL (SELECT "
    "pg_catalog.array_agg(a.attname::text ORDER BY u.place) AS names, "
    "pg_catalog.bool_and(a.attnotnull) AS not_null FROM "
    "pg_catalog.unnest(i.indkey::int2[]) WITH ORDINALITY AS u (attnum, place) "
    "JOIN pg_catalog.pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = u.attnum "
    "WHERE u.place <= i.indnkeyatts) AS k "
    "WHERE i.indrelid = $1::int8::oid AND i.indisunique AND i.indisvalid AND i.indpred IS NULL "
    "AND i.indexprs IS NULL AND $2 = ANY (k.names) "
    "ORDER BY pg_catalog.cardinality(k.names), NOT k.not_null, i.indexrelid LIMIT 1) AS best "
    "CROSS JOIN LATERAL pg_catalog.unnest(best.names) WITH ORDINALITY AS n (name, place) "
    "ORDER BY n.place";

constexpr std::string_view kPartitions =
    "SELECT p.relid::oid::pg_catalog.int8 FROM pg_catalog.pg_partition_tree($1::int8::oid) AS p "
    "WHERE p.relid::oid <> $1::int8::oid";

std::string name_sql(std::string_view name) {
  const Result<std::string> quoted = quoted_name(name);
  DOVETAIL_CHECK(quoted);  // checked, or from the catalogue
  return *quoted;
}

// The name for to_regclass(), which parses quotes.
std::string regclass_text(const std::string& table) {
  const std::size_t dot = table.find('.');
  if (dot == std::string::npos) return name_sql(table);
  return name_sql(table.substr(0, dot)) + "." + name_sql(table.substr(dot + 1));
}

Result<CatalogTable> find_table(Connection& connection, const std::string& table) {
  for (const std::string& spelling : {table, to_lower(table)}) {
    const std::string text = regclass_text(spelling);
    const Result<Rows> rows = connection.query(kFindTable, Params().text(text));
    if (!rows) return fail(rows.error());
    if (rows->empty()) continue;
    CatalogTable found;
    found.oid = rows->int8(0, 0);
    found.schema = std::string(rows->text(0, 1));
    found.name = std::string(rows->text(0, 2));
    found.quoted = name_sql(found.schema) + "." + name_sql(found.name);
    const std::string_view kind = rows->text(0, 3);
    if (kind != "r" && kind != "p")
      return fail(Errc::rejected,
                  "the mapped " + found.quoted +
                      " is not a table; a view, a sequence or a foreign table cannot "
                      "be mapped: name the table itself");
    found.may_select = rows->boolean(0, 4);
    found.may_update = rows->boolean(0, 5);
    found.may_delete = rows->boolean(0, 6);
    return found;
  }
  return fail(Errc::rejected,
              "the mapped table \"" + table +
                  "\" does not exist; check its name and schema, and that the role has USAGE on "
                  "that schema and has it in its search_path (or write schema.table)");
}

// All columns that the mapping names, once each.
std::set<std::string, std::less<>> mapped_names(const TableMapping& mapping) {
  std::set<std::string, std::less<>> names;
  for (const std::string* name :
       {&mapping.id, &mapping.topic, &mapping.aggregate_type, &mapping.aggregate_id,
        &mapping.aggregate_version, &mapping.type, &mapping.payload, &mapping.content_type,
        &mapping.headers, &mapping.created_at, &mapping.order_by})
    if (!name->empty()) names.insert(*name);
  for (const HeaderColumn& header : mapping.header_columns) names.insert(header.column);
  for (const PendingCondition& condition : mapping.pending) names.insert(condition.column);
  for (const auto* assignments :
       {&mapping.when_delivered, &mapping.when_parked, &mapping.when_discarded})
    for (const Assignment& assignment : *assignments) names.insert(assignment.column);
  return names;
}

Status find_columns(Connection& connection, const TableMapping& mapping, CatalogTable& table) {
  const Result<Rows> rows = connection.query(kColumns, Params().int8(table.oid));
  if (!rows) return fail(rows.error());
  std::map<std::string, CatalogColumn, std::less<>> all;
  std::string listed;
  for (std::size_t i = 0; i < rows->size(); ++i) {
    CatalogColumn column{std::string(rows->text(i, 0)), std::string(rows->text(i, 1)),
                         std::string(rows->text(i, 2)), rows->boolean(i, 3),
                         rows->boolean(i, 4),           rows->boolean(i, 5)};
    listed += (listed.empty() ? "" : ", ") + column.name;
    all.emplace(column.name, std::move(column));
  }
  for (const std::string& name : mapped_names(mapping)) {
    auto found = all.find(name);
    if (found == all.end()) found = all.find(to_lower(name));
    if (found == all.end())
      return fail(Errc::rejected,
                  "the table " + table.quoted + " has no column \"" + name +
                      "\"; check the mapping against its columns: " + listed.substr(0, 1000));
    table.columns.emplace(name, found->second);
  }
  return {};
}

bool is_one_of(std::string_view base, std::initializer_list<std::string_view> bases) {
  return std::find(bases.begin(), bases.end(), base) != bases.end();
}

bool is_integer(std::string_view base) { return is_one_of(base, {"int2", "int4", "int8"}); }
bool is_text(std::string_view base) { return is_one_of(base, {"text", "varchar", "bpchar"}); }
bool is_time(std::string_view base) { return is_one_of(base, {"timestamptz", "timestamp"}); }

Status check_type(const CatalogTable& table, std::string_view setting, const std::string& name,
                  bool fits, std::string_view wanted) {
  if (fits) return {};
  return fail(Errc::rejected, "the column \"" + table.column(name).name + "\" of " + table.quoted +
                                  " is of type " + table.column(name).type +
                                  ", which does not fit the mapping's " + std::string(setting) +
                                  "; it must be " + std::string(wanted));
}

Status check_types(const CatalogTable& table, const TableMapping& mapping) {
  const std::string& id = table.column(mapping.id).base;
  DOVETAIL_TRY(check_type(table, "id", mapping.id, id == "uuid" || is_text(id) || is_integer(id),
                          "uuid, text, varchar, char, bigint, integer or smallint"));
  const std::string& payload = table.column(mapping.payload).base;
  DOVETAIL_TRY(check_type(table, "payload", mapping.payload,
                          is_one_of(payload, {"jsonb", "json", "bytea"}) || is_text(payload),
                          "jsonb, json, text, varchar or bytea"));
  if (!mapping.headers.empty()) {
    const std::string& headers = table.column(mapping.headers).base;
    DOVETAIL_TRY(check_type(table, "headers", mapping.headers,
                            is_one_of(headers, {"jsonb", "json"}) || is_text(headers),
                            "jsonb, json, text or varchar"));
  }
  if (!mapping.created_at.empty())
    DOVETAIL_TRY(check_type(table, "created_at", mapping.created_at,
                            is_time(table.column(mapping.created_at).base),
                            "timestamptz or timestamp"));
  if (!mapping.aggregate_version.empty())
    DOVETAIL_TRY(check_type(table, "aggregate_version", mapping.aggregate_version,
                            is_integer(table.column(mapping.aggregate_version).base),
                            "bigint, integer or smallint"));
  if (!mapping.order_by.empty()) {
    const std::string& order = table.column(mapping.order_by).base;
    DOVETAIL_TRY(
        check_type(table, "order_by", mapping.order_by,
                   is_integer(order) || is_time(order) || order == "uuid" || is_text(order),
                   "an integer, a time, uuid or text"));
  }
  return {};
}

Status check_rights(const CatalogTable& table, const TableMapping& mapping, Access access) {
  std::string missing;
  if (!table.may_select) missing = "SELECT";
  const bool marks = access == Access::mark && !mapping.from_wal;
  if (marks && mapping.delete_when_done && !table.may_delete)
    missing += missing.empty() ? "DELETE" : ", DELETE";
  if (marks && !mapping.delete_when_done && !table.may_update)
    missing += missing.empty() ? "UPDATE" : ", UPDATE";
  if (missing.empty()) return {};
  return fail(Errc::rejected, "this role may not read " + std::string(marks ? "and mark " : "") +
                                  "rows of " + table.quoted + "; as its owner run GRANT " +
                                  missing + " ON " + table.quoted + " TO the role");
}

}  // namespace

const CatalogColumn& CatalogTable::column(std::string_view name_in_mapping) const {
  const auto found = columns.find(name_in_mapping);
  DOVETAIL_CHECK(found != columns.end());
  return found->second;
}

Result<CatalogTable> look_up(Connection& connection, const TableMapping& mapping, Access access) {
  DOVETAIL_TRY(check_mapping(mapping));
  Result<CatalogTable> table = find_table(connection, mapping.table);
  if (!table) return table;
  DOVETAIL_TRY(find_columns(connection, mapping, *table));
  DOVETAIL_TRY(check_types(*table, mapping));
  DOVETAIL_TRY(check_rights(*table, mapping, access));
  const Result<Rows> partitions = connection.query(kPartitions, Params().int8(table->oid));
  if (!partitions) return fail(partitions.error());
  for (std::size_t i = 0; i < partitions->size(); ++i)
    table->partitions.insert(partitions->int8(i, 0));
  const std::string& id = table->column(mapping.id).name;
  const Result<Rows> index = connection.query(kUniqueIndex, Params().int8(table->oid).text(id));
  if (!index) return fail(index.error());
  for (std::size_t i = 0; i < index->size(); ++i) table->key.emplace_back(index->text(i, 0));
  if (table->key.empty() && !mapping.from_wal)
    return fail(Errc::rejected,
                "the column \"" + id + "\" of " + table->quoted +
                    " has no unique index, so its rows cannot be identified and marked; run ALTER "
                    "TABLE " +
                    table->quoted + " ADD PRIMARY KEY (" + name_sql(id) + ")");
  return table;
}

IdKind id_kind(const CatalogTable& table, const TableMapping& mapping) {
  const std::string& base = table.column(mapping.id).base;
  if (base == "uuid") return IdKind::uuid;
  return is_text(base) ? IdKind::text : IdKind::integer;
}

bool is_known_by_event(const CatalogTable& table, const TableMapping& mapping) {
  return id_kind(table, mapping) == IdKind::uuid && table.key.size() <= 1;
}

std::string default_content_type(const CatalogTable& table, const TableMapping& mapping) {
  if (!mapping.default_content_type.empty()) return mapping.default_content_type;
  return table.column(mapping.payload).base == "bytea" ? "application/octet-stream"
                                                       : "application/json";
}

std::string default_aggregate_type(const CatalogTable& table, const TableMapping& mapping) {
  return mapping.default_aggregate_type.empty() ? table.name : mapping.default_aggregate_type;
}

const std::string& order_column(const TableMapping& mapping) {
  if (!mapping.order_by.empty()) return mapping.order_by;
  return mapping.created_at.empty() ? mapping.id : mapping.created_at;
}

const CatalogColumn* mark_column(const CatalogTable& table, const TableMapping& mapping) {
  if (mapping.delete_when_done || mapping.from_wal) return nullptr;
  for (const Assignment& each : mapping.when_delivered) {
    if (each.value != Assignment::Value::now) continue;
    const CatalogColumn& column = table.column(each.column);
    if (is_time(column.base) && !column.is_rounded) return &column;
  }
  return nullptr;
}

OrderKind order_kind(const CatalogTable& table, const TableMapping& mapping) {
  const std::string& base = table.column(order_column(mapping)).base;
  if (is_integer(base)) return OrderKind::integer;
  return is_time(base) ? OrderKind::time : OrderKind::other;
}

}  // namespace dovetail::postgres
