#include "postgres/operate/admin.h"

#include <algorithm>

#include "host/host.h"
#include "host/owner.h"
#include "postgres/connection/connection.h"
#include "postgres/lane/lease.h"
#include "postgres/mapped/catalog.h"
#include "postgres/operate/admin_slots.h"
#include "postgres/operate/event_row.h"
#include "postgres/operate/statements.h"
#include "postgres/outbox/delayed.h"
#include "postgres/schema/schema.h"

namespace dovetail::postgres {

namespace {

// Counting reads every row, so a large backlog is estimated by the numbers given out.
constexpr std::int64_t kExactPendingMax = 100'000;

// For a query that finds its rows by indexes and in their order. The planner cannot know how little
// lies behind a snapshot, and that the first rows are enough: it would read whole partitions.
Result<Rows> query_by_index(Connection& connection, std::string_view sql, const Params& params) {
  DOVETAIL_TRY(connection.execute(
      "BEGIN READ ONLY; SET LOCAL enable_seqscan = off; SET LOCAL enable_sort = off; SET LOCAL jit "
      "= off"));
  Result<Rows> rows = connection.query(sql, params);
  if (rows) DOVETAIL_TRY(connection.execute("COMMIT"));
  return rows;
}

// Rows after the lane's snapshot are found by the index on xid, those of its open transactions one
// by one. Delayed events that are due count with lane 0, which moves them into the outbox.
const std::string kLanes =
    "SELECT r.relay, r.lane, r.lanes, r.source, r.delivered_total, r.parked_total, "
    "r.owner, r.epoch, CASE WHEN " +
    std::string(kIsHeld) +
    " THEN (EXTRACT(epoch FROM r.expires - c.now) * "
    "1000000)::int8 ELSE 0::int8 END, r.updated_at, "
    "CASE WHEN c.now - r.updated_at > interval '10 s' OR s.at = '-infinity' THEN 0::int8 ELSE "
    "((r.delivered_total + r.parked_total - r.replayed_total - s.total) * 1000 / greatest(1, "
    "EXTRACT(epoch FROM c.now - s.at)))::int8 "
    "END, CASE WHEN p.pending > " +
    std::to_string(kExactPendingMax) +
    " THEN greatest(p.pending, ((SELECT last_value FROM dovetail.outbox_seq) - r.passed_seq) / "
    "r.lanes) ELSE p.pending END, greatest(0, coalesce(EXTRACT(epoch FROM c.now - p.oldest) * "
    "1000000, 0))::int8, "
    "(SELECT count(*) FROM dovetail.parked k WHERE k.relay = r.relay AND k.finished_at IS NULL AND "
    "k.state = 'parked' AND k.bucket * r.lanes / 256 = r.lane), "
    "(SELECT count(*) FROM dovetail.parked k WHERE k.relay = r.relay AND k.finished_at IS NULL AND "
    "k.state = 'waiting' AND k.bucket * r.lanes / 256 = r.lane), r.reads_wal, "
    "r.reads_since, r.reads_why, r.replayed_total, r.target, r.hold, "
    "coalesce(r.hold_since, '-infinity'), r.hold_by, r.hold_reason, r.skipped_total, "
    "r.owner <> '' AND r.expires <= c.now, r.expires "
    "FROM dovetail.relay_lane r CROSS JOIN (SELECT pg_catalog.clock_timestamp() AS now) AS c "
    "CROSS JOIN LATERAL (SELECT CASE WHEN r.previous_at > '-infinity' THEN r.previous_at ELSE "
    "r.sample_at END AS at, CASE WHEN r.previous_at > '-infinity' THEN r.previous_total ELSE "
    "r.sample_total END AS total) AS s "
    "CROSS JOIN LATERAL (SELECT count(*) AS pending, min(w.created_at) AS oldest FROM (SELECT "
    "w2.created_at FROM ((SELECT o.created_at, o.seq, o.xid FROM dovetail.outbox o WHERE o.xid >= "
    "pg_catalog.pg_snapshot_xmax(r.window_start) AND "
    "dovetail.bucket(o.aggregate_type, o.aggregate_id, o.id) * r.lanes / 256 = r.lane ORDER BY "
    "o.xid, "
    "o.seq) "
    "UNION ALL SELECT o.created_at, o.seq, o.xid FROM dovetail.outbox o WHERE o.xid = ANY "
    "(ARRAY(SELECT pg_catalog.pg_snapshot_xip(r.window_start))) AND "
    "dovetail.bucket(o.aggregate_type, o.aggregate_id, o.id) * r.lanes / 256 = r.lane) AS w2 "
    "WHERE r.source = 'outbox' AND NOT (r.window_end IS NOT NULL AND w2.seq <= r.window_seq AND "
    "pg_catalog.pg_visible_in_snapshot(w2.xid, r.window_end)) "
    "UNION ALL SELECT d.deliver_at FROM dovetail.delayed d WHERE d.deliver_at <= c.now AND r.lane "
    "= 0 AND r.source = 'outbox' LIMIT " +
    std::to_string(kExactPendingMax + 1) +
    ") AS w) AS p "
    "ORDER BY r.relay, r.lane";

LaneStatus lane_of_row(const Rows& rows, std::size_t i) {
  LaneStatus lane;
  lane.relay = std::string(rows.text(i, 0));
  lane.lane = static_cast<std::uint32_t>(rows.int4(i, 1));
  lane.lanes = static_cast<std::uint32_t>(rows.int4(i, 2));
  lane.source = parse_source_kind(rows.text(i, 3));
  lane.delivered_total = static_cast<std::uint64_t>(rows.int8(i, 4));
  lane.parked_total = static_cast<std::uint64_t>(rows.int8(i, 5));
  lane.owner = shown_owner(rows.text(i, 6));
  lane.epoch = rows.int8(i, 7);
  lane.lease_left = Duration{rows.int8(i, 8)};
  lane.updated_at = rows.timestamptz(i, 9);
  lane.events_per_second = static_cast<double>(rows.int8(i, 10)) / 1000;
  lane.pending = static_cast<std::uint64_t>(rows.int8(i, 11));
  lane.oldest_age = Duration{rows.int8(i, 12)};
  lane.parked = static_cast<std::uint64_t>(rows.int8(i, 13));
  lane.waiting = static_cast<std::uint64_t>(rows.int8(i, 14));
  lane.reads_wal = rows.boolean(i, 15);
  lane.reads_since = rows.timestamptz(i, 16);
  lane.reads_why = std::string(rows.text(i, 17));
  lane.replayed_total = static_cast<std::uint64_t>(rows.int8(i, 18));
  lane.target = std::string(rows.text(i, 19));
  lane.hold = {parse_hold(rows.text(i, 20)), rows.timestamptz(i, 21), std::string(rows.text(i, 22)),
               std::string(rows.text(i, 23))};
  lane.skipped_total = static_cast<std::uint64_t>(rows.int8(i, 24));
  if (rows.boolean(i, 25)) lane.lease_ended_at = rows.timestamptz(i, 26);
  return lane;
}

// A state is true as long as its process holds the lease. One that has none says again and again
// that it lives.
const std::string kStates =
    "SELECT s.relay, s.lane, s.state, s.since, s.last_error, s.next_try IS NOT NULL, "
    "coalesce(s.next_try, s.since), s.owner, CASE WHEN " +
    std::string(kIsHeld) +
    " THEN s.epoch = r.epoch OR split_part(s.owner, '#', 1) = "
    "split_part(r.owner, '#', 1) ELSE s.expires > clock_timestamp() END FROM dovetail.relay_state "
    "AS s LEFT JOIN dovetail.relay_lane AS r ON r.relay = s.relay AND "
    "r.lane = s.lane ORDER BY s.relay, s.lane";

// A relay that cannot even start has no row of its own yet, but may have said why.
Status read_states(Connection& connection, std::vector<LaneStatus>& lanes) {
  const Result<Rows> rows = connection.query(kStates);
  if (!rows) return fail(rows.error());
  for (std::size_t i = 0; i < rows->size(); ++i) {
    SaidState said;
    said.state = std::string(rows->text(i, 2));
    said.since = rows->timestamptz(i, 3);
    said.last_error = std::string(rows->text(i, 4));
    if (rows->boolean(i, 5)) said.next_try = rows->timestamptz(i, 6);
    said.owner = std::string(rows->text(i, 7));
    said.is_current = rows->boolean(i, 8);
    const std::string_view relay = rows->text(i, 0);
    const auto number = static_cast<std::uint32_t>(rows->int4(i, 1));
    auto lane = std::find_if(lanes.begin(), lanes.end(), [&](const LaneStatus& one) {
      return one.relay == relay && one.lane == number;
    });
    if (lane == lanes.end() && !said.is_current) continue;
    if (lane == lanes.end()) {
      lane = lanes.emplace(lanes.end());
      lane->relay = std::string(relay);
      lane->lane = number;
      lane->has_row = false;
    }
    lane->said = std::move(said);
  }
  return {};
}

Status read_mapped(Connection& connection, const TableMapping& mapping, LaneStatus& lane) {
  const Result<CatalogTable> table = look_up(connection, mapping, Access::read);
  if (!table) return fail(table.error().code, "relay " + lane.relay + ": " + table.error().text);
  const std::string sql =
      mapped_backlog_sql(*table, mapping, LaneShare{lane.lane, lane.lanes}, kExactPendingMax);
  const Result<Rows> rows = connection.query(sql, Params().text(lane.relay));
  if (!rows) return fail(rows.error());
  lane.pending = static_cast<std::uint64_t>(rows->int8(0, 0));
  lane.is_pending_known = rows->boolean(0, 4);
  lane.is_age_known = lane.is_pending_known && (lane.pending == 0 || rows->int8(0, 1) >= 0);
  lane.oldest_age = Duration{std::max<std::int64_t>(0, rows->int8(0, 1))};
  return {};
}

// Fails only where the connection is lost: what is wrong with one mapping is told in its lane.
Status read_mapped_or_say_why(Connection& connection, const TableMapping& mapping,
                              LaneStatus& lane) {
  const Status read = read_mapped(connection, mapping, lane);
  if (read || !connection) return read;
  lane.error = read.error();
  lane.is_age_known = false;
  return {};
}

// One that ends with its stream comes before one that stays and is not read.
Status read_slots(Connection& connection, std::vector<LaneStatus>& lanes) {
  const Result<std::vector<WalSlot>> slots = list_wal_slots(connection);
  if (!slots) return fail(slots.error());
  for (LaneStatus& lane : lanes) {
    const WalSlot* best = nullptr;
    for (const WalSlot& slot : *slots) {
      if (slot.relay != lane.relay) continue;
      if (best == nullptr || (slot.active && !best->active)) best = &slot;
    }
    if (best == nullptr) continue;
    lane.slot = best->name;
    lane.retained_wal = best->retained_bytes;
  }
  return {};
}

Status read_queues(Connection& connection, std::vector<QueueStatus>& queues) {
  const Result<Rows> rows = connection.query(
      "SELECT consumer, events, ready, held, later, waiting, parked, greatest(0, EXTRACT(epoch "
      "FROM oldest_age) * 1000000)::int8 FROM dovetail.queues ORDER BY consumer");
  if (!rows) return fail(rows.error());
  for (std::size_t i = 0; i < rows->size(); ++i) {
    QueueStatus& queue = queues.emplace_back();
    queue.consumer = std::string(rows->text(i, 0));
    std::uint64_t* const counts[] = {&queue.events, &queue.ready,   &queue.held,
                                     &queue.later,  &queue.waiting, &queue.parked};
    for (int column = 0; column < 6; ++column)
      *counts[column] = static_cast<std::uint64_t>(rows->int8(i, column + 1));
    queue.oldest_age = Duration{rows->int8(i, 7)};
  }
  return {};
}

// A consumer that counts nothing is left out: handlers of a consumer, which is counted as a whole,
// and services with a loop of their own while they hold no claim.
Status read_consumers(Connection& connection, StoreStatus& status) {
  const Result<Rows> rows = connection.query(
      "SELECT c.name, coalesce(sum(l.applied), 0)::int8, coalesce(sum(l.duplicates), 0)::int8, "
      "coalesce(sum(l.superseded), 0)::int8, coalesce(bool_and(l.clean), true), (SELECT count(*) "
      "FROM dovetail.attempt a WHERE a.consumer_id = c.id), (SELECT count(*) FROM dovetail.claim k "
      "WHERE k.consumer_id = c.id AND k.expires > pg_catalog.clock_timestamp()) FROM "
      "dovetail.consumer c LEFT JOIN dovetail.consumer_session l ON l.consumer_id = c.id GROUP BY "
      "c.id HAVING count(l.session) > 0 OR EXISTS (SELECT FROM dovetail.claim k WHERE "
      "k.consumer_id = "
      "c.id AND k.expires > pg_catalog.clock_timestamp()) ORDER BY c.name");
  if (!rows) return fail(rows.error());
  for (std::size_t i = 0; i < rows->size(); ++i) {
    ConsumerStatus& consumer = status.consumers.emplace_back();
    consumer.name = std::string(rows->text(i, 0));
    consumer.applied = static_cast<std::uint64_t>(rows->int8(i, 1));
    consumer.duplicates = static_cast<std::uint64_t>(rows->int8(i, 2));
    consumer.superseded = static_cast<std::uint64_t>(rows->int8(i, 3));
    consumer.clean = rows->boolean(i, 4);
    consumer.trying = static_cast<std::uint64_t>(rows->int8(i, 5));
    consumer.claims = static_cast<std::uint64_t>(rows->int8(i, 6));
  }
  const Result<Rows> inbox = connection.query(
      "SELECT coalesce(sum(greatest(c.reltuples, 0)), 0)::int8 FROM pg_catalog.pg_inherits i JOIN "
      "pg_catalog.pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = "
      "'dovetail.inbox'::pg_catalog.regclass");
  if (!inbox) return fail(inbox.error());
  status.inbox_rows = static_cast<std::uint64_t>(inbox->int8(0, 0));
  return {};
}

// The server looked at its clock between the two times of ours.
Duration clock_ahead(WallTime theirs, WallTime asked, WallTime answered) {
  if (theirs < asked) return theirs - asked;
  return theirs > answered ? theirs - answered : Duration{0};
}

Result<Rows> find_events(Connection& connection, const EventFilter& filter, const EventId& id) {
  std::string where =
      "e.seq > $1 AND ($2 = '' OR e.relay = $2) AND ($3 = '' OR e.state = $3) AND ($4 = '' OR "
      "e.type = $4) AND ($5 = '' OR e.aggregate_id = $5) AND ($6 = '' OR e.topic = $6)";
  bool is_found_by_id = !filter.id.empty();
  if (is_found_by_id) where += " AND e.id = $8";
  // Parked ones are few and found by their own table. Pending ones are not long before the
  // snapshots of the relays. So nobody walks over everything that was delivered.
  if (filter.state == EventState::pending) {
    where +=
        // "+ 0", or the first of them would be looked for along the index on seq.
        " AND e.seq >= (SELECT min(o.seq + 0) FROM dovetail.outbox o WHERE o.xid >= "
        "coalesce((SELECT "
        "min(pg_catalog.pg_snapshot_xmin(r.window_start)::text::int8)::text::pg_catalog.xid8 FROM "
        "dovetail.relay_lane r WHERE r.source = 'outbox'), '0'::pg_catalog.xid8))";
  } else if (filter.state && *filter.state != EventState::delivered &&
             *filter.state != EventState::skipped) {
    is_found_by_id = true;
    where +=
        " AND e.id IN (SELECT p.id FROM dovetail.parked p WHERE p.state = $3 AND p.finished_at " +
        std::string(*filter.state == EventState::discarded ? "IS NOT NULL)" : "IS NULL)");
  }
  const std::string sql =
      "SELECT page.*, coalesce((SELECT o.headers FROM dovetail.outbox o WHERE o.id = page.id), '') "
      "FROM (SELECT e.seq, e.id, coalesce(e.relay, '') AS relay, e.state, e.topic, "
      "e.aggregate_type, e.aggregate_id, e.type, e.content_type, e.payload_bytes, "
      "e.aggregate_version, e.created_at FROM dovetail.events e WHERE "
      // With all readers of the last event: the next page begins behind it.
      + where +
      " ORDER BY e.seq FETCH FIRST ($7) ROWS WITH TIES) AS page ORDER BY page.seq, page.relay";
  const Params params = Params()
                            .int8(filter.after)
                            .text(filter.relay)
                            .text(filter.state ? to_string(*filter.state) : std::string_view())
                            .text(filter.type)
                            .text(filter.key)
                            .text(filter.topic)
                            .int8(static_cast<std::int64_t>(filter.limit))
                            .uuid(id);
  return is_found_by_id ? connection.query(sql, params) : query_by_index(connection, sql, params);
}

}  // namespace

Result<StoreStatus> status(const std::string& url, const MappedRelays& mapped) {
  Result<Connection> connection = Connection::open(url);
  if (!connection) return fail(connection.error());
  const Result<std::int64_t> version = check_schema(*connection);
  if (!version) return fail(version.error());
  StoreStatus result;
  result.schema_version = *version;
  const WallTime asked_at = system_clock().wall();
  const Result<Rows> store = connection->query(
      "SELECT coalesce(sum(greatest(c.reltuples, 0)), 0)::int8, "
      "coalesce(sum(pg_catalog.pg_total_relation_size(c.oid)), 0)::int8, count(*), "
      "pg_catalog.current_setting('server_version'), pg_catalog.pg_is_in_recovery(), "
      "CASE WHEN pg_catalog.pg_is_in_recovery() THEN 0 ELSE "
      "pg_catalog.pg_current_wal_insert_lsn() - '0/0'::pg_catalog.pg_lsn END::int8, "
      "pg_catalog.clock_timestamp() FROM "
      "pg_catalog.pg_inherits i JOIN "
      "pg_catalog.pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = "
      "'dovetail.outbox'::pg_catalog.regclass");
  if (!store) return fail(store.error());
  result.clock_ahead = clock_ahead(store->timestamptz(0, 6), asked_at, system_clock().wall());
  result.outbox_rows = static_cast<std::uint64_t>(store->int8(0, 0));
  result.outbox_bytes = static_cast<std::uint64_t>(store->int8(0, 1));
  result.partitions = static_cast<std::uint64_t>(store->int8(0, 2));
  result.server_version = std::string(store->text(0, 3));
  result.standby = store->boolean(0, 4);
  result.wal_end = static_cast<std::uint64_t>(store->int8(0, 5));
  Result<std::optional<DelayedStatus>> delayed = delayed_status(*connection);
  if (!delayed) return fail(delayed.error());
  result.delayed = *delayed;
  const Result<Rows> lanes = query_by_index(*connection, kLanes, Params());
  if (!lanes) return fail(lanes.error());
  for (std::size_t i = 0; i < lanes->size(); ++i) {
    LaneStatus& lane = result.lanes.emplace_back(lane_of_row(*lanes, i));
    if (const auto found = mapped.find(lane.relay); found != mapped.end())
      DOVETAIL_TRY(read_mapped_or_say_why(*connection, found->second, lane));
  }
  DOVETAIL_TRY(read_slots(*connection, result.lanes));
  DOVETAIL_TRY(read_consumers(*connection, result));
  DOVETAIL_TRY(read_queues(*connection, result.queues));
  for (const auto& [relay, mapping] : mapped) {
    if (std::any_of(result.lanes.begin(), result.lanes.end(),
                    [&](const LaneStatus& lane) { return lane.relay == relay; }))
      continue;
    LaneStatus& lane = result.lanes.emplace_back();
    lane.relay = relay;
    lane.source = SourceKind::mapped;
    lane.has_row = false;
    DOVETAIL_TRY(read_mapped_or_say_why(*connection, mapping, lane));
  }
  DOVETAIL_TRY(read_states(*connection, result.lanes));
  return result;
}

Result<std::vector<EventRow>> list_events(const std::string& url, const EventFilter& filter) {
  Result<Connection> connection = Connection::open(url);
  if (!connection) return fail(connection.error());
  DOVETAIL_TRY(check_schema(*connection));
  if (filter.state == EventState::delayed) return list_delayed(*connection, filter);
  EventId id;
  if (!filter.id.empty()) {
    const Result<EventId> parsed = EventId::parse(filter.id);
    if (!parsed) return fail(parsed.error());
    id = *parsed;
  }
  const Result<Rows> rows = find_events(*connection, filter, id);
  if (!rows) return fail(rows.error());
  std::vector<EventRow> events;
  for (std::size_t i = 0; i < rows->size(); ++i) {
    EventRow& event = events.emplace_back(event_row(*rows, i));
    event.headers = std::string(rows->text(i, kHeadersColumn));
  }
  if (events.empty() && !filter.id.empty() && !filter.state)
    return list_delayed(*connection, filter);
  return events;
}

Result<std::optional<std::string>> payload_of(const std::string& url, const EventId& id) {
  Result<Connection> connection = Connection::open(url);
  if (!connection) return fail(connection.error());
  DOVETAIL_TRY(check_schema(*connection));
  const Result<Rows> rows = connection->query(
      "SELECT payload FROM dovetail.outbox WHERE id = $1 UNION ALL SELECT payload FROM "
      "dovetail.delayed WHERE id = $1 UNION ALL SELECT payload FROM dovetail.queue WHERE event_id "
      "= "
      "$1 UNION ALL SELECT payload FROM dovetail.parked WHERE id = $1 AND " +
          std::string(kOfAnyRelay) + " LIMIT 1",
      Params().uuid(id));
  if (!rows) return fail(rows.error());
  if (rows->empty()) return std::optional<std::string>();
  return std::optional<std::string>(rows->bytea(0, 0));
}

}  // namespace dovetail::postgres
