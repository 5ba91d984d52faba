#include "postgres/reconcile/outbox_scan.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "postgres/connection/byte_order.h"
#include "postgres/connection/connection.h"
#include "postgres/reconcile/held_rows.h"
#include "postgres/schema/schema.h"

namespace dovetail::postgres {

namespace {

using reconcile::Progress;
using reconcile::Published;

// $1 the last id; $2 to $6 the lanes of the relay; $7 and $8 the time whose payloads count; $9
// rows.
constexpr std::string_view kEvents =
    "WITH lane AS MATERIALIZED (SELECT l.lane, l.lanes, "
    "l.window_start::pg_catalog.pg_snapshot AS window_start, "
    "nullif(l.window_end, '')::pg_catalog.pg_snapshot AS window_end, l.window_seq FROM "
    "unnest($2, $3, $4, $5, $6) AS l (lane, lanes, window_start, window_end, "
    "window_seq)), page AS MATERIALIZED (SELECT * FROM ((SELECT o.id, o.xid, o.seq, "
    "o.topic::text, o.aggregate_type::text, o.aggregate_id::text, o.type::text, o.headers::text, "
    "o.created_at, CASE WHEN o.created_at >= $7 AND o.created_at < $8 THEN "
    "pg_catalog.substring(pg_catalog.sha256(o.payload), 1, 8) END AS digest, false AS is_delayed "
    "FROM dovetail.outbox AS o WHERE o.id > $1 ORDER BY o.id LIMIT $9) UNION ALL (SELECT d.id, "
    "NULL, NULL, d.topic::text, d.aggregate_type::text, d.aggregate_id::text, d.type::text, "
    "d.headers::text, d.created_at, NULL, true FROM dovetail.delayed AS d WHERE d.id > $1 ORDER BY "
    "d.id LIMIT $9)) AS both_tables ORDER BY id LIMIT $9) SELECT p.id, p.topic, p.aggregate_type, "
    "p.aggregate_id, p.type, p.headers, p.created_at, p.digest, p.is_delayed, "
    "coalesce(pg_catalog.pg_visible_in_snapshot(p.xid, l.window_start) OR (p.seq <= l.window_seq "
    "AND pg_catalog.pg_visible_in_snapshot(p.xid, l.window_end)), false) FROM page AS p LEFT JOIN "
    "lane AS l ON dovetail.bucket(p.aggregate_type, p.aggregate_id, p.id) * l.lanes / 256 = l.lane "
    "ORDER BY p.id";

// The lower bound of a partition is an id; the first 12 of its digits are its time.
constexpr std::string_view kRetained =
    "SELECT coalesce((SELECT min(('x' || left(replace(pg_catalog.substring("
    "pg_catalog.pg_get_expr(c.relpartbound, c.oid), '''([0-9a-f-]{36})'''), '-', ''), "
    "12))::bit(48)::int8) FROM pg_catalog.pg_inherits AS i JOIN pg_catalog.pg_class AS c ON c.oid "
    "= i.inhrelid WHERE i.inhparent = 'dovetail.outbox'::pg_catalog.regclass), 0), "
    "coalesce((SELECT o.created_at FROM dovetail.outbox_default AS o ORDER BY o.seq LIMIT 1), "
    "pg_catalog.clock_timestamp())";

constexpr std::string_view kEstimate =
    "SELECT coalesce(sum(greatest(c.reltuples, 0)), 0)::int8 FROM pg_catalog.pg_inherits AS i JOIN "
    "pg_catalog.pg_class AS c ON c.oid = i.inhrelid WHERE i.inhparent = "
    "'dovetail.outbox'::pg_catalog.regclass";

// How far each lane was when the scan was opened.
struct Lanes {
  std::vector<std::int32_t> numbers{};
  std::vector<std::int32_t> counts{};
  std::vector<std::string> window_starts{};
  std::vector<std::string> window_ends{};
  std::vector<std::int64_t> window_seqs{};
};

std::vector<std::string_view> views_of(const std::vector<std::string>& texts) {
  return {texts.begin(), texts.end()};
}

class OutboxRows final : public reconcile::Pages<Published> {
 public:
  OutboxRows(Connection& connection, Lanes lanes, WallTime from, WallTime to)
      : connection_(connection), lanes_(std::move(lanes)), from_(from), to_(to) {}

 protected:
  Status read_page(std::vector<Published>& page) override {
    const auto starts = views_of(lanes_.window_starts);
    const auto ends = views_of(lanes_.window_ends);
    Params params;
    params.uuid(last_).int4_array(lanes_.numbers).int4_array(lanes_.counts).text_array(starts);
    params.text_array(ends).int8_array(lanes_.window_seqs).timestamptz(from_).timestamptz(to_);
    Result<Rows> rows = connection_.query(kEvents, params.int8(reconcile::kPageRows));
    if (!rows) return fail(rows.error());
    rows_ = std::move(*rows);
    for (std::size_t i = 0; i < rows_.size(); ++i) add(i, page);
    if (!page.empty()) last_ = page.back().event.id;
    return {};
  }

 private:
  void add(std::size_t i, std::vector<Published>& page) {
    Published& row = page.emplace_back();
    row.event.id = rows_.uuid(i, 0);
    row.event.topic = rows_.text(i, 1);
    row.event.aggregate_type = rows_.text(i, 2);
    row.event.aggregate_id = rows_.text(i, 3);
    row.event.type = rows_.text(i, 4);
    row.event.headers = rows_.text(i, 5);
    row.event.created_at = rows_.timestamptz(i, 6);
    if (!rows_.is_null(i, 7)) row.digest = read_big_endian<std::int64_t>(rows_.bytea(i, 7).data());
    row.progress = rows_.boolean(i, 8)   ? Progress::delayed
                   : rows_.boolean(i, 9) ? Progress::delivered
                                         : Progress::pending;
  }

  Connection& connection_;
  const Lanes lanes_;
  const WallTime from_;
  const WallTime to_;
  Rows rows_{};  // the page; events point into it
  EventId last_{};
};

class PostgresOutboxScan final : public reconcile::OutboxScan {
 public:
  PostgresOutboxScan(Connection connection, reconcile::Place place, std::uint64_t estimate)
      : connection_(std::move(connection)), place_(std::move(place)), estimate_(estimate) {}

  void begin(const std::string& relay, Lanes lanes, WallTime from, WallTime to) {
    events_ = std::make_unique<OutboxRows>(connection_, std::move(lanes), from, to);
    held_ = std::make_unique<HeldRows>(connection_, relay, place_.at);
  }

  reconcile::Stream<Published>& events() override { return *events_; }
  reconcile::Stream<reconcile::Held>& held() override { return *held_; }
  const reconcile::Place& place() const override { return place_; }
  std::uint64_t events_estimate() const override { return estimate_; }

  Result<reconcile::Retained> retained() override {
    const Result<Rows> rows = connection_.query(kRetained);
    if (!rows) return fail(rows.error());
    return reconcile::Retained{WallTime(std::chrono::milliseconds(rows->int8(0, 0))),
                               rows->timestamptz(0, 1)};
  }

  Result<std::vector<EventId>> find_now(std::span<const EventId> ids) override {
    const Result<Rows> rows = connection_.query(
        "SELECT o.id FROM dovetail.outbox AS o WHERE o.id = ANY ($1) UNION ALL SELECT d.id FROM "
        "dovetail.delayed AS d WHERE d.id = ANY ($1)",
        Params().uuid_array(ids));
    if (!rows) return fail(rows.error());
    std::vector<EventId> found;
    for (std::size_t i = 0; i < rows->size(); ++i) found.push_back(rows->uuid(i, 0));
    return found;
  }

 private:
  Connection connection_;
  const reconcile::Place place_;
  const std::uint64_t estimate_;
  std::unique_ptr<OutboxRows> events_{};
  std::unique_ptr<HeldRows> held_{};
};

Result<Lanes> read_lanes(Connection& connection, const std::string& relay) {
  const Result<Rows> rows = connection.query(
      "SELECT l.lane, l.lanes, l.window_start::text, coalesce(l.window_end::text, ''), "
      "l.window_seq, l.source FROM dovetail.relay_lane AS l WHERE l.relay = $1 ORDER BY l.lane",
      Params().text(relay));
  if (!rows) return fail(rows.error());
  Lanes lanes;
  for (std::size_t i = 0; i < rows->size(); ++i) {
    if (rows->text(i, 5) != "outbox")
      return fail(Errc::rejected, "the relay \"" + relay +
                                      "\" does not read the outbox; only an outbox can be "
                                      "reconciled, not a mapped table and not a broker");
    lanes.numbers.push_back(rows->int4(i, 0));
    lanes.counts.push_back(rows->int4(i, 1));
    lanes.window_starts.emplace_back(rows->text(i, 2));
    lanes.window_ends.emplace_back(rows->text(i, 3));
    lanes.window_seqs.push_back(rows->int8(i, 4));
  }
  return lanes;
}

}  // namespace

std::string_view outbox_page_sql() { return kEvents; }

Result<std::unique_ptr<reconcile::OutboxScan>> scan_outbox(const std::string& conninfo,
                                                           const std::string& relay, WallTime from,
                                                           WallTime to) {
  Result<Connection> connection = Connection::open(conninfo);
  if (!connection) return fail(connection.error());
  if (const auto version = check_schema(*connection); !version) return fail(version.error());
  // First the time: what was parked then and is delivered now must not be taken for missing.
  Result<reconcile::Place> place = read_place(*connection);
  if (!place) return fail(place.error());
  Result<Lanes> lanes = read_lanes(*connection, relay);
  if (!lanes) return fail(lanes.error());
  const Result<Rows> estimate = connection->query(kEstimate);
  if (!estimate) return fail(estimate.error());
  auto scan = std::make_unique<PostgresOutboxScan>(
      std::move(*connection), std::move(*place), static_cast<std::uint64_t>(estimate->int8(0, 0)));
  scan->begin(relay, std::move(*lanes), from, to);
  return scan;
}

}  // namespace dovetail::postgres
