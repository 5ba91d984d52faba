#include <array>

#include "postgres/doctor_checks.h"
#include "postgres/schema.h"

namespace dovetail::postgres {

namespace {

// What version 1 consists of; anything missing was changed by hand.
constexpr std::string_view kMissing =
    "SELECT w.kind, w.name FROM (VALUES ('table', 'schema_version'), ('table', 'outbox'), "
    "('table', "
    "'outbox_default'), ('table', 'delayed'), ('table', 'reader'), ('table', 'relay_process'), "
    "('table', 'parked'), ('table', 'audit'), ('table', 'outbox_limit'), ('view', 'events'), "
    "('view', 'lag'), ('sequence', 'outbox_seq'), ('index', 'outbox_xid'), ('index', "
    "'outbox_seq_index'), ('index', 'outbox_pkey'), ('index', 'parked_key'), ('index', "
    "'parked_due'), ('index', 'parked_head'), ('index', 'parked_finished'), ('index', "
    "'delayed_due')) AS w (kind, name) LEFT JOIN pg_catalog.pg_class c ON c.relnamespace = "
    "pg_catalog.to_regnamespace('dovetail') AND c.relname = w.name AND c.relkind = ANY (CASE "
    "w.kind "
    "WHEN 'table' THEN '{r,p}' WHEN 'view' THEN '{v}' WHEN 'sequence' THEN '{S}' ELSE '{i,I}' "
    "END::\"char\"[]) LEFT JOIN pg_catalog.pg_index i ON i.indexrelid = c.oid WHERE c.oid IS NULL "
    "OR "
    "i.indisvalid = false "
    "UNION ALL SELECT 'column', w.name FROM (VALUES ('outbox.id'), ('outbox.seq'), ('outbox.xid'), "
    "('outbox.slot'), ('outbox.topic'), ('outbox.aggregate_type'), ('outbox.aggregate_id'), "
    "('outbox.type'), ('outbox.content_type'), ('outbox.headers'), ('outbox.payload'), "
    "('outbox.aggregate_version'), ('outbox.created_at'), ('outbox.deliver_at'), ('reader.prev'), "
    "('reader.now'), ('reader.seq'), ('reader.epoch'), ('reader.expires'), ('reader.mapped'), "
    "('reader.system_identifier'), ('parked.slot'), ('parked.position'), ('parked.at_head'), "
    "('parked.finished_at')) AS w (name) WHERE NOT EXISTS (SELECT 1 FROM pg_catalog.pg_attribute a "
    "JOIN pg_catalog.pg_class c ON c.oid = a.attrelid WHERE c.relnamespace = "
    "pg_catalog.to_regnamespace('dovetail') AND c.relname || '.' || a.attname = w.name AND NOT "
    "a.attisdropped) "
    "UNION ALL SELECT 'function', w.name FROM (VALUES ('publish'), ('uuid7'), ('refresh_heads'), "
    "('release_delayed'), ('adopt_foreign_rows'), ('backlog')) AS w (name) WHERE NOT EXISTS "
    "(SELECT "
    "1 FROM pg_catalog.pg_proc p WHERE p.pronamespace = pg_catalog.to_regnamespace('dovetail') AND "
    "p.proname = w.name) "
    "UNION ALL SELECT 'default of', w.name FROM (VALUES ('outbox.seq'), ('outbox.xid'), "
    "('outbox.id')) AS w (name) WHERE NOT EXISTS (SELECT 1 FROM pg_catalog.pg_attribute a JOIN "
    "pg_catalog.pg_class c ON c.oid = a.attrelid WHERE c.relnamespace = "
    "pg_catalog.to_regnamespace('dovetail') AND c.relname || '.' || a.attname = w.name AND "
    "a.atthasdef) "
    "UNION ALL SELECT 'trigger', 'delay' WHERE NOT EXISTS (SELECT 1 FROM pg_catalog.pg_trigger t "
    "WHERE t.tgrelid = pg_catalog.to_regclass('dovetail.outbox') AND t.tgname = 'delay' AND "
    "t.tgenabled <> 'D') ORDER BY 1, 2";

// Less than this, and a relay cannot work.
constexpr std::string_view kRights =
    "SELECT w.what FROM (VALUES ('USAGE ON SCHEMA dovetail', "
    "pg_catalog.has_schema_privilege('dovetail', 'USAGE')), ('SELECT ON dovetail.outbox', "
    "pg_catalog.has_table_privilege('dovetail.outbox', 'SELECT')), ('SELECT ON SEQUENCE "
    "dovetail.outbox_seq', pg_catalog.has_sequence_privilege('dovetail.outbox_seq', 'SELECT')), "
    "('SELECT, INSERT, UPDATE ON dovetail.reader', "
    "pg_catalog.has_table_privilege('dovetail.reader', 'SELECT') AND "
    "pg_catalog.has_table_privilege('dovetail.reader', 'INSERT') AND "
    "pg_catalog.has_table_privilege('dovetail.reader', 'UPDATE')), ('SELECT, INSERT, UPDATE ON "
    "dovetail.parked', pg_catalog.has_table_privilege('dovetail.parked', 'SELECT') AND "
    "pg_catalog.has_table_privilege('dovetail.parked', 'INSERT') AND "
    "pg_catalog.has_table_privilege('dovetail.parked', 'UPDATE')), ('SELECT, INSERT, UPDATE, "
    "DELETE "
    "ON dovetail.relay_process', pg_catalog.has_table_privilege('dovetail.relay_process', "
    "'SELECT') "
    "AND pg_catalog.has_table_privilege('dovetail.relay_process', 'INSERT') AND "
    "pg_catalog.has_table_privilege('dovetail.relay_process', 'UPDATE') AND "
    "pg_catalog.has_table_privilege('dovetail.relay_process', 'DELETE'))) AS w (what, held) WHERE "
    "NOT w.held";

// The end of the last partition that begins with the present, in microseconds from now; and rows in
// the default partition, about.
constexpr std::string_view kAhead =
    "WITH bounds AS (SELECT (regexp_match(pg_catalog.pg_get_expr(c.relpartbound, c.oid), 'TO "
    "\\(''([0-9a-f]{8})-([0-9a-f]{4})'))::text[] AS upto FROM pg_catalog.pg_inherits i JOIN "
    "pg_catalog.pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = "
    "'dovetail.outbox'::pg_catalog.regclass) SELECT coalesce(max((('x' || upto[1] || "
    "upto[2])::bit(48)::int8 * 1000 - (EXTRACT(epoch FROM pg_catalog.clock_timestamp()) * "
    "1000000)::int8)), 0)::int8, count(upto) FROM bounds";

Status examine_rights(Connection& connection, Findings& findings) {
  const Result<Rows> rights = connection.query(kRights);
  if (!rights) return fail(rights.error());
  for (std::size_t i = 0; i < rights->size(); ++i) {
    const std::string right(rights->text(i, 0));
    findings.add(Severity::error, "missing-right", "this role lacks " + right,
                 "as the owner of the schema run GRANT " + right +
                     " TO the role of the relay, or GRANT dovetail_relay TO it");
  }
  return {};
}

Status examine_partitions(Connection& connection, const DoctorOptions& options,
                          Findings& findings) {
  const Result<Rows> ahead = connection.query(kAhead);
  if (!ahead) return fail(ahead.error());
  const Duration left{ahead->int8(0, 0)};
  if (left < options.ahead_min)
    findings.add(
        Severity::warning, "partitions-ahead",
        ahead->int8(0, 1) == 0
            ? std::string("the outbox has no partitions: everything is in the default one, "
                          "where old events are deleted one by one")
            : "the outbox has partitions for another " + shown(std::max(left, Duration{0})) +
                  " only; what comes later goes to the default one, where old events are "
                  "deleted one by one",
        "run `dovetail prune` as the owner of the schema, regularly, or let the relay do "
        "so");
  return {};
}

Status examine_parked(Connection& connection, Findings& findings) {
  const Result<Rows> parked = connection.query(
      "SELECT count(*) FILTER (WHERE state = 'parked'), count(*), count(*) FILTER (WHERE NOT "
      "at_head AND NOT EXISTS (SELECT 1 FROM dovetail.parked h WHERE h.relay = p.relay AND "
      "h.aggregate_type = p.aggregate_type AND h.aggregate_id = p.aggregate_id AND h.at_head)) "
      "FROM "
      "dovetail.parked p WHERE finished_at IS NULL");
  if (!parked) return fail(parked.error());
  if (parked->int8(0, 0) > 0)
    findings.add(Severity::warning, "parked",
                 std::to_string(parked->int8(0, 0)) +
                     " events are parked and wait for an operator, together with what stands "
                     "behind them " +
                     std::to_string(parked->int8(0, 1)),
                 "look at them with `dovetail parked`, then replay or discard them");
  if (parked->int8(0, 2) > 0)
    findings.add(Severity::error, "parked-without-head",
                 std::to_string(parked->int8(0, 2)) +
                     " parked events wait behind nothing: they were changed by hand",
                 "run SELECT dovetail.refresh_heads(relay, array_agg(aggregate_type), "
                 "array_agg(aggregate_id)) FROM dovetail.parked WHERE finished_at IS NULL GROUP BY "
                 "relay");
  return {};
}

Status examine_relays(Connection& connection, const DoctorOptions& options, Findings& findings) {
  const Result<Rows> rows = connection.query(
      "SELECT l.relay, sum(l.pending)::int8, (EXTRACT(epoch FROM max(l.lag)) * 1000000)::int8, "
      "bool_and(l.held) FROM dovetail.lag l GROUP BY l.relay ORDER BY l.relay");
  if (!rows) return fail(rows.error());
  if (rows->empty())
    findings.add(Severity::note, "no-relay", "no relay has ever read dovetail.outbox",
                 "start one with `dovetail run`");
  for (std::size_t i = 0; i < rows->size(); ++i) {
    const std::string relay = "the relay \"" + std::string(rows->text(i, 0)) + "\"";
    const auto pending = static_cast<std::uint64_t>(rows->int8(i, 1));
    const Duration lag{rows->int8(i, 2)};
    if (!rows->boolean(i, 3))
      findings.add(Severity::error, "relay-not-running",
                   relay + " has lanes that nobody serves; " + std::to_string(pending) +
                       " of its events are pending",
                   "start a relay of that name, or delete its rows in dovetail.reader if it is "
                   "gone for good: it holds back the retention");
    if (pending > options.pending_max || lag > options.lag_max)
      findings.add(Severity::warning, "backlog",
                   relay + " has " + std::to_string(pending) + " events before it, the oldest " +
                       shown(lag) + " old",
                   "check the sink and the log of the relay; more lanes and processes help when it "
                   "is busy");
  }
  return {};
}

Status examine_sequence(Connection& connection, Findings& findings) {
  const Result<Rows> rows = connection.query(
      "SELECT seqcache, seqincrement, seqcycle FROM pg_catalog.pg_sequence WHERE seqrelid = "
      "pg_catalog.to_regclass('dovetail.outbox_seq')");
  if (!rows) return fail(rows.error());
  if (rows->empty()) return {};
  if (rows->int8(0, 0) > 1)
    findings.add(Severity::error, "sequence-cache",
                 "the sequence dovetail.outbox_seq keeps " + std::to_string(rows->int8(0, 0)) +
                     " values for each session, so that a later event can get a lower number and "
                     "overtake",
                 "run ALTER SEQUENCE dovetail.outbox_seq CACHE 1");
  if (rows->int8(0, 1) < 1 || rows->boolean(0, 2))
    findings.add(Severity::error, "schema-drift",
                 "the sequence dovetail.outbox_seq counts downwards, or in circles",
                 "run ALTER SEQUENCE dovetail.outbox_seq INCREMENT 1 NO CYCLE");
  return {};
}

}  // namespace

Result<bool> examine_schema(Connection& connection, const DoctorOptions& options,
                            Findings& findings) {
  const Status schema = check_schema(connection);
  if (!schema) {
    if (!connection || schema.error().code == Errc::unavailable) return fail(schema.error());
    findings.add(Severity::error, "schema-version", "the schema dovetail cannot be used",
                 schema.error().text);
    return false;
  }
  const Result<Rows> missing = connection.query(kMissing);
  if (!missing) return fail(missing.error());
  for (std::size_t i = 0; i < missing->size(); ++i)
    findings.add(Severity::error, "schema-drift",
                 "the " + std::string(missing->text(i, 0)) + " dovetail." +
                     std::string(missing->text(i, 1)) + " is missing or not valid",
                 "compare with `dovetail init --print`; make it again as it is there");
  DOVETAIL_TRY(examine_sequence(connection, findings));
  // The rest asks the very things that are missing.
  if (!missing->empty()) return false;
  DOVETAIL_TRY(examine_rights(connection, findings));
  DOVETAIL_TRY(examine_partitions(connection, options, findings));
  for (const char* table : {"dovetail.outbox", "dovetail.reader", "dovetail.parked"}) {
    const Result<Rows> oid =
        connection.query("SELECT pg_catalog.to_regclass($1)::oid::int8", Params().text(table));
    if (!oid) return fail(oid.error());
    DOVETAIL_TRY(examine_vacuum(connection, oid->int8(0, 0), options, findings));
  }
  return true;
}

Status examine_backlog(Connection& connection, const DoctorOptions& options, Findings& findings) {
  DOVETAIL_TRY(examine_relays(connection, options, findings));
  return examine_parked(connection, findings);
}

}  // namespace dovetail::postgres
