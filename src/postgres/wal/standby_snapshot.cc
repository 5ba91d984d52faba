#include "postgres/wal/standby_snapshot.h"

#include <algorithm>
namespace dovetail::postgres {

namespace {

using namespace std::chrono_literals;

constexpr Duration kDelayMin = 50ms;
constexpr Duration kDelayMax = 15s;

// Since 16, for roles with this right.
constexpr std::string_view kMayAsk =
    "SELECT coalesce(has_function_privilege(to_regprocedure('pg_catalog.pg_log_standby_snapshot()')"
    ", 'EXECUTE'), false)";

}  // namespace

bool StandbySnapshot::is_due(TimePoint now, WalPosition kept_from) {
  if (kept_from != kept_from_) delay_ = kDelayMin;
  if (now < made_at_ + delay_) return false;
  if (kept_from == kept_from_) delay_ = std::min(2 * delay_, kDelayMax);
  made_at_ = now;
  kept_from_ = kept_from;
  return true;
}

Status StandbySnapshot::make(Connection& connection) {
  const Result<Rows> may_ask = connection.query(kMayAsk);
  if (!may_ask) return fail(may_ask.error());
  // Otherwise the server does it every 15 s. All other ways wait for transactions of others, and an
  // abandoned wait is an ERROR in the server's log.
  if (may_ask->boolean(0, 0)) (void)connection.query("SELECT pg_catalog.pg_log_standby_snapshot()");
  if (connection) return {};
  return fail(Errc::unavailable, "the connection was lost; check that the server runs");
}

}  // namespace dovetail::postgres
