#include "postgres/operate/statements.h"

namespace dovetail::postgres {

namespace {

std::string select_audit(const std::string& which) {
  return "SELECT number, at, who, what, relay, subject, events, reason FROM dovetail.audit WHERE " +
         which +
         "($2 = 0 OR number < $2) AND ($3 = '' OR what = $3) AND ($4 = '' OR who = $4 OR "
         "pg_catalog.starts_with(reason, $5)) ORDER BY number DESC LIMIT $1";
}

}  // namespace

const AuditStatements& audit_statements() {
  static const AuditStatements statements = {
      .add = "", .list = select_audit(""), .list_of_subject = select_audit("subject = $6 AND ")};
  return statements;
}

const ParkedActionStatements& parked_action_statements() {
  static const ParkedActionStatements statements = {
      .list =
          "SELECT number, relay, id, position, state, at_head, attempts, reason, note, topic, "
          "aggregate_type, aggregate_id, type, bytes, parked_at, retry_at, coalesce(finished_at, "
          "'epoch') FROM (SELECT number, relay, id, position, state, at_head, attempts, reason, "
          "note, topic, aggregate_type, aggregate_id, type, octet_length(payload) AS bytes, "
          "parked_at, retry_at, finished_at FROM dovetail.parked UNION ALL SELECT number, "
          "consumer, id, position, 'parked', true, attempts, reason, '', topic, aggregate_type, "
          "aggregate_id, type, payload_bytes, parked_at, parked_at, NULL FROM "
          "dovetail.queue_parked) AS p WHERE ($1 = '' OR p.relay = $1) AND ($2 = '' OR "
          "p.aggregate_id = $2) AND ($3 = '' OR p.aggregate_type = $3) AND ($4 = '' OR p.type = "
          "$4) AND ($5 = '' OR pg_catalog.strpos(p.reason, $5) > 0) AND number > $6",
      .list_of_event = " AND id = $8 AND " + std::string(kOfAnyRelay),
      .list_unfinished = " AND finished_at IS NULL",
      .list_heads = " AND at_head",
      .list_end = " ORDER BY number LIMIT $7",
      .find =
          "SELECT relay, state, at_head, is_finished, aggregate_type, aggregate_id FROM (SELECT "
          "consumer AS relay, 'parked' AS state, true AS at_head, false AS is_finished, "
          "aggregate_type, aggregate_id, 0 AS place FROM dovetail.queue_parked WHERE id = $1 UNION "
          "ALL SELECT relay, state, at_head, finished_at IS NOT NULL, aggregate_type, "
          "aggregate_id, 1 FROM dovetail.parked WHERE id = $1) AS p WHERE ($2 = '' OR relay = $2) "
          "AND " +
          std::string(kOfAnyRelay) + " ORDER BY is_finished, place, relay",
      .head_of =
          "SELECT id FROM dovetail.parked WHERE relay = $1 AND aggregate_type = $2 AND "
          "aggregate_id = $3 AND at_head",
      .replay = "SELECT dovetail.replay_parked($1, $2, '', '', '', '', $3)",
      .discard = "SELECT dovetail.discard_parked($1, $2, '', '', '', '', true, false, $3)",
      .note_edit = "SELECT dovetail.note_edit($1::uuid, $2::uuid, $3)",
      .heads = {},
      .audit = audit_statements()};
  return statements;
}

}  // namespace dovetail::postgres
