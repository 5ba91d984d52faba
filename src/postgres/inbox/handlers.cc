#include "postgres/inbox/handlers.h"

#include <utility>

#include "postgres/inbox/function_check.h"

namespace dovetail::postgres {

namespace {

// unnest() returns rows in order, but an aggregate must be told to keep it.
constexpr std::string_view kEvent =
    "ROW(e.id, e.topic, e.aggregate_type, e.aggregate_id, e.type, e.content_type, "
    "(CASE WHEN e.headers = '' THEN '{}' ELSE e.headers END)::jsonb, e.payload, "
    "e.aggregate_version, nullif(e.created_at, 'epoch'))::dovetail.event";
constexpr std::string_view kEvents =
    " FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], "
    "$7::text[], $8::bytea[], $9::bigint[], $10::timestamptz[]) WITH ORDINALITY AS e (id, topic, "
    "aggregate_type, aggregate_id, type, content_type, headers, payload, aggregate_version, "
    "created_at, place)";
Params columns_of(Events events) {
  std::vector<EventId> ids;
  std::vector<std::int64_t> versions;
  std::vector<WallTime> times;
  for (const Event* event : events) {
    ids.push_back(event->id);
    versions.push_back(event->aggregate_version);
    times.push_back(event->created_at);
  }
  std::vector<std::string_view> values(events.size());
  const auto column = [&](std::string_view Event::* field) -> std::vector<std::string_view>& {
    for (std::size_t i = 0; i < events.size(); ++i) values[i] = events[i]->*field;
    return values;
  };
  Params params;
  params.uuid_array(ids);
  for (const auto field : {&Event::topic, &Event::aggregate_type, &Event::aggregate_id,
                           &Event::type, &Event::content_type, &Event::headers})
    params.text_array(column(field));
  return std::move(
      params.bytea_array(column(&Event::payload)).int8_array(versions).timestamptz_array(times));
}

// Each part in double quotes.
Result<std::string> quoted_function(std::string_view function) {
  const std::size_t dot = function.find('.');
  if (dot == std::string_view::npos) return quoted_name(function);
  const Result<std::string> schema = quoted_name(function.substr(0, dot));
  if (!schema) return schema;
  const Result<std::string> name = quoted_name(function.substr(dot + 1));
  if (!name) return name;
  return *schema + "." + *name;
}

}  // namespace

Result<TransactionHandler> sql_function(std::string name, std::vector<std::string> types,
                                        std::string_view function, bool batch) {
  const Result<std::string> quoted = quoted_function(function);
  if (!quoted) return fail(quoted.error());
  const std::string event(kEvent);
  const std::string sql = "SELECT " + *quoted + "(" +
                          (batch ? "array_agg(" + event + " ORDER BY e.place)" : event) + ")" +
                          std::string(kEvents);
  return TransactionHandler{std::move(name), std::move(types),
                            [sql](BatchInvocation& invocation, Events events) {
                              return invocation.queue(sql, columns_of(events));
                            },
                            [name = std::string(function), batch](Connection& connection) {
                              return check_function(connection, name, batch);
                            }};
}

}  // namespace dovetail::postgres
