#include "postgres/schema/schema.h"

#include <array>

#include "postgres/doctor/checks.h"

namespace dovetail::postgres {

namespace {

// What is not as it was made; when a table or view is missing, nothing that belongs to it is named.
// Definitions are compared only as the same version of the server wrote them.
constexpr std::string_view kDrift =
    "WITH drift AS (SELECT m.kind, m.name, n.name IS NULL AS missing FROM dovetail.schema_made AS "
    "m "
    "LEFT JOIN dovetail.schema_objects() AS n ON n.kind = m.kind AND n.name = m.name WHERE n.name "
    "IS "
    "NULL OR (n.definition <> m.definition AND m.server = "
    "pg_catalog.current_setting('server_version_num')::int / 10000)), "
    "gone AS (SELECT name FROM drift WHERE missing AND kind <> 'right') "
    "SELECT kind, name, missing FROM drift WHERE NOT (kind = 'column' AND "
    "pg_catalog.split_part(name, '.', 1) IN (SELECT name FROM gone)) AND NOT (kind = 'right' AND "
    "EXISTS (SELECT FROM gone)) ORDER BY missing DESC, kind, name LIMIT 20";

// The end of the last partition that begins with the present, in microseconds from now; and rows in
// the default partition, about.
constexpr std::string_view kAhead =
    "WITH bounds AS (SELECT (regexp_match(pg_catalog.pg_get_expr(c.relpartbound, c.oid), 'TO "
    "\\(''([0-9a-f]{8})-([0-9a-f]{4})'))::text[] AS upto FROM pg_catalog.pg_inherits i JOIN "
    "pg_catalog.pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = "
    "'dovetail.outbox'::pg_catalog.regclass) SELECT coalesce(max((('x' || upto[1] || "
    "upto[2])::bit(48)::int8 * 1000 - (EXTRACT(epoch FROM pg_catalog.clock_timestamp()) * "
    "1000000)::int8)), 0)::int8, count(upto) FROM bounds";

// True: what other checks ask for is there.
Result<bool> examine_drift(Connection& connection, Findings& findings) {
  const Result<Rows> drift = connection.query(kDrift);
  if (!drift) return fail(drift.error());
  bool is_whole = true;
  for (std::size_t i = 0; i < drift->size(); ++i) {
    const std::string_view kind = drift->text(i, 0);
    const std::string name(drift->text(i, 1));
    const bool is_missing = drift->boolean(i, 2);
    if (kind == "right") {
      findings.add(Severity::error, "missing-right", "the right " + name + " was revoked",
                   "run `dovetail init --roles` as the owner of the schema");
      continue;
    }
    is_whole = is_whole && !is_missing;
    findings.add(Severity::error, "schema-drift",
                 "the " + std::string(kind) + " dovetail." + name +
                     (is_missing ? " is missing" : " was changed"),
                 "create it again as in `dovetail init --print-sql`");
  }
  return is_whole;
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
            ? std::string("the outbox has no partitions: all rows are in the default partition, "
                          "where old events are deleted one by one")
            : "the outbox has partitions for another " + shown(std::max(left, Duration{0})) +
                  " only; later events go to the default partition, where old events are deleted "
                  "one by one",
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
                     " events are parked and wait for an operator; with the events behind them " +
                     std::to_string(parked->int8(0, 1)),
                 "list them with `dovetail parked list`, then replay or discard them");
  if (parked->int8(0, 2) > 0)
    findings.add(Severity::error, "parked-without-head",
                 std::to_string(parked->int8(0, 2)) +
                     " parked events wait behind nothing: they were changed by hand",
                 "run SELECT dovetail.refresh_heads(relay, array_agg(aggregate_type), "
                 "array_agg(aggregate_id)) FROM dovetail.parked WHERE finished_at IS NULL GROUP BY "
                 "relay");
  return {};
}

// Tables of their own are counted anew, by their mappings; what is in a broker nobody knows here.
Status examine_relays(Connection& connection, const DoctorOptions& options, Findings& findings) {
  const Result<Rows> rows = connection.query(
      "SELECT l.relay, sum(l.pending)::int8, (EXTRACT(epoch FROM max(l.lag)) * 1000000)::int8, "
      "bool_and(l.held) FROM dovetail.lag l WHERE l.relay IN (SELECT r.relay FROM "
      "dovetail.relay_lane "
      "r "
      "WHERE r.source = 'outbox') GROUP BY l.relay ORDER BY l.relay");
  if (!rows) return fail(rows.error());
  if (rows->empty() && options.mapped.empty())
    findings.add(Severity::note, "no-relay", "no relay has ever read dovetail.outbox",
                 "start one with `dovetail run`");
  for (std::size_t i = 0; i < rows->size(); ++i)
    examine_lag(std::string(rows->text(i, 0)), rows->boolean(i, 3),
                static_cast<std::uint64_t>(rows->int8(i, 1)), Duration{rows->int8(i, 2)}, options,
                findings);
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
                 "the sequence dovetail.outbox_seq caches " + std::to_string(rows->int8(0, 0)) +
                     " values per session, so a later event can get a lower number and overtake",
                 "run ALTER SEQUENCE dovetail.outbox_seq CACHE 1");
  if (rows->int8(0, 1) < 1 || rows->boolean(0, 2))
    findings.add(Severity::error, "schema-drift",
                 "the sequence dovetail.outbox_seq counts downwards or cycles",
                 "run ALTER SEQUENCE dovetail.outbox_seq INCREMENT 1 NO CYCLE");
  return {};
}

}  // namespace

void examine_lag(const std::string& relay, bool is_served, std::uint64_t pending, Duration lag,
                 const DoctorOptions& options, Findings& findings) {
  const std::string named = "the relay \"" + relay + "\"";
  if (!is_served)
    findings.add(pending > 0 ? Severity::error : Severity::warning, "relay-not-running",
                 named + " has lanes without a process; " + std::to_string(pending) +
                     " of its events are pending",
                 "start a relay of that name, or delete its rows in dovetail.relay_lane if it is "
                 "gone for good: it holds back the retention");
  if (pending > options.pending_max || lag > options.lag_max)
    findings.add(Severity::warning, "backlog",
                 named + " has " + std::to_string(pending) + " pending events" +
                     (lag < Duration::zero() ? "" : ", the oldest " + shown(lag) + " old"),
                 "check the sink and the log of the relay; if it is busy, more lanes and processes "
                 "help");
}

Result<bool> examine_schema(Connection& connection, const DoctorOptions& options,
                            Findings& findings) {
  const Result<std::int64_t> version = check_schema(connection);
  if (!version && version.error().code == Errc::rejected) {
    const Result<bool> there = has_tables(connection);
    if (there && !*there) {
      findings.add(Severity::warning, "no-tables", "the database has no tables of dovetail yet",
                   "run 'dovetail init'");
      return false;
    }
  }
  if (!version) {
    if (!connection || version.error().code == Errc::unavailable) return fail(version.error());
    findings.add(Severity::error, "schema-version", "the schema dovetail cannot be used",
                 version.error().text);
    return false;
  }
  if (*version > kSchemaVersion)
    findings.add(Severity::note, "schema-newer",
                 "the schema has version " + std::to_string(*version) + ", this program knows " +
                     std::to_string(kSchemaVersion) + " and can still use it",
                 "upgrade this dovetail before the next schema version");
  const Result<bool> is_whole = examine_drift(connection, findings);
  if (!is_whole) return fail(is_whole.error());
  DOVETAIL_TRY(examine_sequence(connection, findings));
  if (!*is_whole) return false;
  DOVETAIL_TRY(examine_roles(connection, findings));
  DOVETAIL_TRY(examine_partitions(connection, options, findings));
  for (const char* table : {"dovetail.outbox", "dovetail.relay_lane", "dovetail.parked"}) {
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
