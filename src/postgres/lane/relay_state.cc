#include "postgres/lane/relay_state.h"

#include "postgres/connection/session.h"
#include "postgres/lane/statements.h"
#include "postgres/mapped/catalog.h"
#include "sql/relay_state.h"

namespace dovetail::postgres {

namespace {

constexpr std::int64_t kBacklogCounted = 100'000;

constexpr std::string_view kWriteBacklog =
    "INSERT INTO dovetail.mapped_backlog (relay, lane, pending, oldest_at, measured_at) VALUES "
    "($1, "
    "$2, CASE WHEN $6 THEN $3 END, CASE WHEN $4 THEN $5 END, clock_timestamp()) ON CONFLICT "
    "(relay, lane) DO UPDATE SET "
    "pending = excluded.pending, oldest_at = excluded.oldest_at, measured_at = "
    "excluded.measured_at RETURNING set_config('synchronous_commit', 'off', true)";

}  // namespace

Status write_state(Connection& connection, const LaneName& lane, const std::string& owner,
                   const SpokenState& spoken, TimePoint now) {
  PostgresSession session(connection);
  std::int64_t epoch = spoken.epoch;
  const std::string no_target;
  return write_relay_state(session, lane_statements(), relay_state_statements(),
                           {lane.relay, no_target, epoch, lane.lane, lane.lanes}, owner, spoken,
                           now);
}

Status write_backlog(Connection& connection, const LaneName& lane, const TableMapping& mapping) {
  const Result<CatalogTable> table = look_up(connection, mapping, Access::read);
  if (!table) return fail(table.error());
  const Result<Rows> counted = connection.query(
      mapped_backlog_sql(*table, mapping, LaneShare{lane.lane, lane.lanes}, kBacklogCounted),
      Params().text(lane.relay));
  if (!counted) return fail(counted.error());
  const Result<Rows> written =
      connection.query(kWriteBacklog, Params()
                                          .text(lane.relay)
                                          .int4(static_cast<std::int32_t>(lane.lane))
                                          .int8(counted->int8(0, 0))
                                          .boolean(counted->boolean(0, 2))
                                          .timestamptz(counted->timestamptz(0, 3))
                                          .boolean(counted->boolean(0, 4)));
  if (!written) return fail(written.error());
  return {};
}

}  // namespace dovetail::postgres
