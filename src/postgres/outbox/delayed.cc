#include "postgres/outbox/delayed.h"

#include "postgres/schema/schema.h"

namespace dovetail::postgres {

namespace {

// Exact up to 100,000. Those that failed are due soon, and so among the first.
constexpr std::string_view kStatus =
    "SELECT CASE WHEN count(*) > 100000 THEN greatest(count(*), (SELECT c.reltuples::int8 FROM "
    "pg_catalog.pg_class c WHERE c.oid = 'dovetail.delayed'::pg_catalog.regclass)) ELSE count(*) "
    "END, count(*) FILTER (WHERE d.failures > 0), min(d.deliver_at) FROM (SELECT failures, "
    "deliver_at FROM dovetail.delayed ORDER BY deliver_at, number LIMIT 100001) AS d";

// $1 id or null, $2 type, $3 key, $4 topic, $5 after which number, $6 how many. Ordered by number,
// because delivery times may change between two pages.
constexpr std::string_view kList =
    "SELECT d.number, d.id, d.topic, d.aggregate_type, d.aggregate_id, d.type, d.content_type, "
    "pg_catalog.octet_length(d.payload), d.aggregate_version, d.created_at, d.headers, "
    "d.deliver_at, d.reason FROM dovetail.delayed d WHERE ($1::pg_catalog.uuid IS NULL OR d.id = "
    "$1) AND ($2 = '' OR d.type = $2) AND ($3 = '' OR d.aggregate_id = $3) AND ($4 = '' OR d.topic "
    "= $4) AND d.number > $5 ORDER BY d.number LIMIT $6";

}  // namespace

Result<std::optional<DelayedStatus>> delayed_status(Connection& connection) {
  const Result<Rows> rows = connection.query(kStatus);
  if (!rows) return fail(rows.error());
  if (rows->int8(0, 0) == 0) return std::optional<DelayedStatus>();
  return std::optional<DelayedStatus>(DelayedStatus{static_cast<std::uint64_t>(rows->int8(0, 0)),
                                                    static_cast<std::uint64_t>(rows->int8(0, 1)),
                                                    rows->timestamptz(0, 2)});
}

Result<std::vector<EventRow>> list_delayed(Connection& connection, const EventFilter& filter) {
  Params params;
  if (filter.id.empty()) {
    params.null();
  } else {
    const Result<EventId> id = EventId::parse(filter.id);
    if (!id) return fail(id.error());
    params.uuid(*id);
  }
  params.text(filter.type)
      .text(filter.key)
      .text(filter.topic)
      .int8(filter.after)
      .int8(static_cast<std::int64_t>(filter.limit));
  const Result<Rows> rows = connection.query(kList, params);
  if (!rows) return fail(rows.error());
  std::vector<EventRow> events;
  for (std::size_t i = 0; i < rows->size(); ++i) {
    EventRow& event = events.emplace_back();
    event.state = EventState::delayed;
    event.position = rows->int8(i, 0);
    event.id = rows->uuid(i, 1);
    event.topic = std::string(rows->text(i, 2));
    event.aggregate_type = std::string(rows->text(i, 3));
    event.aggregate_id = std::string(rows->text(i, 4));
    event.type = std::string(rows->text(i, 5));
    event.content_type = std::string(rows->text(i, 6));
    event.payload_bytes = static_cast<std::uint64_t>(rows->int4(i, 7));
    event.aggregate_version = rows->int8(i, 8);
    event.created_at = rows->timestamptz(i, 9);
    event.headers = std::string(rows->text(i, 10));
    event.deliver_at = rows->timestamptz(i, 11);
    event.delayed_because = std::string(rows->text(i, 12));
  }
  return events;
}

Status cancel_delayed(const std::string& url, const EventId& id, const std::string& reason) {
  Result<Connection> connection = Connection::open(url);
  if (!connection) return fail(connection.error());
  DOVETAIL_TRY(check_schema(*connection));
  const Result<Rows> rows =
      connection->query("SELECT dovetail.cancel_delayed($1, $2)", Params().uuid(id).text(reason));
  if (!rows) return fail(rows.error());
  if (rows->boolean(0, 0)) return {};
  return fail(Errc::rejected, "no event " + id.to_string() +
                                  " waits for its time; check the id with `dovetail events show`: "
                                  "it may have gone out already");
}

}  // namespace dovetail::postgres
