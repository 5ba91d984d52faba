// Who may do what: this user, the roles of dovetail, and those who work for consumers.
#include "postgres/doctor/checks.h"

namespace dovetail::postgres {

namespace {

using F = const Facts&;

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
    "pg_catalog.has_any_column_privilege('dovetail.relay_lane', 'INSERT') AND "
    "pg_catalog.has_any_column_privilege('dovetail.relay_lane', 'UPDATE')), "
    "('run relays', false, 'INSERT ON dovetail.receipt', "
    "pg_catalog.has_any_column_privilege('dovetail.receipt', 'INSERT')), "
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
    "SELECT ability, pg_catalog.bool_or(held AND mark) AS is_meant, "
    "pg_catalog.bool_and(held) AS may, "
    "coalesce(pg_catalog.string_agg(what, '; ') FILTER (WHERE NOT held), '') AS missing, "
    "current_user::text AS role "
    "FROM wanted GROUP BY ability ORDER BY ability";

// A user is meant for some of the work only: what it may do is said, and that it may not do the
// rest is no fault unless it holds a part of it.
constexpr Check kMissing{
    Severity::error, "missing-right", [](F f) { return f.is("is_meant") && !f.is("may"); },
    "this user should be able to {ability}, but lacks {missing}",
    "run 'dovetail init --roles' as the owner of the schema and grant this user the role for it, "
    "or grant it {missing}"};
constexpr Check kRightsOfUser{
    Severity::note, "rights", nullptr, "the user {role} may {may}; it may not {may_not}",
    "to allow more: GRANT dovetail_app, dovetail_worker, dovetail_relay or dovetail_operator TO "
    "it; the owner of the schema may do everything"};

// What the roles hold beyond that which `dovetail init --roles` gave. Where it was not run, nothing
// is known of them.
const std::string kExtraRightsSql =
    rights_by_place(R"(SELECT n.name FROM dovetail.schema_objects() AS n
       WHERE n.kind = 'right'
         AND NOT EXISTS (SELECT FROM dovetail.schema_made AS m
                         WHERE m.kind = 'right' AND m.name = n.name)
         AND EXISTS (SELECT FROM dovetail.schema_made AS m WHERE m.kind = 'right'))") +
    " ORDER BY name LIMIT 20";
const Probe kExtraRights{
    kExtraRightsSql,
    {{Severity::warning, "extra-right", nullptr,
      "the right {name} was granted manually, and every login with that role has it",
      "grant it to the login that needs it; 'dovetail init --roles' revokes it from the role"}}};

const Probe kIdleGrants{
    R"(SELECT w.role::text AS role, w.consumer, r.rolname IS NULL AS is_gone
       FROM dovetail.worker AS w LEFT JOIN pg_catalog.pg_roles AS r ON r.rolname = w.role
       WHERE r.oid IS NULL
          OR NOT pg_catalog.has_function_privilege(
                   r.oid, 'dovetail.complete(text, uuid, bigint)', 'EXECUTE')
       ORDER BY w.role, w.consumer LIMIT 20)",
    {{Severity::warning, "worker-grant", [](F f) { return f.is("is_gone"); },
      "the role {role} was granted the consumer \"{consumer}\", and there is no such role",
      "SELECT dovetail.revoke_worker('{role}', '{consumer}')"},
     {Severity::warning, "worker-grant", [](F f) { return !f.is("is_gone"); },
      "the role {role} was granted the consumer \"{consumer}\", and it has not the role "
      "dovetail_worker",
      "GRANT dovetail_worker TO {role}"}}};

}  // namespace

Status examine_rights(Connection& connection, Findings& findings) {
  const auto rights = ask(connection, kRights);
  if (!rights) return fail(rights.error());
  std::string may = "look";
  std::string may_not;
  for (const Facts& right : *rights) {
    findings.check({&kMissing, 1}, right);
    std::string& list = right.is("may") ? may : may_not;
    list += (list.empty() ? "" : ", ") + std::string(right.text("ability"));
  }
  if (may_not.empty()) return {};
  findings.add(
      kRightsOfUser,
      Facts().set("role", rights->front().text("role")).set("may", may).set("may_not", may_not));
  return {};
}

const Part& roles_part() {
  static const Part part{"the roles", {kExtraRights, kIdleGrants}};
  return part;
}

}  // namespace dovetail::postgres
