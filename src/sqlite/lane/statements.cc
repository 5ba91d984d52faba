#include "sqlite/lane/statements.h"

namespace dovetail::sqlite {

namespace {

const std::string kSign = "epoch || ' ' || lease_expires || ' ' || lease_boot";
const std::string kIsHeld = "(lease_boot = :boot AND lease_expires > :boot_time)";

const std::string kOfKey = " WHERE relay = $1 AND aggregate_type = $2 AND aggregate_id = $3 AND ";
const std::string kWithHeads = " FROM dovetail_parked INDEXED BY dovetail_parked_head";
const std::string kWithKeys = " FROM dovetail_parked INDEXED BY dovetail_parked_key";

// Waiting heads of the relay $1, at most $4.
std::string heads_that(const std::string& are) {
  return "SELECT * FROM (SELECT number, aggregate_type, aggregate_id, length(payload) FROM "
         "dovetail_parked INDEXED BY dovetail_parked_due WHERE relay = $1 AND at_head = 1 AND "
         "state = 'waiting' AND " +
         are + " ORDER BY retry_at LIMIT $4)";
}

ParkingStatements make_parking() {
  ParkingStatements sql;
  sql.blocked_keys = "SELECT aggregate_type, aggregate_id" + kWithHeads +
                     " WHERE relay = $1 AND at_head = 1 AND aggregate_id <> '' LIMIT $4";
  sql.is_blocked = "SELECT 1" + kWithHeads + kOfKey + "at_head = 1";
  sql.find =
      "SELECT state, position, payload <> $3 OR type <> $4 OR aggregate_type <> $5 OR "
      "aggregate_id <> $6, 0 FROM dovetail_parked WHERE relay = $1 AND id = $2";
  sql.add =
      "INSERT INTO dovetail_parked (relay, id, position, topic, aggregate_type, aggregate_id, "
      "type, content_type, headers, payload, aggregate_version, created_at, state, attempts, "
      "reason, parked_at, retry_at, at_head) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, "
      "$11, $12, $13, $14, $15, :now, :now + $16, $6 = '') ON CONFLICT (relay, id) DO NOTHING";
  sql.change =
      "UPDATE dovetail_parked SET position = $3, topic = $4, aggregate_type = $5, aggregate_id = "
      "$6, type = $7, content_type = $8, headers = $9, payload = $10, aggregate_version = $11, "
      "created_at = $12, state = $13, attempts = $14, reason = $15, retry_at = :now + $16, "
      "finished_at = 0, at_head = at_head OR $6 = '', note = CASE WHEN $17 THEN '' ELSE note END, "
      "parked_at = CASE WHEN $17 THEN :now ELSE parked_at END WHERE relay = $1 AND id = $2";
  sql.heads.first =
      "SELECT number, at_head" + kWithKeys + kOfKey + "finished_at = 0 ORDER BY position LIMIT 1";
  sql.heads.clear = "UPDATE dovetail_parked INDEXED BY dovetail_parked_head SET at_head = 0" +
                    kOfKey + "at_head = 1";
  sql.heads.set = "UPDATE dovetail_parked SET at_head = 1 WHERE number = $1";
  sql.due_heads =
      heads_that("retry_at <= :now") + " UNION ALL " + heads_that("retry_at > :now + $5");
  sql.line =
      "SELECT number, state = 'waiting' AND (retry_at <= :now OR retry_at > :now + $5), "
      "length(payload)" +
      kWithKeys + kOfKey + "finished_at = 0 ORDER BY position LIMIT $4";
  sql.event =
      "SELECT position, id, topic, aggregate_type, aggregate_id, type, content_type, headers, "
      "payload, aggregate_version, created_at, attempts, replays FROM dovetail_parked WHERE number "
      "= $1 AND state = 'waiting'";
  sql.unfinished =
      "SELECT aggregate_type, aggregate_id FROM dovetail_parked WHERE relay = $1 AND id = $2 AND "
      "finished_at = 0";
  sql.finish =
      "UPDATE dovetail_parked SET state = 'delivered', at_head = 0, finished_at = :now WHERE "
      "relay = $1 AND id = $2 AND finished_at = 0";
  sql.count_replayed =
      "UPDATE dovetail_relay SET replayed_total = replayed_total + $3, delivered_total = "
      "delivered_total + $3 WHERE relay = $1";
  return sql;
}

}  // namespace

const FirstStartStatements& first_start_statements() {
  static const FirstStartStatements statements = {
      .find =
          "SELECT source, 1, target, filter = $2 AND topics = $3 FROM dovetail_relay WHERE relay = "
          "$1",
      .lock = "",
      .start = "INSERT INTO dovetail_relay (relay, source) VALUES ($1, $3)",
      .start_now =
          "INSERT INTO dovetail_relay (relay, source, passed_seq) VALUES ($1, $3, CASE $3 WHEN "
          "'mailbox' THEN (SELECT coalesce(max(seq), 0) FROM dovetail_mailbox) ELSE (SELECT "
          "coalesce(max(seq), 0) FROM dovetail_outbox) END)",
      .bind = "UPDATE dovetail_relay SET target = $2 WHERE relay = $1 AND target = ''",
      .keep = "UPDATE dovetail_relay SET filter = $2, topics = $3 WHERE relay = $1"};
  return statements;
}

const LaneStatements& lane_statements() {
  static const LaneStatements statements = {
      .holder = "SELECT owner, epoch, NOT " + kIsHeld + ", 0, CASE WHEN " + kIsHeld +
                " THEN lease_expires - :boot_time ELSE 0 END, " + kSign +
                ", target, hold, hold_by, hold_reason FROM dovetail_relay WHERE relay = $1",
      .take =
          "UPDATE dovetail_relay SET owner = $3, epoch = epoch + 1, lease_expires = "
          ":boot_time + $4, lease_boot = :boot WHERE relay = $1 AND " +
          kSign + " = $5 AND ($6 = '' OR target = $6) AND hold IN ('', 'draining') RETURNING hold",
      .renew =
          "UPDATE dovetail_relay SET lease_expires = :boot_time + $4, lease_boot = :boot "
          "WHERE relay = $1 AND epoch = $3 RETURNING hold",
      .release =
          "UPDATE dovetail_relay SET owner = '', lease_expires = 0, hold = CASE WHEN $4 AND hold = "
          "'draining' THEN 'drained' ELSE hold END WHERE relay = $1 AND epoch = $3",
      .epoch = "SELECT epoch FROM dovetail_relay WHERE relay = $1"};
  return statements;
}

const ParkingStatements& parking_statements() {
  static const ParkingStatements statements = make_parking();
  return statements;
}

const RelayStateStatements& relay_state_statements() {
  static const RelayStateStatements statements = {
      .write =
          "INSERT INTO dovetail_relay_state (relay, epoch, owner, state, since, last_error, "
          "next_try, updated_at, expires, boot) VALUES ($1, $3, $4, $5, :now - $6, $7, CASE WHEN "
          "$8 > 0 THEN :now + $8 ELSE 0 END, :now, :boot_time + $9, :boot) ON CONFLICT (relay) DO "
          "UPDATE SET epoch = excluded.epoch, owner = excluded.owner, state = excluded.state, "
          "since = excluded.since, last_error = excluded.last_error, next_try = "
          "excluded.next_try, updated_at = excluded.updated_at, expires = excluded.expires, boot "
          "= excluded.boot"};
  return statements;
}

}  // namespace dovetail::sqlite
