#include "postgres/operate/search.h"

#include <optional>

#include "postgres/connection/connection.h"
#include "postgres/operate/event_row.h"
#include "postgres/schema/schema.h"
#include "sql/operate/search.h"

namespace dovetail::postgres {

namespace {

constexpr std::string_view kFind =
    "SELECT e.seq, e.id, coalesce(e.relay, '') AS relay, e.state, e.topic, e.aggregate_type, "
    "e.aggregate_id, e.type, e.content_type, e.payload_bytes, e.aggregate_version, e.created_at "
    "FROM dovetail.events e WHERE e.seq < $1 AND e.seq >= $2 AND ($3 = '' OR e.relay = $3) AND "
    "($4 = '' OR e.state = $4) AND ($5 = '' OR e.type = $5) AND ($6 = '' OR e.aggregate_type = $6) "
    "AND ($7 = '' OR e.aggregate_id = $7) AND ($8 = '' OR e.topic = $8) AND e.created_at >= $9 AND "
    "e.created_at < $10 AND ($12 = '' OR e.type = $12 OR e.topic = $12 OR e.aggregate_id = $12 OR "
    "e.aggregate_type || '/' || e.aggregate_id = $12) ORDER BY e.seq DESC FETCH FIRST ($11) ROWS "
    "WITH TIES";

constexpr WallTime kNever{std::chrono::hours(24 * 365 * 400)};

class Outbox final : public SearchedBox {
 public:
  explicit Outbox(Connection& connection) : connection_(connection) {}

  Result<std::optional<Place>> first_from(std::int64_t seq) override {
    return place("SELECT seq, created_at FROM dovetail.outbox WHERE seq >= $1 ORDER BY seq LIMIT 1",
                 Params().int8(seq));
  }
  Result<std::optional<Place>> last_before(std::int64_t seq, std::size_t skipped) override {
    return place(
        "SELECT seq, created_at FROM dovetail.outbox WHERE seq < $1 ORDER BY seq DESC OFFSET $2 "
        "LIMIT 1",
        Params().int8(seq).int8(static_cast<std::int64_t>(skipped)));
  }
  Result<std::vector<EventRow>> find(const EventSearch& search, std::int64_t before,
                                     std::int64_t last) override;

 private:
  Result<std::optional<Place>> place(std::string_view sql, const Params& params) {
    const Result<Rows> rows = connection_.query(sql, params);
    if (!rows) return fail(rows.error());
    if (rows->empty()) return std::optional<Place>();
    return std::optional<Place>({rows->int8(0, 0), rows->timestamptz(0, 1)});
  }

  Connection& connection_;
};

Result<std::vector<EventRow>> Outbox::find(const EventSearch& search, std::int64_t before,
                                           std::int64_t last) {
  const Result<Rows> rows = connection_.query(
      kFind, Params()
                 .int8(before)
                 .int8(last)
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
  std::vector<EventRow> found;
  for (std::size_t i = 0; i < rows->size(); ++i) found.push_back(event_row(*rows, i));
  return found;
}

}  // namespace

Result<FoundEvents> search_events(const std::string& url, const EventSearch& search) {
  Result<Connection> connection = Connection::open(url);
  if (!connection) return fail(connection.error());
  DOVETAIL_TRY(check_schema(*connection));
  Outbox outbox(*connection);
  return search_box(outbox, search);
}

}  // namespace dovetail::postgres
