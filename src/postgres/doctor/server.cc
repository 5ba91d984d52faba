// The server: settings, open and prepared transactions, open schemas, dead rows.
#include "postgres/doctor/checks.h"

namespace dovetail::postgres {

namespace {

using F = const Facts&;

constexpr Check kClockSkew{
    Severity::warning, "clock-skew", nullptr,
    "the clocks of this machine and of the server differ by {skew:age}; order and leases do not "
    "depend on them, but ages and delivery times do",
    "synchronise both by NTP"};

const Probe kServerSettings{
    R"(SELECT pg_catalog.pg_is_in_recovery() AS is_standby,
              pg_catalog.current_setting('fsync') AS fsync,
              pg_catalog.current_setting('synchronous_commit') AS synchronous_commit,
              pg_catalog.current_setting('autovacuum') AS autovacuum,
              pg_catalog.current_setting('server_encoding') AS encoding)",
    {{Severity::error, "standby", [](F f) { return f.is("is_standby"); },
      "the server is a standby: it shows commits in another order and accepts no writes",
      "connect the relay to the primary, for example with target_session_attrs=read-write"},
     {Severity::error, "fsync-off", [](F f) { return !f.is("fsync", "on"); },
      "fsync is off: a crash of the machine can lose or corrupt committed data", "set fsync = on"},
     {Severity::warning, "synchronous-commit-off",
      [](F f) { return f.is("synchronous_commit", "off"); },
      "synchronous_commit is off: a crash can lose the last commits, although a consumer may "
      "already have seen them",
      "set synchronous_commit = on for the application and the relay"},
     {Severity::error, "autovacuum-off", [](F f) { return !f.is("autovacuum", "on"); },
      "autovacuum is off for the whole server: tables bloat, and finally the server stops to "
      "protect itself",
      "set autovacuum = on"},
     {Severity::warning, "encoding", [](F f) { return !f.is("encoding", "UTF8"); },
      "the database is stored as {encoding}, which cannot hold every text of an event",
      "use a database with the encoding UTF8"}}};

const Probe kOpenTransactions{
    R"(SELECT pid, coalesce(usename::text, '') AS role, coalesce(datname::text, '') AS database,
              coalesce(application_name, '') AS application, coalesce(state, '') AS state,
              (EXTRACT(epoch FROM pg_catalog.clock_timestamp() - xact_start) * 1000000)::int8 AS age
       FROM pg_catalog.pg_stat_activity
       WHERE backend_xid IS NOT NULL
         AND xact_start < pg_catalog.clock_timestamp() - $1::int8 * interval '1 microsecond'
       ORDER BY xact_start LIMIT 10)",
    {{Severity::warning, "long-transaction", nullptr,
      "a writing transaction is open for {age:age}: pid {pid}, user {role}, database {database}, "
      "application \"{application}\", {state}; its events are not sent before it ends, and dead "
      "rows stay until then",
      "find out why it is open; as a last resort run SELECT pg_terminate_backend({pid}), and set "
      "idle_in_transaction_session_timeout"}},
    "transaction_age_max"};

const Probe kPreparedTransactions{
    R"(SELECT gid, owner::text AS role, database::text AS database,
              (EXTRACT(epoch FROM pg_catalog.clock_timestamp() - prepared) * 1000000)::int8 AS age
       FROM pg_catalog.pg_prepared_xacts
       WHERE prepared < pg_catalog.clock_timestamp() - $1::int8 * interval '1 microsecond'
       ORDER BY prepared LIMIT 10)",
    {{Severity::error, "prepared-transaction", nullptr,
      "the prepared transaction \"{gid}\" of {role} in database {database} waits for {age:age}; "
      "until it ends, its events are not sent and dead rows stay",
      "check its transaction manager, then run COMMIT PREPARED or ROLLBACK PREPARED"}},
    "prepared_age_max"};

const Probe kOwnSessionsOnly{
    "SELECT 1 WHERE NOT pg_catalog.pg_has_role('pg_read_all_stats', 'USAGE')",
    {{Severity::note, "sees-own-sessions-only", nullptr,
      "this role sees only the transactions of its own sessions",
      "run the doctor as a member of pg_read_all_stats or pg_monitor"}}};

// A function or an operator that somebody puts there can be a better match for ours than what the
// server has, and then runs with the rights of the relay or the operator.
const Probe kOpenSchemas{
    R"(SELECT n.nspname::text AS schema
       FROM pg_catalog.pg_namespace AS n, pg_catalog.aclexplode(n.nspacl) AS a
       WHERE n.nspname = ANY (pg_catalog.current_schemas(false)) AND a.grantee = 0
         AND a.privilege_type = 'CREATE'
       ORDER BY 1)",
    {{Severity::warning, "open-schema", nullptr,
      "everybody may create functions in the schema \"{schema}\", which is in this user's "
      "search_path",
      "run REVOKE CREATE ON SCHEMA \"{schema}\" FROM PUBLIC"}}};

}  // namespace

const Part& server_part() {
  static const Part part{
      "the server",
      {kServerSettings, kOpenTransactions, kPreparedTransactions, kOwnSessionsOnly, kOpenSchemas}};
  return part;
}

const Probe& vacuum_probe() {
  static const Probe probe{
      R"(SELECT c.oid::regclass::text AS table,
                coalesce('autovacuum_enabled=false' = ANY (c.reloptions)
                         OR 'autovacuum_enabled=off' = ANY (c.reloptions), false) AS is_off,
                coalesce(pg_catalog.pg_stat_get_dead_tuples(c.oid), 0) AS dead,
                coalesce(pg_catalog.pg_stat_get_live_tuples(c.oid), 0) AS live
         FROM pg_catalog.pg_class c
         WHERE c.oid = $1::int8::oid
            OR c.oid IN (SELECT inhrelid FROM pg_catalog.pg_inherits
                         WHERE inhparent = $1::int8::oid)
         ORDER BY 1)",
      {{Severity::warning, "autovacuum-off", [](F f) { return f.is("is_off"); },
        "autovacuum is off for {table}", "run ALTER TABLE {table} RESET (autovacuum_enabled)"},
       {Severity::warning, "dead-rows",
        [](F f) {
          return f.number("dead") > f.number("dead_rows_max") &&
                 f.number("dead") > f.number("live") / 5;
        },
        "{table} has {dead} dead rows and {live} live rows, so every read is slower",
        "run VACUUM {table}, and check for old open transactions and replication slots that block "
        "it"}},
      "oid"};
  return probe;
}

Status examine_clock(Connection& connection, const DoctorOptions& options, Clock& clock,
                     Findings& findings) {
  const WallTime before = clock.wall();
  const Result<Rows> rows = connection.query("SELECT pg_catalog.clock_timestamp()");
  if (!rows) return fail(rows.error());
  const WallTime after = clock.wall();
  const WallTime there = rows->timestamptz(0, 0);
  // What lies within the round trip proves nothing.
  Duration skew{0};
  if (there < before) skew = before - there;
  if (there > after) skew = there - after;
  if (skew > options.clock_skew_max) findings.add(kClockSkew, Facts().set("skew", skew));
  return {};
}

}  // namespace dovetail::postgres
