// Builds pieces of SQL about a mapped table, which they call `t`.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/check.h"
#include "postgres/connection/connection.h"
#include "postgres/mapped/catalog.h"

namespace dovetail::postgres {

inline std::string mapped_name(std::string_view name) {
  const Result<std::string> quoted = quoted_name(name);
  DOVETAIL_CHECK(quoted);  // the name comes from the catalogue
  return *quoted;
}

// Builds the pieces that depend on column types.
class MappedWriter {
 public:
  MappedWriter(const CatalogTable& table, const TableMapping& mapping)
      : table_(table), mapping_(mapping) {}

  std::string column(std::string_view name) const {
    return "t." + mapped_name(table_.column(name).name);
  }
  std::string text(const std::string& name) const { return column(name) + "::pg_catalog.text"; }

  std::string text_or(const std::string& name, const std::string& otherwise) const {
    if (name.empty()) return quoted_text(otherwise);
    return "coalesce(nullif(" + text(name) + ", ''), " + quoted_text(otherwise) + ")";
  }
  std::string text_or_nothing(const std::string& name) const {
    return name.empty() ? "''::pg_catalog.text" : "coalesce(" + text(name) + ", '')";
  }
  // Flat jsonb objects become objects of texts, as in headers; other values stay as they are.
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
  // A time without zone counts as UTC.
  std::string time(const std::string& name) const {
    if (table_.column(name).base == "timestamptz") return column(name);
    return "(" + column(name) + " AT TIME ZONE 'UTC')";
  }
  std::string created_at() const {
    if (mapping_.created_at.empty()) return "pg_catalog.clock_timestamp()";
    return "coalesce(" + time(mapping_.created_at) + ", pg_catalog.clock_timestamp())";
  }
  // When a row was delivered, as it says itself.
  std::string marked_at() const {
    const CatalogColumn* const mark = mark_column(table_, mapping_);
    return mark == nullptr ? "NULL::pg_catalog.timestamptz" : time(mark->name);
  }
  std::string order_value() const {
    switch (order_kind(table_, mapping_)) {
      case OrderKind::integer:
        return column(order_column(mapping_)) + "::pg_catalog.int8";
      case OrderKind::time:
        // Infinite or absurd times must not overflow a position.
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

  // Text that identifies a row: its id if that is unique. Else the columns of the
  // unique index in binary form, which no session setting changes, then a space and the
  // id.
  std::string row_key() const {
    if (table_.key.size() <= 1) return text(mapping_.id);
    std::string columns;
    for (const std::string& name : table_.key)
      columns += (columns.empty() ? "t." : ", t.") + mapped_name(name);
    return "pg_catalog.encode(pg_catalog.record_send(ROW(" + columns + ")), 'hex') || ' ' || " +
           text(mapping_.id);
  }
  // Whether it is one of the rows in an array parameter: event ids if those identify rows, else row
  // keys.
  std::string is_one_of(int parameter) const {
    const std::string given = "$" + std::to_string(parameter);
    const std::string id = column(mapping_.id);
    const std::string& type = table_.column(mapping_.id).type;
    if (is_known_by_event(table_, mapping_)) {
      const std::string as_type = type == "uuid" ? "" : "::" + type + "[]";
      return id + " = ANY (" + given + "::pg_catalog.uuid[]" + as_type + ")";
    }
    if (table_.key.size() <= 1)
      return id + " = ANY (" + given + "::pg_catalog.text[]::" + type + "[])";
    return "(" + id + " = ANY (ARRAY(SELECT " + id_of_key("k") + " FROM pg_catalog.unnest(" +
           given + "::pg_catalog.text[]) AS k)) AND " + row_key() + " = ANY (" + given +
           "::pg_catalog.text[]))";
  }
  // Whether it is the row of the parked event `p`.
  std::string is_row_of_parked() const {
    const std::string id = column(mapping_.id);
    const std::string& type = table_.column(mapping_.id).type;
    if (is_known_by_event(table_, mapping_)) return id + " = p.id::" + type;
    if (table_.key.size() <= 1) return id + " = p.row_id::" + type;
    return "(" + id + " = " + id_of_key("p.row_id") + " AND " + row_key() + " = p.row_id)";
  }

  std::string assignments(const std::vector<Assignment>& all) const {
    std::string result;
    for (const Assignment& each : all) {
      const CatalogColumn& target = table_.column(each.column);
      result +=
          (result.empty() ? "" : ", ") + mapped_name(target.name) + " = " + value(each, target);
    }
    return result;
  }

  // Whether the row has these marks already, as far as that can be seen later.
  std::string carries(const std::vector<Assignment>& marks) const {
    std::string result = "true";
    for (const Assignment& each : marks) {
      const std::string it = column(each.column);
      if (each.value == Assignment::Value::text)
        result += " AND " + it + "::pg_catalog.text = " + text_value(each);
      if (each.value == Assignment::Value::now) result += " AND " + it + " IS NOT NULL";
      if (each.value == Assignment::Value::null) result += " AND " + it + " IS NULL";
    }
    return result;
  }
  // Whether these marks would change the row.
  std::string differs(const std::vector<Assignment>& marks) const {
    std::string result = "false";
    for (const Assignment& each : marks) {
      const std::string it = column(each.column);
      result += " OR " + it;
      result += each.value == Assignment::Value::now
                    ? " IS NULL"
                    : "::pg_catalog.text IS DISTINCT FROM " + text_value(each);
    }
    return "(" + result + ")";
  }

 private:
  std::string id_of_key(const std::string& key) const {
    return "pg_catalog.substr(" + key + ", pg_catalog.strpos(" + key +
           ", ' ') + 1)::" + table_.column(mapping_.id).type;
  }
  // As text, because not every type has an equality operator.
  std::string text_value(const Assignment& assignment) const {
    return "(" + value(assignment, table_.column(assignment.column)) + ")::pg_catalog.text";
  }
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

}  // namespace dovetail::postgres
