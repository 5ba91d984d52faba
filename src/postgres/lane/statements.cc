#include "postgres/lane/statements.h"

#include "postgres/lane/reader.h"

namespace dovetail::postgres {

namespace {

// Independent of session settings: behind a pooler each read may be in another session.
const std::string kSign = "epoch || ' ' || encode(timestamptz_send(expires), 'hex')";
const std::string kOfLane = " WHERE relay = $1 AND lane = $2";

const std::string kOfId = " FROM dovetail.parked WHERE relay = $1 AND id = $2";
const std::string kOfKey = " WHERE relay = $1 AND aggregate_type = $2 AND aggregate_id = $3 AND ";
// The lane $2 of $3.
const std::string kInLane = "bucket * $3 / " + std::to_string(kKeyBuckets) + " = $2";
const std::string kIsDue =
    "(retry_at <= statement_timestamp() OR retry_at > statement_timestamp() + $5 * interval "
    "'1 microsecond')";

// Waiting heads of the lane, at most $4.
std::string heads_that(const std::string& are) {
  return "(SELECT number, aggregate_type, aggregate_id, octet_length(payload) FROM "
         "dovetail.parked WHERE relay = $1 AND at_head AND state = 'waiting' AND " +
         are + " AND " + kInLane + " ORDER BY retry_at LIMIT $4)";
}

ParkingStatements make_parking(const std::string& is_anew) {
  ParkingStatements sql;
  sql.blocked_keys =
      "SELECT aggregate_type, aggregate_id FROM dovetail.parked WHERE relay = $1 AND at_head AND "
      "aggregate_id <> '' AND " +
      kInLane + " LIMIT $4";
  sql.is_blocked = "SELECT 1 FROM dovetail.parked" + kOfKey + "finished_at IS NULL LIMIT 1";
  sql.find =
      "SELECT state, position, (payload, type, aggregate_type, aggregate_id) <> ($3, $4, $5, "
      "$6), " +
      is_anew + kOfId + " FOR NO KEY UPDATE";
  sql.add =
      "INSERT INTO dovetail.parked (relay, id, position, topic, aggregate_type, aggregate_id, "
      "type, content_type, headers, payload, aggregate_version, created_at, state, attempts, "
      "reason, retry_at, at_head) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, "
      "$14, $15, clock_timestamp() + $16 * interval '1 microsecond', $6 = '') "
      "ON CONFLICT (relay, id) DO NOTHING RETURNING " +
      kDurably;
  sql.change =
      "UPDATE dovetail.parked SET position = $3, topic = $4, aggregate_type = $5, aggregate_id = "
      "$6, type = $7, content_type = $8, headers = $9, payload = $10, aggregate_version = $11, "
      "created_at = $12, state = $13, attempts = $14, reason = $15, retry_at = clock_timestamp() + "
      "$16 * interval '1 microsecond', finished_at = NULL, at_head = at_head OR $6 = '', note = "
      "CASE WHEN $17 THEN '' ELSE note END, parked_at = CASE WHEN $17 THEN clock_timestamp() ELSE "
      "parked_at END WHERE relay = $1 AND id = $2 RETURNING " +
      kDurably;
  // dovetail.refresh_heads() takes the same lock.
  sql.heads.lock = "SELECT pg_advisory_xact_lock(hashtextextended('dovetail.parked ' || $1, 0))";
  sql.heads.first = "SELECT number, at_head FROM dovetail.parked" + kOfKey +
                    "finished_at IS NULL ORDER BY position, number LIMIT 1";
  sql.heads.clear = "UPDATE dovetail.parked SET at_head = false" + kOfKey + "at_head";
  sql.heads.set = "UPDATE dovetail.parked SET at_head = true WHERE number = $1";
  sql.due_heads = heads_that("retry_at <= statement_timestamp()") + " UNION ALL " +
                  heads_that("retry_at > statement_timestamp() + $5 * interval '1 microsecond'");
  sql.line = "SELECT number, state = 'waiting' AND " + kIsDue +
             ", octet_length(payload) FROM dovetail.parked" + kOfKey +
             "finished_at IS NULL ORDER BY position, number LIMIT $4";
  sql.event =
      "SELECT position, id, topic, aggregate_type, aggregate_id, type, content_type, headers, "
      "payload, aggregate_version, created_at, attempts, replays FROM dovetail.parked WHERE number "
      "= $1 AND state = 'waiting'";
  sql.unfinished =
      "SELECT aggregate_type, aggregate_id" + kOfId + " AND finished_at IS NULL FOR NO KEY UPDATE";
  sql.finish =
      "UPDATE dovetail.parked SET state = 'delivered', at_head = false, finished_at = "
      "clock_timestamp() WHERE relay = $1 AND id = $2 AND finished_at IS NULL RETURNING " +
      kDurably;
  sql.count_replayed =
      "UPDATE dovetail.relay_lane SET replayed_total = replayed_total + $3, delivered_total = "
      "delivered_total + $3" +
      kOfLane;
  return sql;
}

}  // namespace

const std::string kHolderColumns =
    "owner, epoch, expires <= clock_timestamp(), lease_term, "
    "CASE WHEN expires <= clock_timestamp() THEN 0 "
    "ELSE extract(epoch FROM expires - clock_timestamp()) * 1000000 END::bigint, " +
    kSign + ", target, hold, hold_by, hold_reason";

// Two statements to start, because a relay of a mapped table has no right to the outbox's sequence.
const FirstStartStatements& first_start_statements() {
  static const FirstStartStatements statements = {
      .find =
          "SELECT source, lanes, target, filter IS NOT DISTINCT FROM nullif($2, '')::jsonb FROM "
          "dovetail.relay_lane WHERE relay = $1 ORDER BY target LIMIT 1",
      .lock = "SELECT pg_advisory_xact_lock(hashtextextended('dovetail.relay_lane', 0))",
      .start =
          "INSERT INTO dovetail.relay_lane (relay, lane, lanes, source, window_start, passed_seq, "
          "system_identifier) SELECT $1, lane, $2, $3, '1:1:', 0, 0 FROM generate_series(0, $2 - "
          "1) AS lane",
      .start_now =
          "INSERT INTO dovetail.relay_lane (relay, lane, lanes, source, window_start, passed_seq, "
          "system_identifier) SELECT $1, lane, $2, $3, pg_current_snapshot(), s.last_value, "
          "c.system_identifier FROM generate_series(0, $2 - 1) AS lane, dovetail.outbox_seq AS s, "
          "pg_control_system() AS c",
      .bind = "UPDATE dovetail.relay_lane SET target = $2 WHERE relay = $1 AND target = ''",
      .keep =
          "UPDATE dovetail.relay_lane SET filter = nullif($2, '')::jsonb WHERE relay = $1 AND "
          "filter IS DISTINCT FROM nullif($2, '')::jsonb"};
  return statements;
}

const LaneStatements& lane_statements() {
  static const LaneStatements statements = {
      .holder = "SELECT " + kHolderColumns + " FROM dovetail.relay_lane" + kOfLane,
      .take =
          "UPDATE dovetail.relay_lane SET owner = $3, epoch = epoch + 1, lease_term = $4, "
          "expires = clock_timestamp() + $4 * interval '1 microsecond'" +
          kOfLane + " AND " + kSign +
          " = $5 AND ($6 = '' OR target = $6) AND hold IN ('', 'draining') RETURNING hold",
      .renew =
          "UPDATE dovetail.relay_lane SET expires = clock_timestamp() + $4 * interval "
          "'1 microsecond'" +
          kOfLane + " AND epoch = $3 RETURNING hold",
      .release =
          "UPDATE dovetail.relay_lane SET owner = '', expires = clock_timestamp(), hold = "
          "CASE WHEN $4 AND hold = 'draining' THEN 'drained' ELSE hold END" +
          kOfLane + " AND epoch = $3",
      .epoch = "SELECT epoch FROM dovetail.relay_lane" + kOfLane + " FOR SHARE"};
  return statements;
}

const ParkingStatements& parking_statements(bool of_mapped_table) {
  static const ParkingStatements plain = make_parking("false");
  static const ParkingStatements mapped =
      make_parking("state = 'discarded' AND row_state IS NOT DISTINCT FROM 'discarded'");
  return of_mapped_table ? mapped : plain;
}

const RelayStateStatements& relay_state_statements() {
  static const RelayStateStatements statements = {
      .write =
          "INSERT INTO dovetail.relay_state (relay, lane, epoch, owner, state, since, last_error, "
          "next_try, updated_at, expires) "
          "SELECT $1, $2, $3, $4, $5, c.now - $6 * interval '1 microsecond', $7, CASE WHEN $8 > 0 "
          "THEN c.now + $8 * interval '1 microsecond' END, c.now, c.now + $9 * interval "
          "'1 microsecond' FROM (SELECT clock_timestamp() AS now) AS c "
          "ON CONFLICT (relay, lane) DO UPDATE SET epoch = excluded.epoch, owner = "
          "excluded.owner, state = excluded.state, since = excluded.since, last_error = "
          "excluded.last_error, next_try = excluded.next_try, updated_at = excluded.updated_at, "
          "expires = excluded.expires "
          // Not worth an fsync; the setting ends with this transaction.
          "RETURNING set_config('synchronous_commit', 'off', true)"};
  return statements;
}

}  // namespace dovetail::postgres
