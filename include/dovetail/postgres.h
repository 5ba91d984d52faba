// Dovetail in a PostgreSQL database: publish events inside your own transaction.
//
// Everything takes the application's own libpq connection (PGconn), works behind a pooler in
// transaction mode, and needs no session state. One connection belongs to one thread at a time, as
// libpq asks. From other languages: SELECT dovetail.publish(...).
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

// Makes dovetail's schema, or brings it up to date; inside the caller's transaction when one is
// open. Safe to call on every start, also by several processes at once. corrupt: the schema was
// made by a newer dovetail. rejected: the role may not create it, or the server is older than 13.
Status create_schema(pg_conn* connection);

// Makes the roles dovetail_app (publishes, reads nothing), dovetail_worker (takes events of the
// consumers that dovetail.grant_worker() gives to it), dovetail_relay and dovetail_operator, grants
// them what they need and takes back the rest. Needs the right to create roles. Safe to call again.
Status create_roles(pg_conn* connection);

// The same as SQL, for those who apply it by hand.
std::string schema_sql();
std::string roles_sql();

// Adds an event to the caller's open transaction, and returns its id: the event exists if and only
// if that transaction commits. One round trip. Publishing the same id again with the same content
// is accepted and adds nothing. rejected: no transaction is open, or the event is not valid, or the
// id is taken by other content. unavailable: the connection is lost, or the backlog is at its
// limit. After a refusal by the server the transaction can only be rolled back.
//
// Along a key, events are delivered in the order in which they were published while the key's row
// was locked: change the aggregate first, publish afterwards.
Result<EventId> publish(pg_conn* transaction, const NewEvent& event,
                        const EventLimits& limits = {});

// The same and COMMIT, in the round trip that COMMIT takes anyway: the cheapest way to publish one
// event, and at the end of the transaction, where an event belongs. in_doubt: the connection was
// lost, and nobody knows whether the transaction committed; with an id of your own it can simply be
// done again.
// After any other failure nothing is committed, and the transaction can only be rolled back.
Result<EventId> publish_and_commit(pg_conn* transaction, const NewEvent& event,
                                   const EventLimits& limits = {});

// Many in one statement, in this order; all or none. Ids in the order of the events.
Result<std::vector<EventId>> publish(pg_conn* transaction, std::span<const NewEvent> events,
                                     const EventLimits& limits = {});

// An event that goes out at a later time, by the database's clock, and takes its place in the order
// of its key then.
Result<EventId> publish_at(pg_conn* transaction, const NewEvent& event, WallTime deliver_at,
                           const EventLimits& limits = {});

// For a service that publishes often: its statements are prepared once for a connection, which
// saves the server most of the work that is not the row itself. Not for connections through a
// pooler in transaction mode, where the next transaction may be in another session; the functions
// above are. The connection is the caller's and must outlive it.
class Publisher {
 public:
  // Once for each connection, and again after a reset of it; with no transaction open.
  static Result<Publisher> prepare(pg_conn* connection);

  // As the functions of the same names.
  Result<EventId> publish(const NewEvent& event, const EventLimits& limits = {}) const;
  Result<EventId> publish_and_commit(const NewEvent& event, const EventLimits& limits = {}) const;

 private:
  explicit Publisher(pg_conn* connection) : connection_(connection) {}
  pg_conn* connection_;
};

// For a service that reads events by a loop of its own; Consumer in postgres_consumer.h has one.
// From other languages: SELECT dovetail.claim(...), see the comments of these functions in psql.

// Whether this consumer applies the event for the first time: first or duplicate. Call it first in
// the transaction of the effect, and acknowledge the event after the COMMIT, in both cases. Waits
// for another who is claiming the same event. rejected: no transaction is open, or the event is
// older than what the inbox remembers.
Result<Claim::State> claim(pg_conn* transaction, std::string_view consumer, const EventId& id);

// For an effect outside the database: holds the event until the lease ends, by the database's
// clock. With no transaction open. in_progress: another has it; try again later, and do not
// acknowledge it. The effect happens at least once: pass the event id on as idempotency key.
Result<Claim> claim(pg_conn* connection, std::string_view consumer, const EventId& id,
                    std::chrono::milliseconds lease);
// The effect happened; inside the open transaction, or in one of its own. stopped: the lease ended
// and another has taken the event. Then the transaction can only be rolled back.
Status complete_claim(pg_conn* connection, std::string_view consumer, const EventId& id,
                      std::int64_t epoch);
// It did not work this time, which counts; the next claim may come after `retry_after`.
Status fail_claim(pg_conn* connection, std::string_view consumer, const EventId& id,
                  std::int64_t epoch, std::string_view reason = {},
                  std::optional<std::chrono::milliseconds> retry_after = std::nullopt);
// It was not tried; nothing counts.
Status release_claim(pg_conn* connection, std::string_view consumer, const EventId& id,
                     std::int64_t epoch);

}  // namespace dovetail::postgres
