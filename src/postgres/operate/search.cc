#include "postgres/operate/search.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "postgres/connection/connection.h"
#include "postgres/schema/schema.h"

namespace dovetail::postgres {

namespace {

struct Place {
  std::int64_t seq = 0;
  WallTime created_at{};
};

Result<std::optional<Place>> one_place(Connection& connection, std::string_view sql,
                                       const Params& params) {
  const Result<Rows> rows = connection.query(sql, params);
  if (!rows) return fail(rows.error());
  if (rows->empty()) return std::optional<Place>();
  return std::optional<Place>({rows->int8(0, 0), rows->timestamptz(0, 1)});
}

// The first event with this number or a later one.
Result<std::optional<Place>> first_from(Connection& connection, std::int64_t seq) {
  return one_place(
      connection,
      "SELECT seq, created_at FROM dovetail.outbox WHERE seq >= $1 ORDER BY seq LIMIT 1",
      Params().int8(seq));
}

Result<std::optional<Place>> last_before(Connection& connection, std::int64_t seq) {
  return one_place(
      connection,
      "SELECT seq, created_at FROM dovetail.outbox WHERE seq < $1 ORDER BY seq DESC LIMIT 1",
      Params().int8(seq));
}

// Where the search begins: every event from this number on is of `until` or later.
Result<std::int64_t> begin_at(Connection& connection, std::int64_t before, WallTime until) {
  const auto newest = last_before(connection, before);
  if (!newest) return fail(newest.error());
  if (!*newest || (*newest)->created_at < until) return before;
  const auto oldest = first_from(connection, 0);
  if (!oldest) return fail(oldest.error());
  if (!*oldest) return before;
  std::int64_t low = (*oldest)->seq;
  std::int64_t high = (*newest)->seq;
  while (low < high) {
    const std::int64_t middle = low + (high - low) / 2;
    const auto found = first_from(connection, middle);
    if (!found) return fail(found.error());
    if (!*found || (*found)->created_at >= until)
      high = middle;
    else
      low = (*found)->seq + 1;
  }
  return low;
}

// The last event that this call looks at; empty: it reaches the end.
Result<std::optional<Place>> look_until(Connection& connection, std::int64_t before,
                                        std::size_t look_max) {
  return one_place(connection,
                   "SELECT seq, created_at FROM dovetail.outbox WHERE seq < $1 ORDER BY seq DESC "
                   "OFFSET $2 LIMIT 1",
                   Params().int8(before).int8(static_cast<std::int64_t>(look_max - 1)));
}

constexpr std::string_view kFind =
    "SELECT e.seq, e.id, coalesce(e.relay, '') AS relay, e.state, e.topic, e.aggregate_type, "
    "e.aggregate_id, e.type, e.content_type, e.payload_bytes, e.aggregate_version, e.created_at "
    "FROM dovetail.events e WHERE e.seq < $1 AND e.seq >= $2 AND ($3 = '' OR e.relay = $3) AND "
    "($4 = '' OR e.state = $4) AND ($5 = '' OR e.type = $5) AND ($6 = '' OR e.aggregate_type = $6) "
    "AND ($7 = '' OR e.aggregate_id = $7) AND ($8 = '' OR e.topic = $8) AND e.created_at >= $9 AND "
    "e.created_at < $10 AND ($12 = '' OR e.type = $12 OR e.topic = $12 OR e.aggregate_id = $12 OR "
    "e.aggregate_type || '/' || e.aggregate_id = $12) ORDER BY e.seq DESC FETCH FIRST ($11) ROWS "
    "WITH TIES";

EventRow row_of(const Rows& rows, std::size_t i) {
  EventRow event;
  event.position = rows.int8(i, 0);
  event.id = rows.uuid(i, 1);
  event.relay = std::string(rows.text(i, 2));
  event.state = parse_event_state(rows.text(i, 3)).value_or(EventState::pending);
  event.topic = std::string(rows.text(i, 4));
  event.aggregate_type = std::string(rows.text(i, 5));
  event.aggregate_id = std::string(rows.text(i, 6));
  event.type = std::string(rows.text(i, 7));
  event.content_type = std::string(rows.text(i, 8));
  event.payload_bytes = static_cast<std::uint64_t>(rows.int4(i, 9));
  event.aggregate_version = rows.int8(i, 10);
  event.created_at = rows.timestamptz(i, 11);
  return event;
}

constexpr WallTime kNever{std::chrono::hours(24 * 365 * 400)};

}  // namespace

Result<FoundEvents> search_events(const std::string& url, const EventSearch& search) {
  Result<Connection> connection = Connection::open(url);
  if (!connection) return fail(connection.error());
  DOVETAIL_TRY(check_schema(*connection));
  std::int64_t before =
      search.before == 0 ? std::numeric_limits<std::int64_t>::max() : search.before;
  if (search.until) {
    const Result<std::int64_t> begin = begin_at(*connection, before, *search.until);
    if (!begin) return fail(begin.error());
    before = std::min(before, *begin);
  }
  const auto last = look_until(*connection, before, std::max<std::size_t>(1, search.look_max));
  if (!last) return fail(last.error());
  const Result<Rows> rows = connection->query(
      kFind, Params()
                 .int8(before)
                 .int8(*last ? (*last)->seq : std::numeric_limits<std::int64_t>::min())
                 .text(search.relay)
                 .text(search.state ? to_string(*search.state) : std::string_view())
                 .text(search.type)
                 .text(search.aggregate_type)
                 .text(search.key)
                 .text(search.topic)
                 .timestamptz(search.from.value_or(WallTime{}))
                 .timestamptz(search.until.value_or(kNever))
                 .int8(static_cast<std::int64_t>(search.limit))
                 .text(search.word));
  if (!rows) return fail(rows.error());
  FoundEvents found;
  for (std::size_t i = 0; i < rows->size(); ++i) found.rows.push_back(row_of(*rows, i));
  if (found.rows.size() >= search.limit && search.limit > 0) {
    found.next = found.rows.back().position;
    found.looked_back_to = found.rows.back().created_at;
  } else if (*last && !(search.from && (*last)->created_at < *search.from)) {
    found.next = (*last)->seq;
    found.looked_back_to = (*last)->created_at;
  }
  return found;
}

}  // namespace dovetail::postgres
