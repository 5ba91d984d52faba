#include "postgres/running_note.h"

#include <algorithm>

#include "host/host.h"

namespace dovetail::postgres {

namespace {

using namespace std::chrono_literals;

constexpr Duration kDelayMin = 50ms;
constexpr Duration kDelayMax = 15s;

// Since 16, for those to whom it was granted.
constexpr std::string_view kMayAsk =
    "SELECT coalesce(has_function_privilege(to_regprocedure('pg_catalog.pg_log_standby_snapshot()')"
    ", 'EXECUTE'), false)";

// Nothing is lost if it cannot be made. By its name it is none of those that `dovetail slots`
// shows.
constexpr std::string_view kBeginSlot =
    "SELECT pg_drop_replication_slot(slot_name) "
    "FROM pg_create_logical_replication_slot($1::name, 'pgoutput', true)";

}  // namespace

bool RunningNote::is_due(TimePoint now, WalPosition kept_from) {
  if (kept_from != kept_from_) delay_ = kDelayMin;
  if (now < made_at_ + delay_) return false;
  if (kept_from == kept_from_) delay_ = std::min(2 * delay_, kDelayMax);
  made_at_ = now;
  kept_from_ = kept_from;
  return true;
}

Status RunningNote::make(Connection& connection) {
  const Result<Rows> may_ask = connection.query(kMayAsk);
  if (!may_ask) return fail(may_ask.error());
  if (may_ask->boolean(0, 0)) {
    (void)connection.query("SELECT pg_catalog.pg_log_standby_snapshot()");
  } else {
    const Result<Transaction> transaction =
        Transaction::begin(connection, "BEGIN; SET LOCAL statement_timeout = 10");
    if (!transaction) return fail(transaction.error());
    (void)connection.query(kBeginSlot,
                           Params().unknown("noting_" + new_event_id().to_string().substr(24)));
  }
  if (connection) return {};
  return fail(Errc::unavailable, "the connection was lost; check that the server runs");
}

}  // namespace dovetail::postgres
