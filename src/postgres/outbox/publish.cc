// The application's API: publish, inside its own transaction.
#include "postgres/outbox/publish.h"

#include <libpq-fe.h>

#include <vector>

#include "dovetail/postgres.h"
#include "dovetail/postgres_async.h"
#include "host/host.h"
#include "postgres/connection/statement.h"

namespace dovetail::postgres {

namespace {

// An id that we made cannot exist yet.
constexpr std::string_view kInsert =
    "INSERT INTO dovetail.outbox (id, topic, aggregate_type, aggregate_id, type, content_type, "
    "headers, payload, aggregate_version) VALUES ($1::uuid, $2::text, $3::text, $4::text, "
    "$5::text, $6::text, $7::text, $8::bytea, $9::bigint)";

// The same for an event with nothing but what it must have: each column more is checked anew.
constexpr std::string_view kInsertShort =
    "INSERT INTO dovetail.outbox (id, aggregate_type, aggregate_id, type, payload) VALUES "
    "($1::uuid, $2::text, $3::text, $4::text, $5::bytea)";

// An id from the caller may exist; then the content is compared.
constexpr std::string_view kAdd =
    "SELECT dovetail.add_event($1::uuid, $2::text, $3::text, $4::text, $5::text, $6::text, "
    "$7::text, $8::bytea, $9::bigint, $10::timestamptz)";

const std::string kInsertName = "dovetail_insert_1";
const std::string kInsertShortName = "dovetail_insert_short_1";
const std::string kAddName = "dovetail_add_1";

// No conflict target and no RETURNING, so that a role that may only insert can run it.
constexpr std::string_view kInsertMany =
    "INSERT INTO dovetail.outbox (id, topic, aggregate_type, aggregate_id, type, content_type, "
    "headers, payload, aggregate_version) "
    "SELECT e.id, e.topic, e.aggregate_type, e.aggregate_id, e.type, e.content_type, e.headers, "
    "e.payload, e.aggregate_version FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], "
    "$5::text[], $6::text[], $7::text[], $8::bytea[], $9::bigint[]) WITH ORDINALITY AS e (id, "
    "topic, aggregate_type, aggregate_id, type, content_type, headers, payload, "
    "aggregate_version, ordinal) ORDER BY e.ordinal ON CONFLICT DO NOTHING";

constexpr std::string_view kCheck =
    "SELECT dovetail.check_published($1, $2, $3, $4, $5, $6, $7, $8, $9)";

// A NewEvent with its id and its encoded headers.
struct Prepared {
  EventId id;
  std::string headers;
};

Status require_transaction(pg_conn* connection) {
  switch (PQtransactionStatus(connection)) {
    case PQTRANS_INTRANS:
      return {};
    case PQTRANS_INERROR:
      return fail(Errc::rejected,
                  "publish() is called in a transaction that has failed already; roll it back");
    case PQTRANS_ACTIVE:
      return fail(Errc::rejected,
                  "publish() is called while a statement is under way; read its results first");
    case PQTRANS_UNKNOWN:
      return fail(Errc::unavailable, "the connection is lost; open it again");
    case PQTRANS_IDLE:
      break;
  }
  return fail(Errc::rejected,
              "publish() needs an open transaction, so that the event commits together with your "
              "own changes; BEGIN first, COMMIT afterwards");
}

Result<Prepared> check(const NewEvent& event, const EventLimits& limits) {
  DOVETAIL_TRY(validate(event, limits));
  Result<std::string> headers = encode_headers(event.headers);
  if (!headers) return fail(headers.error());
  return Prepared{event.id ? *event.id : new_event_id(), std::move(*headers)};
}

Params columns(const NewEvent& event, const Prepared& prepared) {
  Params params;
  params.uuid(prepared.id)
      .text(event.topic)
      .text(event.aggregate_type)
      .text(event.aggregate_id)
      .text(event.type)
      .text(event.content_type)
      .text(prepared.headers)
      .bytea(event.payload)
      .int8(event.aggregate_version);
  return params;
}

// Whether every other column has its default.
bool is_short(const NewEvent& event) {
  return event.topic.empty() && event.headers.empty() && event.aggregate_version == 0 &&
         event.content_type == "application/json";
}

Params short_columns(const NewEvent& event, const EventId& id) {
  Params params;
  params.uuid(id)
      .text(event.aggregate_type)
      .text(event.aggregate_id)
      .text(event.type)
      .bytea(event.payload);
  return params;
}

// The insert skipped it: the id exists, with the same content or another.
Status check_published(pg_conn* connection, const NewEvent& event, const Prepared& prepared) {
  const Result<Rows> same = run(connection, kCheck, columns(event, prepared));
  if (!same) return fail(same.error());
  return {};
}

struct Request {
  std::string_view sql;
  const std::string& name;  // if it was prepared
  Params params;
};
Request request(const NewEvent& event, const Prepared& prepared,
                const std::optional<WallTime>& deliver_at = std::nullopt) {
  if (!event.id && !deliver_at && is_short(event))
    return {kInsertShort, kInsertShortName, short_columns(event, prepared.id)};
  if (!event.id && !deliver_at) return {kInsert, kInsertName, columns(event, prepared)};
  Params params = columns(event, prepared);
  if (deliver_at) {
    params.timestamptz(*deliver_at);
  } else {
    params.null();
  }
  return {kAdd, kAddName, std::move(params)};
}

Result<EventId> publish_one(pg_conn* connection, const NewEvent& event,
                            const std::optional<WallTime>& deliver_at, const EventLimits& limits) {
  DOVETAIL_TRY(require_transaction(connection));
  const Result<Prepared> prepared = check(event, limits);
  if (!prepared) return fail(prepared.error());
  const Request asked = request(event, *prepared, deliver_at);
  const Result<Rows> done = run(connection, asked.sql, asked.params);
  if (!done) return fail(done.error());
  return prepared->id;
}

}  // namespace

Result<EventId> send_publish(const NewEvent& event, const EventLimits& limits, const Send& send) {
  const Result<Prepared> prepared = check(event, limits);
  if (!prepared) return fail(prepared.error());
  const Request asked = request(event, *prepared);
  DOVETAIL_TRY(send(asked.sql, asked.params));
  return prepared->id;
}

Param Param::bytes(std::string_view bytes) {
  Param param(bytes);
  param.is_bytes = true;
  return param;
}

Param Param::null() {
  Param param("");
  param.is_null = true;
  return param;
}

Result<PublishStatement> publish_statement(const NewEvent& event, const EventLimits& limits) {
  const Result<Prepared> prepared = check(event, limits);
  if (!prepared) return fail(prepared.error());
  PublishStatement statement;
  statement.id = prepared->id;
  if (!event.id && is_short(event)) {
    statement.sql = kInsertShort;
    statement.params = {prepared->id, event.aggregate_type, event.aggregate_id, event.type,
                        Param::bytes(event.payload)};
    return statement;
  }
  statement.sql = event.id ? kAdd : kInsert;
  statement.params = {prepared->id,
                      event.topic,
                      event.aggregate_type,
                      event.aggregate_id,
                      event.type,
                      event.content_type,
                      prepared->headers,
                      Param::bytes(event.payload),
                      event.aggregate_version};
  if (event.id) statement.params.push_back(Param::null());  // delivered at once
  return statement;
}

Result<EventId> enqueue_publish(pg_conn* connection, const NewEvent& event,
                                const EventLimits& limits) {
  if (PQstatus(connection) != CONNECTION_OK)
    return fail(Errc::unavailable, "the connection is lost; open it again");
  if (PQisnonblocking(connection) == 0)
    return fail(Errc::rejected,
                "the connection blocks; call PQsetnonblocking(connection, 1) after it was opened");
  // In a pipeline, only the server knows whether BEGIN has run.
  if (PQpipelineStatus(connection) == PQ_PIPELINE_OFF)
    DOVETAIL_TRY(require_transaction(connection));
  return send_publish(event, limits, [&](std::string_view sql, const Params& params) -> Status {
    if (Statement(sql, params).send(connection)) return {};
    return fail(server_error(connection, nullptr));
  });
}

Status publish_outcome(const pg_conn* connection, const pg_result* result) {
  if (result != nullptr && PQresultStatus(result) == PGRES_PIPELINE_ABORTED)
    return fail(Errc::failed,
                "an earlier statement of the pipeline failed, so nothing was published; check the "
                "first error");
  if (succeeded(result)) return {};
  return fail(server_error(connection, result));
}

Result<EventId> publish(pg_conn* transaction, const NewEvent& event, const EventLimits& limits) {
  return publish_one(transaction, event, std::nullopt, limits);
}

Result<EventId> publish_at(pg_conn* transaction, const NewEvent& event, WallTime deliver_at,
                           const EventLimits& limits) {
  return publish_one(transaction, event, deliver_at, limits);
}

Result<EventId> publish_and_commit(pg_conn* transaction, const NewEvent& event,
                                   const EventLimits& limits) {
  DOVETAIL_TRY(require_transaction(transaction));
  const Result<Prepared> prepared = check(event, limits);
  if (!prepared) return fail(prepared.error());
  const Request asked = request(event, *prepared);
  DOVETAIL_TRY(run_and_commit(transaction, asked.sql, asked.params));
  return prepared->id;
}

Result<std::vector<EventId>> publish(pg_conn* transaction, std::span<const NewEvent> events,
                                     const EventLimits& limits) {
  DOVETAIL_TRY(require_transaction(transaction));
  std::vector<Prepared> prepared;
  std::vector<EventId> ids;
  for (const NewEvent& event : events) {
    Result<Prepared> one = check(event, limits);
    if (!one) return fail(one.error());
    ids.push_back(one->id);
    prepared.push_back(std::move(*one));
  }
  if (events.empty()) return ids;

  const auto column = [&](std::string_view NewEvent::* field) {
    std::vector<std::string_view> values;
    for (const NewEvent& event : events) values.push_back(event.*field);
    return values;
  };
  std::vector<std::string_view> headers;
  std::vector<std::int64_t> versions;
  for (std::size_t i = 0; i < events.size(); ++i) {
    headers.push_back(prepared[i].headers);
    versions.push_back(events[i].aggregate_version);
  }
  Params params;
  params.uuid_array(ids);
  for (const auto field : {&NewEvent::topic, &NewEvent::aggregate_type, &NewEvent::aggregate_id,
                           &NewEvent::type, &NewEvent::content_type})
    params.text_array(column(field));
  params.text_array(headers).bytea_array(column(&NewEvent::payload)).int8_array(versions);
  const Result<Rows> inserted = run(transaction, kInsertMany, params);
  if (!inserted) return fail(inserted.error());
  if (inserted->affected() == static_cast<std::int64_t>(events.size())) return ids;
  for (std::size_t i = 0; i < events.size(); ++i)
    DOVETAIL_TRY(check_published(transaction, events[i], prepared[i]));
  return ids;
}

Result<Publisher> Publisher::open(pg_conn* connection, EventLimits limits) {
  if (PQtransactionStatus(connection) != PQTRANS_IDLE)
    return fail(Errc::rejected,
                "a publisher is prepared outside of transactions; do it when the connection was "
                "opened");
  NewEvent any;
  const Prepared none{};
  DOVETAIL_TRY(postgres::prepare(connection, kInsertName, kInsert, columns(any, none)));
  DOVETAIL_TRY(
      postgres::prepare(connection, kInsertShortName, kInsertShort, short_columns(any, none.id)));
  DOVETAIL_TRY(postgres::prepare(connection, kAddName, kAdd, columns(any, none).null()));
  return Publisher(connection, limits);
}

Result<EventId> Publisher::publish(const NewEvent& event) const {
  DOVETAIL_TRY(require_transaction(connection_));
  const Result<Prepared> prepared = check(event, limits_);
  if (!prepared) return fail(prepared.error());
  const Request asked = request(event, *prepared);
  const Result<Rows> done = run_prepared(connection_, asked.name, asked.params);
  if (!done) return fail(done.error());
  return prepared->id;
}

Result<EventId> Publisher::publish_and_commit(const NewEvent& event) const {
  DOVETAIL_TRY(require_transaction(connection_));
  const Result<Prepared> prepared = check(event, limits_);
  if (!prepared) return fail(prepared.error());
  const Request asked = request(event, *prepared);
  DOVETAIL_TRY(run_prepared_and_commit(connection_, asked.name, asked.params));
  return prepared->id;
}

}  // namespace dovetail::postgres
