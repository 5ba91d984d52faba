// What a mapped table lacks.
#include "postgres/doctor/checks.h"
#include "postgres/lane/lease.h"
#include "postgres/mapped/catalog.h"
#include "postgres/mapped/publication.h"

namespace dovetail::postgres {

namespace {

constexpr std::int64_t kPendingCounted = 100'000;

// The sequence behind a column, of an identity, a serial, or a plain default.
constexpr std::string_view kSequence =
    "SELECT s.seqrelid::regclass::text, s.seqcache, s.seqincrement < 0 FROM pg_catalog.pg_sequence "
    "s WHERE s.seqrelid IN (SELECT d.objid FROM pg_catalog.pg_depend d JOIN "
    "pg_catalog.pg_attribute a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid WHERE "
    "d.refobjid = $1::int8::oid AND a.attname = $2 AND d.classid = 'pg_catalog.pg_class'::regclass "
    "UNION SELECT d.refobjid FROM pg_catalog.pg_attrdef f JOIN pg_catalog.pg_attribute a ON "
    "a.attrelid = f.adrelid AND a.attnum = f.adnum JOIN pg_catalog.pg_depend d ON d.objid = f.oid "
    "AND d.classid = 'pg_catalog.pg_attrdef'::regclass WHERE f.adrelid = $1::int8::oid AND "
    "a.attname = $2)";

// How often the pending rows are looked for makes an index on them a must.
constexpr std::string_view kIndexes =
    "SELECT coalesce(bool_or(i.indpred IS NULL AND i.indnkeyatts = 1 AND i.indisunique AND "
    "first.attname = $2), false), coalesce(bool_or(first.attname = $3 AND (i.indpred IS NOT NULL "
    "OR $5)), false), coalesce(bool_or(first.attname = ANY ($4::text[])), false) "
    "FROM pg_catalog.pg_index i JOIN pg_catalog.pg_attribute first ON first.attrelid = i.indrelid "
    "AND first.attnum = i.indkey[0] WHERE i.indrelid = $1::int8::oid AND i.indisvalid";

constexpr std::string_view kTable =
    "SELECT c.relrowsecurity AND pg_catalog.row_security_active(c.oid), c.relpersistence = 'u' "
    "FROM pg_catalog.pg_class c WHERE c.oid = $1::int8::oid";

Status examine_order(Connection& connection, const CatalogTable& table, const TableMapping& mapping,
                     Findings& findings) {
  if (mapping.aggregate_id.empty()) {
    findings.add(Severity::note, "unordered",
                 table.quoted + " is mapped without an aggregate id: its events have no order",
                 "if order matters, add a column for the aggregate and map it");
    return {};
  }
  const CatalogColumn& column = table.column(order_column(mapping));
  if (mapping.from_log) {
    if (order_kind(table, mapping) != OrderKind::integer)
      findings.add(
          Severity::note, "order-of-gaps",
          "the WAL has " + table.quoted +
              " in commit order; but after a lost slot, rows are read from the table, which has "
              "no column for the commit order",
          "if that matters, add a column: ALTER TABLE " + table.quoted +
              " ADD COLUMN seq bigint GENERATED ALWAYS AS IDENTITY, and map order_by = "
              "\"seq\"");
    return {};
  }
  const std::string identity = "add one: ALTER TABLE " + table.quoted +
                               " ADD COLUMN seq bigint GENERATED ALWAYS AS IDENTITY, and map "
                               "order_by = \"seq\"";
  switch (order_kind(table, mapping)) {
    case OrderKind::time:
      findings.add(
          Severity::warning, "unsafe-order",
          table.quoted + " is ordered by the time \"" + column.name +
              "\": now() is the start of a transaction, all events of a transaction have the "
              "same, and clocks step; so events of one aggregate can be sent in the wrong order",
          "order by a sequence that is taken while the aggregate is locked; " + identity);
      return {};
    case OrderKind::other:
      findings.add(Severity::error, "unsafe-order",
                   table.quoted + " is ordered by \"" + column.name + "\" of type " + column.type +
                       ", which does not define the order of events",
                   "order by a sequence that is taken while the aggregate is locked; " + identity);
      return {};
    case OrderKind::integer:
      break;
  }
  const Result<Rows> sequence =
      connection.query(kSequence, Params().int8(table.oid).text(column.name));
  if (!sequence) return fail(sequence.error());
  if (sequence->empty())
    findings.add(
        Severity::note, "order-without-sequence",
        "the order \"" + column.name + "\" of " + table.quoted +
            " does not come from a sequence; the application must make sure that it ascends "
            "along each aggregate",
        "check how the application sets it, or " + identity);
  for (std::size_t i = 0; i < sequence->size(); ++i) {
    const std::string name(sequence->text(i, 0));
    if (sequence->int8(i, 1) > 1)
      findings.add(Severity::error, "sequence-cache",
                   "the sequence " + name + " caches " + std::to_string(sequence->int8(i, 1)) +
                       " values per session, so a later event can get a lower number",
                   "run ALTER SEQUENCE " + name + " CACHE 1");
    if (sequence->boolean(i, 2))
      findings.add(Severity::error, "unsafe-order", "the sequence " + name + " counts downwards",
                   "order by an ascending sequence; " + identity);
  }
  return {};
}

Status examine_indexes(Connection& connection, const CatalogTable& table,
                       const TableMapping& mapping, Findings& findings) {
  const std::string& id = table.column(mapping.id).name;
  const std::string& order = table.column(order_column(mapping)).name;
  std::vector<std::string_view> pending;
  for (const PendingCondition& condition : mapping.pending)
    pending.push_back(table.column(condition.column).name);
  const Result<Rows> rows = connection.query(
      kIndexes, Params().int8(table.oid).text(id).text(order).text_array(pending).boolean(
                    mapping.pending.empty()));
  if (!rows) return fail(rows.error());
  if (!rows->boolean(0, 0))
    findings.add(Severity::warning, "id-not-unique",
                 "no unique index of " + table.quoted + " is on \"" + id +
                     "\" alone; two rows with one id count as one event",
                 "make sure that ids are unique in the whole table, for example UUIDs");
  if (!rows->boolean(0, 1) && !rows->boolean(0, 2)) {
    findings.add(
        Severity::warning, "missing-index",
        "no index of " + table.quoted + " finds the pending rows: every read scans the whole table",
        "run CREATE INDEX CONCURRENTLY ON " + table.quoted + " (" + *quoted_name(order) +
            (order == id ? std::string() : ", " + *quoted_name(id)) + ") WHERE " +
            pending_sql(table, mapping, ""));
  }
  return {};
}

// As a relay of the outbox is looked at. One that was never started serves nothing.
Status examine_progress(Connection& connection, const std::string& relay, const CatalogTable& table,
                        const TableMapping& mapping, const DoctorOptions& options,
                        Findings& findings) {
  static const std::string select = "SELECT coalesce(bool_and(" + std::string(kIsHeld) +
                                    "), false) FROM dovetail.relay_lane r WHERE relay = $1";
  const Result<Rows> lanes = connection.query(select, Params().text(relay));
  if (!lanes) return fail(lanes.error());
  const Result<Rows> backlog = connection.query(
      mapped_backlog_sql(table, mapping, LaneShare{}, kPendingCounted), Params().text(relay));
  if (!backlog) return fail(backlog.error());
  examine_lag(relay, lanes->boolean(0, 0), static_cast<std::uint64_t>(backlog->int8(0, 0)),
              Duration{backlog->int8(0, 1)}, options, findings);
  return {};
}

}  // namespace

Status examine_mapping(Connection& connection, const std::string& relay,
                       const TableMapping& mapping, bool schema_is_whole,
                       const DoctorOptions& options, Findings& findings) {
  const Result<CatalogTable> table = look_up(connection, mapping);
  if (!table && table.error().code == Errc::rejected) {
    findings.add(Severity::error, "mapping",
                 "the mapping of \"" + mapping.table + "\" does not fit", table.error().text);
    return {};
  }
  if (!table) return fail(table.error());
  DOVETAIL_TRY(examine_order(connection, *table, mapping, findings));
  if (mapping.from_log) {
    const Status published = check_publication(connection, relay, *table, mapping);
    if (!published && published.error().code != Errc::rejected) return published;
    if (!published)
      findings.add(Severity::error, "publication",
                   "the WAL of " + table->quoted + " cannot be read", published.error().text);
  } else {
    DOVETAIL_TRY(examine_indexes(connection, *table, mapping, findings));
  }
  const Result<Rows> rows = connection.query(kTable, Params().int8(table->oid));
  if (!rows) return fail(rows.error());
  if (rows->boolean(0, 0))
    findings.add(Severity::error, "row-security",
                 "row level security hides rows of " + table->quoted + " from this role",
                 "give the relay's role BYPASSRLS, or a policy that shows it every row");
  if (rows->boolean(0, 1))
    findings.add(Severity::error, "unlogged",
                 table->quoted + " is unlogged: a crash of the server empties it",
                 "run ALTER TABLE " + table->quoted + " SET LOGGED");
  if (schema_is_whole)
    DOVETAIL_TRY(examine_progress(connection, relay, *table, mapping, options, findings));
  return examine_vacuum(connection, table->oid, options, findings);
}

}  // namespace dovetail::postgres
