// The schema dovetail: version, drift, and the relays that read its outbox.
#include "postgres/schema/schema.h"

#include "postgres/doctor/checks.h"

namespace dovetail::postgres {

namespace {

using F = const Facts&;

constexpr Check kNoTables{Severity::warning, "no-tables", nullptr,
                          "the database has no tables of dovetail yet", "run 'dovetail init'"};
constexpr Check kVersion{Severity::error, "schema-version", nullptr,
                         "the schema dovetail cannot be used", "{error}"};
constexpr Check kNewer{
    Severity::note, "schema-newer",
    [](F f) { return f.number("version") > f.number("known_version"); },
    "the schema has version {version}, this program knows {known_version} and can still use it",
    "upgrade this dovetail before the next schema version"};

// What is not as it was made; when a table or view is missing, nothing that belongs to it is named.
// Definitions are compared only as the same version of the server wrote them.
const std::string kDriftSql =
    R"(WITH drift AS (
         SELECT m.kind, m.name, n.name IS NULL AS is_missing
         FROM dovetail.schema_made AS m
         LEFT JOIN dovetail.schema_objects() AS n ON n.kind = m.kind AND n.name = m.name
         WHERE n.name IS NULL
            OR (n.definition <> m.definition AND m.server =
                  pg_catalog.current_setting('server_version_num')::int / 10000)),
       gone AS (SELECT name FROM drift WHERE is_missing AND kind <> 'right')
       SELECT kind, name, is_missing, false AS is_right FROM drift
       WHERE kind <> 'right' AND NOT (kind = 'column'
                  AND pg_catalog.split_part(name, '.', 1) IN (SELECT name FROM gone))
       UNION ALL
       SELECT 'right', r.name, true, true FROM ()" +
    rights_by_place("SELECT name FROM drift WHERE kind = 'right'") +
    R"() AS r WHERE NOT EXISTS (SELECT FROM gone)
       ORDER BY is_missing DESC, kind, name LIMIT 20)";
constexpr Check kDrift[] = {
    {Severity::error, "missing-right", [](F f) { return f.is("is_right"); },
     "the right {name} was revoked", "run 'dovetail init --roles' as the owner of the schema"},
    {Severity::error, "schema-drift", [](F f) { return !f.is("is_right") && f.is("is_missing"); },
     "the {kind} dovetail.{name} is missing", "create it again as in 'dovetail init --print-sql'"},
    {Severity::error, "schema-drift", [](F f) { return !f.is("is_right") && !f.is("is_missing"); },
     "the {kind} dovetail.{name} was changed", "create it again as in 'dovetail init --print-sql'"},
};

const Probe kOutboxSequence{
    R"(SELECT seqcache AS cached, seqincrement < 1 OR seqcycle AS is_turned
       FROM pg_catalog.pg_sequence
       WHERE seqrelid = pg_catalog.to_regclass('dovetail.outbox_seq'))",
    {{Severity::error, "sequence-cache", [](F f) { return f.number("cached") > 1; },
      "the sequence dovetail.outbox_seq caches {cached} values per session, so a later event can "
      "get a lower number and overtake",
      "run ALTER SEQUENCE dovetail.outbox_seq CACHE 1"},
     {Severity::error, "schema-drift", [](F f) { return f.is("is_turned"); },
      "the sequence dovetail.outbox_seq counts downwards or cycles",
      "run ALTER SEQUENCE dovetail.outbox_seq INCREMENT 1 NO CYCLE"}}};

// Tables of their own are counted anew, by their mappings; what is in a broker nobody knows here.
constexpr std::string_view kRelaysSql =
    R"(SELECT l.relay, sum(l.pending)::int8 AS pending, bool_and(l.held) AS is_served,
              (EXTRACT(epoch FROM max(l.lag)) * 1000000)::int8 AS lag,
              max(r.hold) AS hold, max(r.hold_by) AS hold_by, max(r.hold_reason) AS hold_reason
       FROM dovetail.lag l JOIN dovetail.relay_lane r ON r.relay = l.relay AND r.lane = l.lane
       WHERE r.source = 'outbox'
       GROUP BY l.relay ORDER BY l.relay)";
constexpr Check kNoRelay{Severity::note, "no-relay", nullptr,
                         "no relay has ever read dovetail.outbox", "start one with 'dovetail run'"};

// A mapped table's facts have no order of an operator.
bool is_held(F f) { return !f.text("hold").empty(); }

constexpr Check kLag[] = {
    {Severity::warning, "relay-held", [](F f) { return is_held(f); },
     "the relay \"{relay}\" is {hold} by {hold_by}: {hold_reason}; {pending} of its events are "
     "pending, and nothing that it has not passed is deleted",
     "'dovetail relay resume' lets it continue"},
    {[](F f) { return f.number("pending") > 0 ? Severity::error : Severity::warning; },
     "relay-not-running", [](F f) { return !f.is("is_served") && !is_held(f); },
     "the relay \"{relay}\" has lanes without a process; {pending} of its events are pending",
     "start a relay of that name, or delete its rows in dovetail.relay_lane if it is gone for "
     "good: "
     "it holds back the retention"},
    {Severity::warning, "backlog",
     [](F f) {
       return f.number("pending") > f.number("pending_max") ||
              f.number("lag") > f.number("lag_max");
     },
     "the relay \"{relay}\" has {pending} pending events{oldest}",
     "check the target and the log of the relay; if it is busy, more lanes and processes help"},
};

}  // namespace

std::string rights_by_place(const std::string& names) {
  return R"(SELECT pg_catalog.concat(pg_catalog.string_agg(g.privilege || g.columns, ', '
                     ORDER BY g.privilege), ' ON ', g.place, ' TO ', g.role) AS name
            FROM (SELECT p.part[1] AS privilege, p.part[2] AS place, p.part[4] AS role,
                         coalesce(' (' || pg_catalog.string_agg(p.part[3], ', '
                                    ORDER BY p.part[3]) || ')', '') AS columns
                  FROM (SELECT pg_catalog.regexp_match(n.name,
                          '^([A-Z]+) ON (FUNCTION .*|[^(]*[^( ])(?: \((.*)\))? TO (.*)$')
                        FROM ()" +
         names + R"() AS n) AS p (part)
                  GROUP BY 1, 2, 3) AS g
            GROUP BY g.place, g.role)";
}

void examine_lag(Facts relay, Findings& findings) {
  const bool is_known = relay.number("lag", -1) >= 0;
  relay.set("oldest", filled(is_known ? ", the oldest {lag:age} old" : "", relay));
  findings.check(kLag, relay);
}

Result<bool> examine_schema(Connection& connection, const Facts& known, Findings& findings) {
  const Result<std::int64_t> version = check_schema(connection);
  if (!version && version.error().code == Errc::rejected) {
    const Result<bool> there = has_tables(connection);
    if (there && !*there) {
      findings.add(kNoTables, {});
      return false;
    }
  }
  if (!version) {
    if (!connection || version.error().code == Errc::unavailable) return fail(version.error());
    findings.add(kVersion, Facts().set("error", version.error().text));
    return false;
  }
  findings.check({&kNewer, 1},
                 Facts().set("version", *version).set("known_version", kSchemaVersion));
  const auto drift = ask(connection, kDriftSql);
  if (!drift) return fail(drift.error());
  bool is_whole = true;  // what other checks ask for is there
  for (const Facts& one : *drift) {
    findings.check(kDrift, one);
    is_whole = is_whole && (one.is("is_right") || !one.is("is_missing"));
  }
  DOVETAIL_TRY(run(connection, {kOutboxSequence}, known, findings));
  return is_whole;
}

Status examine_relays(Connection& connection, const DoctorOptions& options, Findings& findings) {
  const auto relays = ask(connection, kRelaysSql, {}, facts_of(options));
  if (!relays) return fail(relays.error());
  if (relays->empty() && options.mapped.empty()) findings.add(kNoRelay, {});
  for (const Facts& relay : *relays) examine_lag(relay, findings);
  return {};
}

}  // namespace dovetail::postgres
