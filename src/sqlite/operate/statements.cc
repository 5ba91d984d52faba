#include "sqlite/operate/statements.h"

#include "sqlite/lane/statements.h"

namespace dovetail::sqlite {

namespace {

// The consumer $1 and its handlers.
constexpr std::string_view kOfConsumer =
    "(c.name = $1 OR substr(c.name, 1, length($1) + 1) = $1 || '.')";

std::string select_audit(const std::string& which) {
  return "SELECT number, at, who, what, relay, subject, events, reason FROM dovetail_audit WHERE " +
         which +
         "number < CASE $2 WHEN 0 THEN 9223372036854775807 ELSE $2 END AND ($3 = '' OR what = $3) "
         "AND ($4 = '' OR who = $4 OR instr(reason, $5) = 1) ORDER BY number DESC LIMIT $1";
}

// The same question to the outbox or the mailbox: what the relay reads.
std::string of_box(const std::string& select, const std::string& where = "") {
  return "SELECT CASE r.source WHEN 'mailbox' THEN (" + select + "dovetail_mailbox" + where +
         ") ELSE (" + select + "dovetail_outbox" + where +
         ") END FROM dovetail_relay AS r WHERE r.relay = $1";
}

}  // namespace

const AuditStatements& audit_statements() {
  static const AuditStatements statements = {
      .add =
          "INSERT INTO dovetail_audit (at, who, what, relay, subject, events, reason) VALUES "
          "(:now, :user, $1, $2, $3, $4, $5)",
      .list = select_audit(""),
      .list_of_subject = select_audit("subject = $6 AND ")};
  return statements;
}

const ParkedActionStatements& parked_action_statements() {
  static const ParkedActionStatements statements = {
      .list =
          "SELECT number, relay, id, position, state, at_head, attempts, reason, note, topic, "
          "aggregate_type, aggregate_id, type, length(payload), parked_at, retry_at, finished_at "
          "FROM dovetail_parked WHERE ($1 = '' OR relay = $1) AND ($2 = '' OR aggregate_id = $2) "
          "AND ($3 = '' OR aggregate_type = $3) AND ($4 = '' OR type = $4) AND "
          "($5 = '' OR instr(reason, $5) > 0) AND number > $6",
      .list_of_event = " AND id = $8 AND " + std::string(kOfAnyRelay),
      // The index on unfinished rows finds them: history may be long.
      .list_unfinished =
          " AND finished_at = 0 AND number IN (SELECT number FROM dovetail_parked WHERE "
          "finished_at = 0)",
      .list_heads = " AND at_head = 1",
      .list_end = " ORDER BY number LIMIT $7",
      .find =
          "SELECT relay, state, at_head, finished_at > 0, aggregate_type, aggregate_id FROM "
          "dovetail_parked WHERE id = $1 AND ($2 = '' OR relay = $2) AND " +
          std::string(kOfAnyRelay) + " ORDER BY finished_at > 0, relay",
      .head_of =
          "SELECT id FROM dovetail_parked INDEXED BY dovetail_parked_head WHERE relay = $1 AND "
          "aggregate_type = $2 AND aggregate_id = $3 AND at_head = 1",
      .replay =
          "UPDATE dovetail_parked SET state = 'waiting', attempts = 0, retry_at = :now, note = "
          "'replay asked for' WHERE id = $2 AND at_head = 1 AND ($1 = '' OR relay = $1)",
      .discard =
          "UPDATE dovetail_parked SET state = 'discarded', at_head = 0, finished_at = :now, note "
          "= $3 WHERE id = $2 AND at_head = 1 AND relay = $1",
      .note_edit =
          "INSERT INTO dovetail_audit (at, who, what, relay, subject, events, reason) SELECT :now, "
          ":user, 'edit', '', $1, 1, $3 || '; as ' || $2 WHERE NOT EXISTS (SELECT 1 FROM "
          "dovetail_audit WHERE what = 'edit' AND subject = $1 AND reason LIKE '%; as ' || $2)",
      .heads = parking_statements().heads,
      .audit = audit_statements()};
  return statements;
}

const RetargetStatements& retarget_statements() {
  static const RetargetStatements statements = {
      .find =
          "SELECT target, owner <> '' AND lease_boot = :boot AND lease_expires > :boot_time FROM "
          "dovetail_relay WHERE relay = $1",
      .write = "UPDATE dovetail_relay SET target = $2 WHERE relay = $1",
      .audit = audit_statements()};
  return statements;
}

const RelayControlStatements& relay_control_statements() {
  static const RelayControlStatements statements = {
      .find =
          "SELECT hold, owner <> '' AND lease_boot = :boot AND lease_expires > :boot_time, "
          "passed_seq FROM dovetail_relay WHERE relay = $1",
      .hold =
          "UPDATE dovetail_relay SET hold = $2, hold_since = CASE $2 WHEN '' THEN 0 ELSE :now END, "
          "hold_by = CASE $2 WHEN '' THEN '' ELSE :user END, hold_reason = CASE $2 WHEN '' THEN '' "
          "ELSE $3 END WHERE relay = $1",
      .last = of_box("SELECT coalesce(max(seq), 0) FROM "),
      .before = of_box("SELECT min(seq) - 1 FROM ", " WHERE created_at >= $2"),
      .count = of_box("SELECT count(*) FROM ",
                      " WHERE seq > $2 AND seq <= $3 AND (r.topics = '' OR instr(r.topics, "
                      "char(10) || topic || char(10)))"),
      .count_discarded =
          "SELECT count(*) FROM dovetail_parked WHERE relay = $1 AND state = 'discarded' AND "
          "position > $2",
      .move =
          "UPDATE dovetail_relay SET passed_seq = $2, owner = '', lease_expires = 0, epoch = epoch "
          "+ 1, skipped_total = skipped_total + $3, hold = $4, hold_since = CASE $4 WHEN '' THEN 0 "
          "ELSE hold_since END, hold_by = CASE $4 WHEN '' THEN '' ELSE hold_by END, hold_reason = "
          "CASE $4 WHEN '' THEN '' ELSE hold_reason END WHERE relay = $1",
      .cut_skips = "UPDATE dovetail_relay_skip SET to_seq = min(to_seq, $2) WHERE relay = $1",
      .add_skip = "INSERT INTO dovetail_relay_skip (relay, from_seq, to_seq) VALUES ($1, $2, $3)",
      .names =
          "SELECT EXISTS (SELECT 1 FROM dovetail_relay WHERE relay = $2) OR EXISTS (SELECT 1 FROM "
          "dovetail_parked WHERE relay = $2), EXISTS (SELECT 1 FROM dovetail_consumer WHERE name = "
          "$1)",
      .rename = {"UPDATE dovetail_relay SET relay = $2, epoch = epoch + 1 WHERE relay = $1",
                 "UPDATE dovetail_relay_skip SET relay = $2 WHERE relay = $1",
                 "UPDATE dovetail_parked SET relay = $2 WHERE relay = $1",
                 "DELETE FROM dovetail_relay_state WHERE relay = $1"},
      .has_parked =
          "SELECT EXISTS (SELECT 1 FROM dovetail_parked WHERE relay = $1 AND finished_at = 0)",
      .forget = {"DELETE FROM dovetail_relay WHERE relay = $1",
                 "DELETE FROM dovetail_relay_skip WHERE relay = $1",
                 "DELETE FROM dovetail_relay_state WHERE relay = $1"},
      .audit = audit_statements()};
  return statements;
}

const InboxActionStatements& inbox_action_statements() {
  static const InboxActionStatements statements = {
      .known = "SELECT 1 FROM dovetail_consumer AS c WHERE " + std::string(kOfConsumer),
      .allow =
          "INSERT INTO dovetail_unapplied (consumer_id, event_id, since, by_operator) SELECT c.id, "
          "$2, :now, 1 FROM dovetail_consumer AS c WHERE " +
          std::string(kOfConsumer) +
          " AND NOT EXISTS (SELECT 1 FROM dovetail_inbox AS i WHERE i.consumer_id = c.id AND "
          "i.event_id = $2) ON CONFLICT (consumer_id, event_id) DO UPDATE SET by_operator = 1, "
          "since = :now",
      .forgotten_until = "SELECT coalesce(max(forgotten_until), 0) FROM dovetail_consumer",
      .remember = "UPDATE dovetail_consumer SET forgotten_until = $1 WHERE forgotten_until > $1",
      .audit = audit_statements()};
  return statements;
}

}  // namespace dovetail::sqlite
