#include "postgres/operate/life.h"

#include <algorithm>

#include "host/owner.h"
#include "postgres/connection/connection.h"
#include "postgres/lane/lease.h"
#include "postgres/schema/schema.h"

namespace dovetail::postgres {

namespace {

// $1 the relay, $2 to $4 what the bucket of an event comes from.
const std::string kLane =
    "SELECT r.lane, r.lanes, CASE WHEN " + std::string(kIsHeld) +
    " THEN r.owner ELSE '' END, r.epoch, s.state, s.since, coalesce(s.last_error, ''), "
    "s.next_try, coalesce(s.owner, ''), CASE WHEN " +
    std::string(kIsHeld) +
    " THEN s.epoch = r.epoch OR split_part(s.owner, '#', 1) = split_part(r.owner, '#', 1) ELSE "
    "s.expires > clock_timestamp() END FROM dovetail.relay_lane AS r LEFT JOIN "
    "dovetail.relay_state AS s ON s.relay = r.relay AND s.lane = r.lane WHERE r.relay = $1 AND "
    "dovetail.bucket($2, $3, $4) * r.lanes / 256 = r.lane";

// $1 the relay, $2 to $4 what the bucket of an event comes from, $5 its number (of a mapped table,
// when its row was marked), $6 how many receipts are looked at: while an old transaction is open,
// those of newer events span its numbers.
constexpr std::string_view kReceipts =
    "SELECT t.at, t.owner, t.events, t.places FROM (SELECT * FROM dovetail.receipt AS r WHERE "
    "r.relay = $1 AND r.last_seq >= $5 ORDER BY r.last_seq LIMIT $6) AS t WHERE t.first_seq <= $5 "
    "AND dovetail.bucket($2, $3, $4) BETWEEN t.first_bucket AND t.last_bucket ORDER BY t.at";
constexpr std::int64_t kReceiptsMax = 10'000;

constexpr std::string_view kHandlers =
    "SELECT c.name, i.applied_at, i.digest, coalesce(q.attempts, k.attempts, a.attempts, 0), "
    "coalesce(a.updated_at, q.queued_at), q.event_id IS NOT NULL, CASE WHEN q.held THEN q.due WHEN "
    "q.event_id IS NULL AND k.expires > pg_catalog.clock_timestamp() THEN k.expires END FROM "
    "dovetail.consumer AS c LEFT JOIN dovetail.inbox AS i ON i.event_id = $1 AND i.consumer_id = "
    "c.id LEFT JOIN dovetail.attempt AS a ON a.event_id = $1 AND a.consumer_id = c.id LEFT JOIN "
    "dovetail.claim AS k ON k.event_id = $1 AND k.consumer_id = c.id LEFT JOIN dovetail.queue AS q "
    "ON q.event_id = $1 AND q.consumer_id = c.id WHERE i.event_id IS NOT NULL OR a.event_id IS NOT "
    "NULL OR k.event_id IS NOT NULL OR q.event_id IS NOT NULL ORDER BY c.name";

Status fill_deliveries(Connection& connection, const EventRow& row, life::RelayFacts& relay) {
  const std::optional<WallTime>& mark = relay.marked_at;
  const Result<Rows> rows =
      connection.query(kReceipts, Params()
                                      .text(relay.name)
                                      .text(row.aggregate_type)
                                      .text(row.aggregate_id)
                                      .uuid(row.id)
                                      .int8(mark ? mark->time_since_epoch().count() : row.position)
                                      .int8(kReceiptsMax));
  if (!rows) return fail(rows.error());
  for (std::size_t i = 0; i < rows->size(); ++i)
    relay.deliveries.push_back({.at = mark.value_or(rows->timestamptz(i, 0)),
                                .owner = std::string(rows->text(i, 1)),
                                .events = static_cast<std::uint64_t>(rows->int8(i, 2)),
                                .places = parse_places(rows->text(i, 3))});
  if (relay.deliveries.empty() && mark) relay.deliveries.push_back({.at = *mark});
  return {};
}

}  // namespace

Status fill_relay(const std::string& url, const EventRow& row, life::RelayFacts& relay) {
  Result<Connection> connection = Connection::open(url);
  if (!connection) return fail(connection.error());
  const Result<Rows> rows = connection->query(
      kLane,
      Params().text(relay.name).text(row.aggregate_type).text(row.aggregate_id).uuid(row.id));
  if (!rows) return fail(rows.error());
  if (rows->empty()) return {};
  relay.is_known = true;
  relay.lane = static_cast<std::uint32_t>(rows->int4(0, 0));
  relay.lanes = static_cast<std::uint32_t>(rows->int4(0, 1));
  relay.owner = shown_owner(rows->text(0, 2));
  relay.epoch = rows->int8(0, 3);
  DOVETAIL_TRY(fill_deliveries(*connection, row, relay));
  if (rows->is_null(0, 4)) return {};
  SaidState said;
  said.state = std::string(rows->text(0, 4));
  said.since = rows->timestamptz(0, 5);
  said.last_error = std::string(rows->text(0, 6));
  if (!rows->is_null(0, 7)) said.next_try = rows->timestamptz(0, 7);
  said.owner = std::string(rows->text(0, 8));
  said.is_current = rows->boolean(0, 9);
  relay.said = std::move(said);
  return {};
}

Result<std::vector<life::HandlerFacts>> list_handlers(const std::string& url, const EventId& id) {
  Result<Connection> connection = Connection::open(url);
  if (!connection) return fail(connection.error());
  const Result<Rows> rows = connection->query(kHandlers, Params().uuid(id));
  if (!rows) return fail(rows.error());
  std::vector<life::HandlerFacts> handlers;
  for (std::size_t i = 0; i < rows->size(); ++i) {
    life::HandlerFacts& handler = handlers.emplace_back();
    handler.name = std::string(rows->text(i, 0));
    if (!rows->is_null(i, 1)) handler.applied_at = rows->timestamptz(i, 1);
    if (!rows->is_null(i, 2)) handler.digest = rows->int8(i, 2);
    handler.attempts = static_cast<std::uint32_t>(std::max(0, rows->int4(i, 3)));
    if (!rows->is_null(i, 4)) handler.tried_at = rows->timestamptz(i, 4);
    handler.is_queued = rows->boolean(i, 5);
    if (!rows->is_null(i, 6)) handler.held_until = rows->timestamptz(i, 6);
  }
  return handlers;
}

}  // namespace dovetail::postgres
