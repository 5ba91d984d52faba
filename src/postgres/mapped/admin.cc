// What operators see of a mapped table.
#include "postgres/operate/admin.h"

#include "postgres/connection/connection.h"
#include "postgres/mapped/catalog.h"
#include "postgres/operate/event_row.h"
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
    EventRow& event = events.emplace_back(event_row(*rows, i));
    event.headers = std::string(rows->text(i, kHeadersColumn));
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
