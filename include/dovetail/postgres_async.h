// Publish events without waiting for the server, for services with an event loop. No function here
// waits for anything.
//
// With libpq, enqueue_publish() takes the place of a PQsendQueryParams() of yours, in pipeline mode
// or without it. With another driver, publish_statement() gives the SQL text and its parameters.
// Either way the event exists if and only if the transaction commits in which the statement ran.
#pragma once

#include <string>
#include <vector>

#include "dovetail/event.h"
#include "dovetail/postgres_param.h"
#include "dovetail/result.h"

struct pg_conn;    // libpq's PGconn
struct pg_result;  // libpq's PGresult

namespace dovetail::postgres {

// Publishes one event. Send it inside your open transaction, after the change of the aggregate. Its
// rows can be ignored; an error means that the transaction can only be rolled back.
struct PublishStatement {
  std::string sql{};            // with $1, $2, ..., each with its type
  std::vector<Param> params{};  // text, except for the payload: bytes, which are sent in binary
  EventId id{};
};

// Any thread. rejected: the event is not valid.
Result<PublishStatement> publish_statement(const NewEvent& event, const EventLimits& limits = {});

// Queues the statement on your connection, which PQsetnonblocking() must have made non-blocking,
// and returns the id at once. As after PQsendQueryParams(), the rest is yours: PQflush(),
// PQconsumeInput() and PQgetResult(), and in pipeline mode PQpipelineSync(). The event's texts are
// copied. rejected: the event is not valid, the connection blocks, or, without pipeline mode, no
// transaction is open. unavailable: the connection is lost.
Result<EventId> enqueue_publish(pg_conn* connection, const NewEvent& event,
                                const EventLimits& limits = {});

// What the one result that PQgetResult() gives for it means. `result`: null if the connection was
// lost before. failed: an earlier statement of the pipeline failed, and this one did not run.
// Otherwise as with publish(). Only the result of COMMIT says that the event exists; in a pipeline
// without BEGIN, that is a sync without an error since the last one.
Status publish_outcome(const pg_conn* connection, const pg_result* result);

}  // namespace dovetail::postgres
