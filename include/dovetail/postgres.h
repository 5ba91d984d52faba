// Dovetail in a PostgreSQL database: publish events inside your own transaction.
//
// All functions use the application's own libpq connection (PGconn), work behind a pooler in
// transaction mode and need no session state. One thread at a time may use a connection, as libpq
// requires. Other languages call SELECT dovetail.publish(...). Services with an event loop use
// dovetail/postgres_async.h.
//
// Each call waits for the server's answer, at most as long as set_time_limit() says. Then it fails
// with Errc::unavailable, or Errc::in_doubt if it commits, and cuts the connection: an answer that
// comes later would be taken for that of another statement. The server rolls the transaction back.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dovetail/claim.h"
#include "dovetail/event.h"
#include "dovetail/result.h"

struct pg_conn;  // libpq's PGconn

namespace dovetail::postgres {

// How long each of these calls may wait for the server, in the whole process: 30 s unless set.
// create_schema() and create_roles() may always take 10 minutes. Any thread.
void set_time_limit(std::chrono::milliseconds limit);

// Creates dovetail's schema or upgrades it, inside the caller's transaction if one is open. Safe to
// call at every start and by several processes at once. corrupt: a newer dovetail made the schema.
// rejected: the role may not create it, or the server is older than 13.
Status create_schema(pg_conn* connection);

// Creates four roles and sets their rights: dovetail_app (publishes, reads nothing),
// dovetail_worker (takes events of the consumers that dovetail.grant_worker() gives it),
// dovetail_relay, dovetail_operator. Needs the right to create roles. Safe to call again.
Status create_roles(pg_conn* connection);

// The same as SQL text, to apply by hand.
std::string schema_sql();
std::string roles_sql();

// Adds an event to the caller's open transaction and returns its id: the event exists if and only
// if that transaction commits. Takes one round trip. Publishing the same id with the same content
// again adds nothing. rejected: no transaction is open, the event is not valid, or the id belongs
// to other content. unavailable: the connection is lost, or the backlog is at its limit. After an
// error from the server the transaction can only be rolled back.
//
// Events of a key are delivered in the order in which they were published under the lock of the
// key's row: change the aggregate first, then publish.
Result<EventId> publish(pg_conn* transaction, const NewEvent& event,
                        const EventLimits& limits = {});

// Publishes and commits in one round trip: the cheapest way to publish one event. An event
// belongs at the end of its transaction anyway. in_doubt: the connection was lost, and the
// transaction may have committed or not. If you set the event's id, you can repeat the whole
// transaction. After any other error nothing is committed, and the transaction can only be rolled
// back.
Result<EventId> publish_and_commit(pg_conn* transaction, const NewEvent& event,
                                   const EventLimits& limits = {});

// Publishes many events in one statement, in this order; all or none. Returns ids in that order.
Result<std::vector<EventId>> publish(pg_conn* transaction, std::span<const NewEvent> events,
                                     const EventLimits& limits = {});

// Publishes an event that is delivered at a later time, by the database's clock. It takes its place
// in the order of its key at that time.
Result<EventId> publish_at(pg_conn* transaction, const NewEvent& event, WallTime deliver_at,
                           const EventLimits& limits = {});

// For a service that publishes often: prepares its statements once per connection, which saves most
// of the server's work beside the row itself. Do not use it behind a pooler in transaction mode,
// where each transaction may run in another session; use the functions above. The connection
// belongs to the caller and must outlive the publisher.
class Publisher {
 public:
  // Call it with no transaction open, once per connection and again after PQreset().
  static Result<Publisher> open(pg_conn* connection, EventLimits limits = {});

  // Like the functions of the same names.
  Result<EventId> publish(const NewEvent& event) const;
  Result<EventId> publish_and_commit(const NewEvent& event) const;

 private:
  Publisher(pg_conn* connection, EventLimits limits) : connection_(connection), limits_(limits) {}
  pg_conn* connection_;
  EventLimits limits_;
};

// For a service that reads events in its own loop; postgres_consumer.h has a ready loop. Other
// languages call SELECT dovetail.claim(...); psql shows the comments of these functions.

// Answers first or duplicate: whether this consumer applies the event for the first time. Call it
// first in the transaction of the effect. In both cases, acknowledge the event after COMMIT. Waits
// while another transaction claims the same event. rejected: no transaction is open, or the event
// is older than what the inbox remembers.
Result<Claim::State> claim(pg_conn* transaction, std::string_view consumer, const EventId& id);

// For an effect outside the database: holds the event until the lease ends, by the database's
// clock. No transaction may be open. in_progress: another worker holds it; do not acknowledge, try
// again later. The effect happens at least once: pass the event id on as idempotency key.
Result<Claim> claim(pg_conn* connection, std::string_view consumer, const EventId& id,
                    std::chrono::milliseconds lease);
// The effect happened. Runs in the open transaction, or in one of its own. stopped: the lease ended
// and another worker holds the event. Then the transaction can only be rolled back.
Status complete_claim(pg_conn* connection, std::string_view consumer, const EventId& id,
                      std::int64_t epoch);
// The attempt failed and counts; the event can be claimed again after `retry_after`.
Status fail_claim(pg_conn* connection, std::string_view consumer, const EventId& id,
                  std::int64_t epoch, std::string_view reason = {},
                  std::optional<std::chrono::milliseconds> retry_after = std::nullopt);
// Nothing was tried; no attempt counts.
Status release_claim(pg_conn* connection, std::string_view consumer, const EventId& id,
                     std::int64_t epoch);

}  // namespace dovetail::postgres
