// Who may do what: this user, the roles of dovetail, and those who work for consumers.
#include "postgres/doctor/checks.h"

namespace dovetail::postgres {

namespace {

// What a user must hold to publish, to run relays and to operate. `mark`: nobody else holds this
// right, so that who has it is meant for the work.
constexpr std::string_view kRights =
    "WITH wanted (ability, mark, what, held) AS (VALUES "
    "('publish', false, 'USAGE ON SCHEMA dovetail', "
    "pg_catalog.has_schema_privilege('dovetail', 'USAGE')), "
    "('publish', true, 'EXECUTE ON every FUNCTION dovetail.publish', (SELECT "
    "pg_catalog.bool_and(pg_catalog.has_function_privilege(p.oid, 'EXECUTE')) FROM "
    "pg_catalog.pg_proc AS p WHERE p.proname = 'publish' AND p.pronamespace = "
    "pg_catalog.to_regnamespace('dovetail'))), "
    "('run relays', false, 'SELECT ON dovetail.outbox', "
    "pg_catalog.has_table_privilege('dovetail.outbox', 'SELECT')), "
    "('run relays', false, 'SELECT ON SEQUENCE dovetail.outbox_seq', "
    "pg_catalog.has_sequence_privilege('dovetail.outbox_seq', 'SELECT')), "
    "('run relays', true, 'SELECT, INSERT, UPDATE, DELETE ON dovetail.relay_process', "
    "pg_catalog.has_table_privilege('dovetail.relay_process', 'INSERT') AND "
    "pg_catalog.has_table_privilege('dovetail.relay_process', 'DELETE')), "
    "('run relays', false, 'SELECT, INSERT, UPDATE ON dovetail.relay_lane', "
    "pg_catalog.has_table_privilege('dovetail.relay_lane', 'SELECT') AND "
    "pg_catalog.has_table_privilege('dovetail.relay_lane', 'INSERT') AND "
    "pg_catalog.has_table_privilege('dovetail.relay_lane', 'UPDATE')), "
    "('run relays', false, 'SELECT, INSERT, UPDATE ON dovetail.parked', "
    "pg_catalog.has_table_privilege('dovetail.parked', 'SELECT') AND "
    "pg_catalog.has_any_column_privilege('dovetail.parked', 'INSERT') AND "
    "pg_catalog.has_any_column_privilege('dovetail.parked', 'UPDATE')), "
    "('take events and requests', true, 'EXECUTE ON FUNCTION dovetail.complete', "
    "pg_catalog.has_function_privilege('dovetail.complete(text, uuid, bigint)', 'EXECUTE')), "
    "('take events and requests', false, 'EXECUTE ON FUNCTION dovetail.receive', "
    "pg_catalog.has_function_privilege('dovetail.receive(text, int, interval, int)', 'EXECUTE')), "
    "('replay and discard', true, 'EXECUTE ON every FUNCTION of a decision', (SELECT "
    "pg_catalog.bool_and(pg_catalog.has_function_privilege(p.oid, 'EXECUTE')) FROM "
    "pg_catalog.pg_proc AS p WHERE p.proname IN ('replay_parked', 'discard_parked', 'replay', "
    "'discard') AND p.pronamespace = pg_catalog.to_regnamespace('dovetail'))), "
    "('replay and discard', false, 'SELECT ON dovetail.parked', "
    "pg_catalog.has_table_privilege('dovetail.parked', 'SELECT')), "
    "('prune and migrate', true, 'the ownership of SCHEMA dovetail', (SELECT "
    "pg_catalog.pg_has_role(n.nspowner, 'USAGE') FROM pg_catalog.pg_namespace AS n WHERE "
    "n.nspname = 'dovetail'))) "
    "SELECT ability, pg_catalog.bool_or(held AND mark), pg_catalog.bool_and(held), "
    "coalesce(pg_catalog.string_agg(what, '; ') FILTER (WHERE NOT held), ''), current_user::text "
    "FROM wanted GROUP BY ability ORDER BY ability";

// What the roles hold beyond that which `dovetail init --roles` gave. Where it was not run, nothing
// is known of them.
constexpr std::string_view kExtraRights =
    "SELECT n.name FROM dovetail.schema_objects() AS n WHERE n.kind = 'right' AND NOT EXISTS "
    "(SELECT FROM dovetail.schema_made AS m WHERE m.kind = 'right' AND m.name = n.name) AND EXISTS "
    "(SELECT FROM dovetail.schema_made AS m WHERE m.kind = 'right') ORDER BY n.name LIMIT 20";

// Grants of dovetail.grant_worker() that give no right.
constexpr std::string_view kIdleGrants =
    "SELECT w.role::text, w.consumer, r.rolname IS NULL FROM dovetail.worker AS w LEFT JOIN "
    "pg_catalog.pg_roles AS r ON r.rolname = w.role WHERE r.oid IS NULL OR NOT "
    "pg_catalog.has_function_privilege(r.oid, 'dovetail.complete(text, uuid, bigint)', 'EXECUTE') "
    "ORDER BY w.role, w.consumer LIMIT 20";

void list(std::string& text, std::string_view item) {
  text += (text.empty() ? "" : ", ") + std::string(item);
}

// A user is meant for some of the work only: what it may do is said, and that it may not do the
// rest is no fault unless it holds a part of it.
Status examine_rights(Connection& connection, Findings& findings) {
  const Result<Rows> rights = connection.query(kRights);
  if (!rights) return fail(rights.error());
  std::string may;
  std::string may_not;
  for (std::size_t i = 0; i < rights->size(); ++i) {
    list(rights->boolean(i, 2) ? may : may_not, rights->text(i, 0));
    if (!rights->boolean(i, 1) || rights->boolean(i, 2)) continue;
    const std::string missing(rights->text(i, 3));
    findings.add(
        Severity::error, "missing-right",
        "this user should be able to " + std::string(rights->text(i, 0)) + ", but lacks " + missing,
        "run `dovetail init --roles` as the owner of the schema and grant this user the "
        "role for it, or grant it " +
            missing);
  }
  if (may_not.empty()) return {};
  findings.add(Severity::note, "rights",
               "the user " + std::string(rights->text(0, 4)) + " may " +
                   (may.empty() ? "look" : "look, " + may) + "; it may not " + may_not,
               "to allow more: GRANT dovetail_app, dovetail_worker, dovetail_relay or "
               "dovetail_operator TO it; the owner of the schema may do everything");
  return {};
}

Status examine_extra_rights(Connection& connection, Findings& findings) {
  const Result<Rows> extra = connection.query(kExtraRights);
  if (!extra) return fail(extra.error());
  for (std::size_t i = 0; i < extra->size(); ++i)
    findings.add(Severity::warning, "extra-right",
                 "the right " + std::string(extra->text(i, 0)) +
                     " was granted manually, and every login with that role has it",
                 "grant it to the login that needs it; `dovetail init --roles` revokes it from "
                 "the role");
  return {};
}

Status examine_workers(Connection& connection, Findings& findings) {
  const Result<Rows> idle = connection.query(kIdleGrants);
  if (!idle) return fail(idle.error());
  for (std::size_t i = 0; i < idle->size(); ++i) {
    const std::string role(idle->text(i, 0));
    const std::string consumer(idle->text(i, 1));
    const bool is_gone = idle->boolean(i, 2);
    findings.add(Severity::warning, "worker-grant",
                 "the role " + role + " was granted the consumer \"" + consumer + "\", and " +
                     (is_gone ? "there is no such role" : "it has not the role dovetail_worker"),
                 is_gone ? "SELECT dovetail.revoke_worker('" + role + "', '" + consumer + "')"
                         : "GRANT dovetail_worker TO " + role);
  }
  return {};
}

}  // namespace

Status examine_roles(Connection& connection, Findings& findings) {
  DOVETAIL_TRY(examine_rights(connection, findings));
  DOVETAIL_TRY(examine_extra_rights(connection, findings));
  return examine_workers(connection, findings);
}

}  // namespace dovetail::postgres
