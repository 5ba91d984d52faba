// What operators see of a mapped table.
#include "postgres/operate/admin.h"

#include "postgres/connection/connection.h"
#include "postgres/mapped/catalog.h"
#include "postgres/operate/life.h"
#include "postgres/schema/schema.h"

namespace dovetail::postgres {

Result<std::vector<EventRow>> list_mapped_events(const std::string& url, const std::string& relay,
                                                 const TableMapping& mapping,
                                                 const EventFilter& filter) {
  Result<Connection> connection = Connection::open(url);
  if (!connection) return fail(connection.error());
  DOVETAIL_TRY(check_schema(*connection));
  const Result<CatalogTable> table = look_up(*connection, mapping, Access::read);
  if (!table) return fail(table.error());
  Params params;
  params.text(relay)
      .int8(filter.after)
      .int8(static_cast<std::int64_t>(filter.limit))
      .text(filter.state ? to_string(*filter.state) : std::string_view())
      .text(filter.type)
      .text(filter.key)
      .text(filter.topic);
  if (!filter.id.empty()) {
    const Result<EventId> id = EventId::parse(filter.id);
    if (!id) return fail(id.error());
    params.uuid(*id);
  }
  const Result<Rows> rows =
      connection->query(mapped_events_sql(*table, mapping, !filter.id.empty()), params);
  if (!rows) return fail(rows.error());
  std::vector<EventRow> events;
  for (std::size_t i = 0; i < rows->size(); ++i) {
    EventRow& event = events.emplace_back();
    event.position = rows->int8(i, 0);
    event.id = rows->uuid(i, 1);
    event.relay = relay;
    event.state = parse_event_state(rows->text(i, 2)).value_or(EventState::pending);
    event.topic = std::string(rows->text(i, 3));
    event.aggregate_type = std::string(rows->text(i, 4));
    event.aggregate_id = std::string(rows->text(i, 5));
    event.type = std::string(rows->text(i, 6));
    event.content_type = std::string(rows->text(i, 7));
    event.payload_bytes = static_cast<std::uint64_t>(rows->int4(i, 8));
    event.aggregate_version = rows->int8(i, 9);
    event.created_at = rows->timestamptz(i, 10);
    event.headers = std::string(rows->text(i, 11));
  }
  return events;
}

Status fill_times(const std::string& url, const TableMapping& mapping, life::OutboxFacts& place) {
  Result<Connection> connection = Connection::open(url);
  if (!connection) return fail(connection.error());
  const Result<CatalogTable> table = look_up(*connection, mapping, Access::read);
  if (!table) return fail(table.error());
  const Result<Rows> rows =
      connection->query(mapped_times_sql(*table, mapping), Params().uuid(place.row.id));
  if (!rows) return fail(rows.error());
  if (rows->empty()) return {};  // deleted; what is known comes from parking
  place.is_dated = rows->boolean(0, 0);
  if (!rows->is_null(0, 1)) place.marked_at = rows->timestamptz(0, 1);
  return {};
}

Result<std::optional<std::string>> mapped_payload_of(const std::string& url,
                                                     const TableMapping& mapping,
                                                     const EventId& id) {
  Result<Connection> connection = Connection::open(url);
  if (!connection) return fail(connection.error());
  const Result<CatalogTable> table = look_up(*connection, mapping, Access::read);
  if (!table) return fail(table.error());
  const Result<Rows> rows =
      connection->query(mapped_payload_sql(*table, mapping), Params().uuid(id));
  if (!rows) return fail(rows.error());
  if (rows->empty()) return std::optional<std::string>();
  return std::optional<std::string>(rows->bytea(0, 0));
}

}  // namespace dovetail::postgres
