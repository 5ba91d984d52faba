#include "postgres/lane/relay_state.h"

#include "core/event/redact.h"
#include "core/event/utf8.h"
#include "postgres/mapped/catalog.h"

namespace dovetail::postgres {

namespace {

constexpr std::size_t kErrorBytesMax = 2000;
constexpr std::int64_t kBacklogCounted = 100'000;

constexpr std::string_view kWriteState =
    "INSERT INTO dovetail.relay_state AS s (relay, lane, epoch, owner, state, since, last_error, "
    "next_try, updated_at, expires) "
    "SELECT $1, $2, $3, $4, $5, c.now - $6 * interval '1 microsecond', $7, CASE WHEN $8 > 0 THEN "
    "c.now + $8 * interval '1 microsecond' END, c.now, c.now + $9 * interval '1 microsecond' "
    "FROM (SELECT clock_timestamp() AS now) AS c "
    "WHERE NOT EXISTS (SELECT FROM dovetail.reader AS r WHERE r.relay = $1 AND r.lane = $2 AND "
    "r.owner <> '' AND r.expires > c.now AND r.epoch <> $3 AND split_part(r.owner, '#', 1) <> "
    "split_part($4, '#', 1)) "
    "ON CONFLICT (relay, lane) DO UPDATE SET epoch = excluded.epoch, owner = excluded.owner, state "
    "= excluded.state, since = excluded.since, last_error = excluded.last_error, next_try = "
    "excluded.next_try, updated_at = excluded.updated_at, expires = excluded.expires "
    // Not worth a wait for the disk; the setting ends with this transaction.
    "RETURNING set_config('synchronous_commit', 'off', true)";

constexpr std::string_view kWriteBacklog =
    "INSERT INTO dovetail.mapped_backlog (relay, lane, pending, oldest_at, measured_at) VALUES "
    "($1, "
    "$2, CASE WHEN $6 THEN $3 END, CASE WHEN $4 THEN $5 END, clock_timestamp()) ON CONFLICT "
    "(relay, lane) DO UPDATE SET "
    "pending = excluded.pending, oldest_at = excluded.oldest_at, measured_at = "
    "excluded.measured_at RETURNING set_config('synchronous_commit', 'off', true)";

std::string stored_error(const std::string& error) {
  std::string text = without_secrets(error);
  std::erase(text, '\0');
  if (!is_valid_utf8(text))
    for (char& c : text)
      if (static_cast<unsigned char>(c) >= 0x80) c = '?';
  std::size_t end = std::min(text.size(), kErrorBytesMax);
  while (end < text.size() && end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80)
    --end;
  text.resize(end);
  return text;
}

}  // namespace

Status write_state(Connection& connection, const LaneName& lane, const std::string& owner,
                   const SpokenState& spoken, TimePoint now) {
  // The times are relative to when it was said.
  const Duration ago = now - spoken.said_at;
  const Duration next = spoken.state.next_try - ago;
  const bool tries = spoken.state.next_try > Duration::zero();
  const std::string error = stored_error(spoken.state.last_error);
  const Result<Rows> written =
      connection.query(kWriteState, Params()
                                        .text(lane.relay)
                                        .int4(static_cast<std::int32_t>(lane.lane))
                                        .int8(spoken.epoch)
                                        .text(owner)
                                        .text(to_string(spoken.state.kind))
                                        .int8((spoken.state.since + ago).count())
                                        .text(error)
                                        .int8(tries ? std::max(next, Duration{1}).count() : 0)
                                        .int8(holds_for(spoken, now).count()));
  if (!written) return fail(written.error());
  return {};
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
