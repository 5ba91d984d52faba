// What a mapped table lacks.
#include "postgres/doctor/checks.h"
#include "postgres/lane/lease.h"
#include "postgres/mapped/catalog.h"
#include "postgres/mapped/publication.h"

namespace dovetail::postgres {

namespace {

using F = const Facts&;

constexpr std::int64_t kPendingCounted = 100'000;

// The sequence behind a column, of an identity, a serial, or a plain default.
constexpr std::string_view kSequenceSql =
    R"(SELECT s.seqrelid::regclass::text AS sequence, s.seqcache AS cached,
              s.seqincrement < 0 AS is_descending
       FROM pg_catalog.pg_sequence s
       WHERE s.seqrelid IN (
         SELECT d.objid FROM pg_catalog.pg_depend d
         JOIN pg_catalog.pg_attribute a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid
         WHERE d.refobjid = $1::int8::oid AND a.attname = $2
           AND d.classid = 'pg_catalog.pg_class'::regclass
         UNION
         SELECT d.refobjid FROM pg_catalog.pg_attrdef f
         JOIN pg_catalog.pg_attribute a ON a.attrelid = f.adrelid AND a.attnum = f.adnum
         JOIN pg_catalog.pg_depend d
           ON d.objid = f.oid AND d.classid = 'pg_catalog.pg_attrdef'::regclass
         WHERE f.adrelid = $1::int8::oid AND a.attname = $2))";

// How often the pending rows are looked for makes an index on them a must.
constexpr std::string_view kIndexesSql =
    R"(SELECT coalesce(bool_or(i.indpred IS NULL AND i.indnkeyatts = 1 AND i.indisunique
                               AND first.attname = $2), false) AS is_unique,
              coalesce(bool_or((first.attname = $3 AND (i.indpred IS NOT NULL OR $5))
                               OR first.attname = ANY ($4::text[])), false) AS finds_pending
       FROM pg_catalog.pg_index i
       JOIN pg_catalog.pg_attribute first
         ON first.attrelid = i.indrelid AND first.attnum = i.indkey[0]
       WHERE i.indrelid = $1::int8::oid AND i.indisvalid)";

const Probe kTable{
    R"(SELECT c.relrowsecurity AND pg_catalog.row_security_active(c.oid) AS hides_rows,
              c.relpersistence = 'u' AS is_unlogged
       FROM pg_catalog.pg_class c WHERE c.oid = $1::int8::oid)",
    {{Severity::error, "row-security", [](F f) { return f.is("hides_rows"); },
      "row level security hides rows of {table} from this role",
      "give the relay's role BYPASSRLS, or a policy that shows it every row"},
     {Severity::error, "unlogged", [](F f) { return f.is("is_unlogged"); },
      "{table} is unlogged: a crash of the server empties it",
      "run ALTER TABLE {table} SET LOGGED"}},
    "oid"};

constexpr Check kMisfit{Severity::error, "mapping", nullptr,
                        "the mapping of \"{mapped}\" does not fit", "{error}"};
constexpr Check kUnpublished{Severity::error, "publication", nullptr,
                             "the WAL of {table} cannot be read", "{error}"};

constexpr std::string_view kAscend =
    "order by a sequence that is taken while the aggregate is locked; add one: ALTER TABLE {table} "
    "ADD COLUMN seq bigint GENERATED ALWAYS AS IDENTITY, and map order_by = \"seq\"";
// `order`: none, time, integer or other.
constexpr Check kOrder[] = {
    {Severity::note, "unordered", [](F f) { return f.is("order", "none"); },
     "{table} is mapped without an aggregate id: its events have no order",
     "if order matters, add a column for the aggregate and map it"},
    {Severity::note, "order-of-gaps",
     [](F f) { return f.is("from_wal") && !f.is("order", "none") && !f.is("order", "integer"); },
     "the WAL has {table} in commit order; but after a lost slot, rows are read from the table, "
     "which has no column for the commit order",
     "if that matters, add a column: ALTER TABLE {table} ADD COLUMN seq bigint GENERATED ALWAYS AS "
     "IDENTITY, and map order_by = \"seq\""},
    {Severity::warning, "unsafe-order",
     [](F f) { return !f.is("from_wal") && f.is("order", "time"); },
     "{table} is ordered by the time \"{column}\": now() is the start of a transaction, all events "
     "of a transaction have the same, and clocks step; so events of one aggregate can be sent in "
     "the wrong order",
     kAscend},
    {Severity::error, "unsafe-order",
     [](F f) { return !f.is("from_wal") && f.is("order", "other"); },
     "{table} is ordered by \"{column}\" of type {type}, which does not define the order of events",
     kAscend},
};
constexpr Check kNoSequence{
    Severity::note, "order-without-sequence", nullptr,
    "the order \"{column}\" of {table} does not come from a sequence; the application must make "
    "sure that it ascends along each aggregate",
    "check how the application sets it, or add one: ALTER TABLE {table} ADD COLUMN seq bigint "
    "GENERATED ALWAYS AS IDENTITY, and map order_by = \"seq\""};
constexpr Check kColumnSequence[] = {
    {Severity::error, "sequence-cache", [](F f) { return f.number("cached") > 1; },
     "the sequence {sequence} caches {cached} values per session, so a later event can get a lower "
     "number",
     "run ALTER SEQUENCE {sequence} CACHE 1"},
    {Severity::error, "unsafe-order", [](F f) { return f.is("is_descending"); },
     "the sequence {sequence} counts downwards", kAscend},
};
constexpr Check kIndexes[] = {
    {Severity::warning, "id-not-unique", [](F f) { return !f.is("is_unique"); },
     "no unique index of {table} is on \"{id}\" alone; two rows with one id count as one event",
     "make sure that ids are unique in the whole table, for example UUIDs"},
    {Severity::warning, "missing-index", [](F f) { return !f.is("finds_pending"); },
     "no index of {table} finds the pending rows: every read scans the whole table",
     "run CREATE INDEX CONCURRENTLY ON {table} ({index_columns}) WHERE {pending}"},
};

std::string_view to_string(OrderKind kind) {
  switch (kind) {
    case OrderKind::integer:
      return "integer";
    case OrderKind::time:
      return "time";
    case OrderKind::other:
      break;
  }
  return "other";
}

Status examine_order(Connection& connection, const CatalogTable& table, const TableMapping& mapping,
                     Facts& facts, Findings& findings) {
  facts.set("from_wal", mapping.from_wal).set("order", "none");
  if (!mapping.aggregate_id.empty()) {
    const CatalogColumn& column = table.column(order_column(mapping));
    facts.set("order", to_string(order_kind(table, mapping)))
        .set("column", column.name)
        .set("type", column.type);
  }
  findings.check(kOrder, facts);
  if (mapping.from_wal || !facts.is("order", "integer")) return {};
  const auto sequences =
      ask(connection, kSequenceSql, Params().int8(table.oid).text(facts.text("column")), facts);
  if (!sequences) return fail(sequences.error());
  if (sequences->empty()) findings.add(kNoSequence, facts);
  for (const Facts& sequence : *sequences) findings.check(kColumnSequence, sequence);
  return {};
}

Status examine_indexes(Connection& connection, const CatalogTable& table,
                       const TableMapping& mapping, Facts facts, Findings& findings) {
  const std::string& id = table.column(mapping.id).name;
  const std::string& order = table.column(order_column(mapping)).name;
  std::vector<std::string_view> pending;
  for (const PendingCondition& condition : mapping.pending)
    pending.push_back(table.column(condition.column).name);
  facts.set("id", id).set("pending", pending_sql(table, mapping, ""));
  facts.set("index_columns",
            *quoted_name(order) + (order == id ? std::string() : ", " + *quoted_name(id)));
  const auto rows = ask(connection, kIndexesSql,
                        Params().int8(table.oid).text(id).text(order).text_array(pending).boolean(
                            mapping.pending.empty()),
                        facts);
  if (!rows) return fail(rows.error());
  findings.check(kIndexes, rows->front());
  return {};
}

// As a relay of the outbox is looked at. One that was never started serves nothing.
Status examine_progress(Connection& connection, const std::string& relay, const CatalogTable& table,
                        const TableMapping& mapping, Facts facts, Findings& findings) {
  static const std::string select = "SELECT coalesce(bool_and(" + std::string(kIsHeld) +
                                    "), false) FROM dovetail.relay_lane r WHERE relay = $1";
  const Result<Rows> lanes = connection.query(select, Params().text(relay));
  if (!lanes) return fail(lanes.error());
  const Result<Rows> backlog = connection.query(
      mapped_backlog_sql(table, mapping, LaneShare{}, kPendingCounted), Params().text(relay));
  if (!backlog) return fail(backlog.error());
  examine_lag(facts.set("relay", relay)
                  .set("is_served", lanes->boolean(0, 0))
                  .set("pending", backlog->int8(0, 0))
                  .set("lag", backlog->int8(0, 1)),
              findings);
  return {};
}

}  // namespace

Status examine_mapping(Connection& connection, const std::string& relay,
                       const TableMapping& mapping, bool schema_is_whole,
                       const DoctorOptions& options, Findings& findings) {
  const Result<CatalogTable> table = look_up(connection, mapping);
  if (!table) {
    if (table.error().code != Errc::rejected) return fail(table.error());
    findings.add(kMisfit, Facts().set("mapped", mapping.table).set("error", table.error().text));
    return {};
  }
  Facts facts = facts_of(options);
  facts.set("table", table->quoted).set("oid", table->oid);
  DOVETAIL_TRY(examine_order(connection, *table, mapping, facts, findings));
  if (mapping.from_wal) {
    const Status published = check_publication(connection, relay, *table, mapping);
    if (!published && published.error().code != Errc::rejected) return published;
    if (!published) findings.add(kUnpublished, Facts(facts).set("error", published.error().text));
  } else {
    DOVETAIL_TRY(examine_indexes(connection, *table, mapping, facts, findings));
  }
  DOVETAIL_TRY(run(connection, {kTable}, facts, findings));
  if (schema_is_whole)
    DOVETAIL_TRY(examine_progress(connection, relay, *table, mapping, facts, findings));
  return run(connection, {vacuum_probe()}, facts, findings);
}

}  // namespace dovetail::postgres
