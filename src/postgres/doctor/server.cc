#include <algorithm>

#include "postgres/doctor/checks.h"

namespace dovetail::postgres {

namespace {

Status examine_settings(Connection& connection, Findings& findings) {
  const Result<Rows> rows = connection.query(
      "SELECT pg_catalog.pg_is_in_recovery(), pg_catalog.current_setting('fsync') = 'on', "
      "pg_catalog.current_setting('synchronous_commit') = 'off', "
      "pg_catalog.current_setting('autovacuum') = 'on', "
      "pg_catalog.current_setting('server_encoding')");
  if (!rows) return fail(rows.error());
  if (rows->boolean(0, 0))
    findings.add(Severity::error, "standby",
                 "the server is a standby: it shows commits in another order and accepts no writes",
                 "connect the relay to the primary, for example with "
                 "target_session_attrs=read-write");
  if (!rows->boolean(0, 1))
    findings.add(Severity::error, "fsync-off",
                 "fsync is off: a crash of the machine can lose or corrupt committed data",
                 "set fsync = on");
  if (rows->boolean(0, 2))
    findings.add(
        Severity::warning, "synchronous-commit-off",
        "synchronous_commit is off: a crash can lose the last commits, although a consumer "
        "may already have seen them",
        "set synchronous_commit = on for the application and the relay");
  if (!rows->boolean(0, 3))
    findings.add(
        Severity::error, "autovacuum-off",
        "autovacuum is off for the whole server: tables bloat, and finally the server stops "
        "to protect itself",
        "set autovacuum = on");
  if (rows->text(0, 4) != "UTF8")
    findings.add(Severity::warning, "encoding",
                 "the database is stored as " + std::string(rows->text(0, 4)) +
                     ", which cannot hold every text of an event",
                 "use a database with the encoding UTF8");
  return {};
}

Status examine_transactions(Connection& connection, const DoctorOptions& options,
                            Findings& findings) {
  const Result<Rows> open = connection.query(
      "SELECT pid, coalesce(usename::text, ''), coalesce(datname::text, ''), "
      "coalesce(application_name, ''), coalesce(state, ''), "
      "(EXTRACT(epoch FROM pg_catalog.clock_timestamp() - xact_start) * 1000000)::int8 "
      "FROM pg_catalog.pg_stat_activity WHERE backend_xid IS NOT NULL AND xact_start < "
      "pg_catalog.clock_timestamp() - $1::int8 * interval '1 microsecond' "
      "ORDER BY xact_start LIMIT 10",
      Params().int8(options.transaction_age_max.count()));
  if (!open) return fail(open.error());
  for (std::size_t i = 0; i < open->size(); ++i)
    findings.add(
        Severity::warning, "long-transaction",
        "a writing transaction is open for " + shown(Duration{open->int8(i, 5)}) + ": pid " +
            std::to_string(open->int4(i, 0)) + ", user " + std::string(open->text(i, 1)) +
            ", database " + std::string(open->text(i, 2)) + ", application \"" +
            std::string(open->text(i, 3)) + "\", " + std::string(open->text(i, 4)) +
            "; its events are not sent before it ends, and dead rows stay until then",
        "find out why it is open; as a last resort run SELECT pg_terminate_backend(" +
            std::to_string(open->int4(i, 0)) + "), and set idle_in_transaction_session_timeout");

  const Result<Rows> prepared = connection.query(
      "SELECT gid, owner::text, database::text, "
      "(EXTRACT(epoch FROM pg_catalog.clock_timestamp() - prepared) * 1000000)::int8 "
      "FROM pg_catalog.pg_prepared_xacts WHERE prepared < pg_catalog.clock_timestamp() - "
      "$1::int8 * interval '1 microsecond' ORDER BY prepared LIMIT 10",
      Params().int8(options.prepared_age_max.count()));
  if (!prepared) return fail(prepared.error());
  for (std::size_t i = 0; i < prepared->size(); ++i)
    findings.add(Severity::error, "prepared-transaction",
                 "the prepared transaction \"" + std::string(prepared->text(i, 0)) + "\" of " +
                     std::string(prepared->text(i, 1)) + " in database " +
                     std::string(prepared->text(i, 2)) + " waits for " +
                     shown(Duration{prepared->int8(i, 3)}) +
                     "; until it ends, its events are not sent and dead rows stay",
                 "check its transaction manager, then run COMMIT PREPARED or ROLLBACK PREPARED");

  const Result<Rows> sees =
      connection.query("SELECT pg_catalog.pg_has_role('pg_read_all_stats', 'USAGE')");
  if (!sees) return fail(sees.error());
  if (!sees->boolean(0, 0))
    findings.add(Severity::note, "sees-own-sessions-only",
                 "this role sees only the transactions of its own sessions",
                 "run the doctor as a member of pg_read_all_stats or pg_monitor");
  return {};
}

// A function or an operator that somebody puts there can be a better match for ours than what the
// server has, and then runs with the rights of the relay or the operator.
Status examine_search_path(Connection& connection, Findings& findings) {
  const Result<Rows> open = connection.query(
      "SELECT n.nspname::text FROM pg_catalog.pg_namespace AS n, "
      "pg_catalog.aclexplode(n.nspacl) AS a WHERE n.nspname = ANY "
      "(pg_catalog.current_schemas(false)) AND a.grantee = 0 AND a.privilege_type = 'CREATE' ORDER "
      "BY 1");
  if (!open) return fail(open.error());
  for (std::size_t i = 0; i < open->size(); ++i) {
    const std::string name(open->text(i, 0));
    findings.add(Severity::warning, "open-schema",
                 "everybody may create functions in the schema \"" + name +
                     "\", which is in this user's search_path",
                 "run REVOKE CREATE ON SCHEMA \"" + name + "\" FROM PUBLIC");
  }
  return {};
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
  if (skew > options.clock_skew_max)
    findings.add(Severity::warning, "clock-skew",
                 "the clocks of this machine and of the server differ by " + shown(skew) +
                     "; order and leases do not depend on them, but ages and delivery times do",
                 "synchronise both by NTP");
  return {};
}

}  // namespace

std::string shown(Duration duration) {
  const auto count = [](std::int64_t value, const char* unit) {
    return std::to_string(value) + " " + unit + (value == 1 ? "" : "s");
  };
  const std::int64_t seconds = std::chrono::duration_cast<std::chrono::seconds>(duration).count();
  if (seconds < 1) return count(duration.count() / 1000, "millisecond");
  if (seconds < 120) return count(seconds, "second");
  if (seconds < 7200) return count(seconds / 60, "minute");
  if (seconds < 172'800) return count(seconds / 3600, "hour");
  return count(seconds / 86'400, "day");
}

Status examine_server(Connection& connection, const DoctorOptions& options, Clock& clock,
                      Findings& findings) {
  DOVETAIL_TRY(examine_settings(connection, findings));
  DOVETAIL_TRY(examine_transactions(connection, options, findings));
  DOVETAIL_TRY(examine_search_path(connection, findings));
  return examine_clock(connection, options, clock, findings);
}

Status examine_vacuum(Connection& connection, std::int64_t oid, const DoctorOptions& options,
                      Findings& findings) {
  const Result<Rows> rows = connection.query(
      "SELECT c.oid::regclass::text, 'autovacuum_enabled=false' = ANY (c.reloptions) OR "
      "'autovacuum_enabled=off' = ANY (c.reloptions), "
      "coalesce(pg_catalog.pg_stat_get_dead_tuples(c.oid), 0), "
      "coalesce(pg_catalog.pg_stat_get_live_tuples(c.oid), 0) FROM pg_catalog.pg_class c WHERE "
      "c.oid = $1::int8::oid OR c.oid IN (SELECT inhrelid FROM pg_catalog.pg_inherits WHERE "
      "inhparent = $1::int8::oid) ORDER BY 1",
      Params().int8(oid));
  if (!rows) return fail(rows.error());
  for (std::size_t i = 0; i < rows->size(); ++i) {
    const std::string table(rows->text(i, 0));
    if (!rows->is_null(i, 1) && rows->boolean(i, 1))
      findings.add(Severity::warning, "autovacuum-off", "autovacuum is off for " + table,
                   "run ALTER TABLE " + table + " RESET (autovacuum_enabled)");
    const auto dead = static_cast<std::uint64_t>(rows->int8(i, 2));
    const auto live = static_cast<std::uint64_t>(rows->int8(i, 3));
    if (dead > options.dead_rows_max && dead > live / 5)
      findings.add(Severity::warning, "dead-rows",
                   table + " has " + std::to_string(dead) + " dead rows and " +
                       std::to_string(live) + " live rows, so every read is slower",
                   "run VACUUM " + table +
                       ", and check for old open transactions and replication slots that block it");
  }
  return {};
}

}  // namespace dovetail::postgres
