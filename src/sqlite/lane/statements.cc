#include "sqlite/lane/statements.h"

namespace dovetail::sqlite {

namespace {

const std::string kSign = "epoch || ' ' || lease_expires || ' ' || lease_boot";
const std::string kIsHeld = "(lease_boot = :boot AND lease_expires > :boot_time)";

}  // namespace

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
