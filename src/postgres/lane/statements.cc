#include "postgres/lane/statements.h"

namespace dovetail::postgres {

namespace {

// Independent of session settings: behind a pooler each read may be in another session.
const std::string kSign = "epoch || ' ' || encode(timestamptz_send(expires), 'hex')";
const std::string kOfLane = " WHERE relay = $1 AND lane = $2";

}  // namespace

const std::string kHolderColumns =
    "owner, epoch, expires <= clock_timestamp(), lease_term, "
    "CASE WHEN expires <= clock_timestamp() THEN 0 "
    "ELSE extract(epoch FROM expires - clock_timestamp()) * 1000000 END::bigint, " +
    kSign + ", target, hold, hold_by, hold_reason";

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
