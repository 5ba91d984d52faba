#include "postgres/work/requests.h"

#include <libpq-fe.h>

#include <utility>

#include "dovetail/idempotency.h"
#include "host/host.h"
#include "postgres/connection/session.h"
#include "postgres/operate/clock_statements.h"
#include "postgres/schema/schema.h"

namespace dovetail::postgres {

namespace {

// Of a ticket. A role may call the functions and sees no table behind them.
const std::string kTicket =
    "SELECT state, token, status, headers, body, (extract(epoch FROM retry_after) * "
    "1000000)::bigint, ";

// $1 scope, $2 key, $3 fingerprint, $4 how long it is kept, in microseconds, $5 whether to wait.
const std::string kBegin =
    kTicket + "1 FROM dovetail.begin_request($1, $2, $3, $4 * interval '1 microsecond', $5)";

// The connection of a service, whose transactions are its own.
struct Service {
  explicit Service(pg_conn* connection) : runner(connection) {}
  ServiceConnection runner;
  SqlRequests requests{runner, request_statements()};
};

}  // namespace

const RequestStatements& request_statements() {
  static const RequestStatements statements = {
      // The service is called when this is on disk, and a client has its answer when that is.
      .take = kTicket + "attempts, " + kDurably +
              " FROM dovetail.lease_request($1, $2, $3, $4 * interval '1 microsecond', $5 * "
              "interval '1 microsecond', $7, $6)",
      .finish = "SELECT dovetail.settle_request($1, $2, $3, $4::int, $5, $6), " + kDurably,
      .release = "SELECT dovetail.release_request($1, $2, $3)",
      .abandon = "SELECT dovetail.abandon_request($1, $2, $3)",
      .list =
          "SELECT scope, key, state, attempts, coalesce(status, 0), created_at, expires_at FROM "
          "dovetail.requests WHERE $1 = '' OR state = $1 ORDER BY created_at LIMIT $2",
      .forget = "SELECT dovetail.forget_request($1, $2, $3)",
      .prune = "SELECT dovetail.prune_requests($1::int)"};
  return statements;
}

PostgresRequestStore::PostgresRequestStore(std::string conninfo, Duration limit)
    : SqlRequestStore(std::make_unique<OwnSession>(std::move(conninfo), limit, limit),
                      request_statements()) {}

Result<RequestTicket> begin_request(pg_conn* transaction, const RequestKey& request,
                                    std::chrono::milliseconds keep, bool wait) {
  if (PQtransactionStatus(transaction) != PQTRANS_INTRANS)
    return fail(Errc::rejected,
                "no transaction is open on this connection; begin one first, or use "
                "lease_request()");
  const Result<SqlRows> rows = ServiceConnection(transaction)
                                   .run(kBegin, SqlParams()
                                                    .text(request.scope)
                                                    .text(request.key)
                                                    .bytes(request.fingerprint)
                                                    .microseconds(keep)
                                                    .boolean(wait));
  if (!rows) return fail(rows.error());
  return ticket_in(*rows);
}

Result<RequestTicket> lease_request(pg_conn* connection, const RequestKey& request,
                                    const RequestTerms& terms,
                                    const std::optional<EventId>& again) {
  return Service(connection).requests.lease(request, terms, again ? *again : new_event_id());
}

Status finish_request(pg_conn* connection, const RequestKey& request, const EventId& token,
                      const StoredResponse& response) {
  return Service(connection).requests.finish_own(request, token, response);
}

Result<bool> release_request(pg_conn* connection, const RequestKey& request, const EventId& token) {
  return Service(connection).requests.release(request, token);
}

Result<bool> abandon_request(pg_conn* connection, const RequestKey& request, const EventId& token) {
  return Service(connection).requests.abandon(request, token);
}

Result<std::vector<RequestInfo>> list_requests(const std::string& conninfo,
                                               const RequestFilter& filter) {
  OwnSession session(conninfo);
  DOVETAIL_TRY(session.connect());
  return SqlRequests(session, request_statements()).list(filter);
}

// Deletes nothing. A gateway's role reads no table but that of the version.
Status check_requests(const std::string& conninfo) {
  Result<Connection> connection = Connection::open(conninfo);
  if (!connection) return fail(connection.error());
  DOVETAIL_TRY(check_schema(*connection));
  PostgresSession session(*connection);
  const Result<std::uint64_t> none = SqlRequests(session, request_statements()).prune(0);
  if (!none) return fail(none.error());
  return {};
}

// A gateway's role may not write marks of the clock.
Result<std::uint64_t> prune_requests(const std::string& conninfo, std::size_t rows_max) {
  OwnSession session(conninfo);
  DOVETAIL_TRY(session.connect());
  DOVETAIL_TRY(check_clocks_agree(session, clock_statements(), system_clock()));
  return SqlRequests(session, request_statements()).prune(rows_max);
}

Result<bool> forget_request(const std::string& conninfo, const RequestKey& request,
                            std::string_view reason) {
  OwnSession session(conninfo);
  DOVETAIL_TRY(session.connect());
  return SqlRequests(session, request_statements()).forget(request, reason);
}

}  // namespace dovetail::postgres
