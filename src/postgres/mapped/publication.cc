#include "postgres/mapped/publication.h"

#include "core/check.h"
#include "postgres/wal/slot.h"

namespace dovetail::postgres {

namespace {

// For the table itself, and for its partitions if they are published under their own
// names. Row filters and column lists exist since 15; generated columns are not in the
// WAL.
constexpr std::string_view kPublished =
    "SELECT p.pubinsert, count(c.oid) > 0, "
    "coalesce(bool_or(to_jsonb(t) ->> 'rowfilter' IS NOT NULL), false), "
    "coalesce(bool_or(NOT $3::text[] <@ ARRAY(SELECT jsonb_array_elements_text(to_jsonb(t) -> "
    "'attnames')) AND jsonb_typeof(to_jsonb(t) -> 'attnames') = 'array'), false), "
    "coalesce(bool_or(c.oid <> $2::int8::oid), false) "
    "FROM pg_catalog.pg_publication AS p "
    "LEFT JOIN (pg_catalog.pg_publication_tables AS t "
    "JOIN pg_catalog.pg_namespace AS n ON n.nspname = t.schemaname "
    "JOIN pg_catalog.pg_class AS c ON c.relname = t.tablename AND c.relnamespace = n.oid "
    "AND (c.oid = $2::int8::oid OR c.oid IN (SELECT tree.relid FROM "
    "pg_catalog.pg_partition_tree($2::int8::oid) AS tree))) ON t.pubname = p.pubname "
    "WHERE p.pubname = $1 GROUP BY p.oid, p.pubinsert";

std::string checked_name(std::string_view name) {
  const Result<std::string> done = quoted_name(name);
  DOVETAIL_CHECK(done);  // checked, or made of letters and digits
  return *done;
}

std::string create_sql(const std::string& name, const CatalogTable& table) {
  return "CREATE PUBLICATION " + checked_name(name) + " FOR TABLE " + table.quoted +
         " WITH (publish = 'insert', publish_via_partition_root = true)";
}

tl::unexpected<Error> wrong(const std::string& name, const std::string& what) {
  return fail(Errc::rejected, "the publication " + checked_name(name) + " " + what);
}

std::vector<std::string_view> columns_of(const CatalogTable& table) {
  std::vector<std::string_view> names;
  for (const auto& [in_mapping, column] : table.columns) names.push_back(column.name);
  return names;
}

}  // namespace

std::string publication_of(std::string_view relay, const TableMapping& mapping) {
  return mapping.publication.empty() ? slot_name(relay, "") : mapping.publication;
}

Status check_publication(Connection& connection, std::string_view relay, const CatalogTable& table,
                         const TableMapping& mapping) {
  const std::string name = publication_of(relay, mapping);
  const std::vector<std::string_view> columns = columns_of(table);
  const Result<Rows> rows =
      connection.query(kPublished, Params().text(name).int8(table.oid).text_array(columns));
  if (!rows) return fail(rows.error());
  const std::string alter = "ALTER PUBLICATION " + checked_name(name);
  if (rows->empty())
    return wrong(name, "does not exist; as the owner of the table run " + create_sql(name, table) +
                           (mapping.publication.empty() ? "" : ", or check the key publication"));
  if (!rows->boolean(0, 0))
    return wrong(name,
                 "publishes no inserts; as its owner run " + alter + " SET (publish = 'insert')");
  if (!rows->boolean(0, 1))
    return wrong(name, "does not have the table " + table.quoted + "; as its owner run " + alter +
                           " ADD TABLE " + table.quoted);
  if (rows->boolean(0, 2))
    return wrong(name, "has a filter for rows of " + table.quoted +
                           ", so some would be lost; as its owner run " + alter + " DROP TABLE " +
                           table.quoted + ", ADD TABLE " + table.quoted);
  if (rows->boolean(0, 3))
    return wrong(name,
                 "leaves out columns of " + table.quoted +
                     " that the mapping names; as its owner create it again without a list of "
                     "columns");
  if (rows->boolean(0, 4))
    return wrong(name, "shows the partitions of " + table.quoted +
                           " by their own names, so new ones would be missed; as its owner "
                           "run " +
                           alter + " SET (publish_via_partition_root = true)");
  return {};
}

Status ensure_publication(Connection& connection, std::string_view relay, const CatalogTable& table,
                          const TableMapping& mapping) {
  const std::string name = publication_of(relay, mapping);
  const Result<Rows> there = connection.query(
      "SELECT 1 FROM pg_catalog.pg_publication WHERE pubname = $1", Params().text(name));
  if (!there) return fail(there.error());
  if (there->empty() && mapping.publication.empty()) {
    const Status made = connection.execute(create_sql(name, table));
    if (!made && !connection) return made;
    // Another process may have been faster; else the check gives the remedy, and this the reason.
    if (!made) {
      const Status checked = check_publication(connection, relay, table, mapping);
      if (checked || checked.error().code != Errc::rejected) return checked;
      return fail(Errc::rejected, checked.error().text + " (" + made.error().text + ")");
    }
  }
  return check_publication(connection, relay, table, mapping);
}

}  // namespace dovetail::postgres
