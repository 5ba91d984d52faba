#include "postgres/work/requests.h"

#include <libpq-fe.h>

#include <algorithm>

#include "core/inbox/clock_mark.h"
#include "host/host.h"
#include "postgres/schema/schema.h"

namespace dovetail::postgres {

namespace {

// Milliseconds as numbers: an interval has no binary form that would be easier.
constexpr std::string_view kBegin =
    "SELECT state, token, status, headers, body, "
    "ceil(extract(epoch FROM retry_after) * 1000)::bigint, 1 "
    "FROM dovetail.begin_request($1, $2, $3, $4 * interval '1 millisecond', $5)";
// The service is called when this is on disk, and a client has its answer when that is.
const std::string kLease =
    "SELECT state, token, status, headers, body, "
    "ceil(extract(epoch FROM retry_after) * 1000)::bigint, attempts, " +
    kDurably +
    " FROM dovetail.lease_request($1, $2, $3, $4 * interval '1 millisecond', "
    "$5 * interval '1 millisecond', $6, $7)";
const std::string kSettle = "SELECT dovetail.settle_request($1, $2, $3, $4, $5, $6), " + kDurably;
constexpr std::string_view kRelease = "SELECT dovetail.release_request($1, $2, $3)";
constexpr std::string_view kAbandon = "SELECT dovetail.abandon_request($1, $2, $3)";
constexpr std::string_view kList =
    "SELECT scope, key, state, attempts, coalesce(status, 0), created_at, expires_at "
    "FROM dovetail.requests WHERE ($1 = '' OR state = $1) ORDER BY created_at LIMIT $2";
constexpr std::string_view kForget = "SELECT dovetail.forget_request($1, $2, $3)";

constexpr std::pair<std::string_view, RequestState> kStates[] = {
    {"first", RequestState::first},
    {"finished", RequestState::finished},
    {"running", RequestState::running},
    {"unknown", RequestState::unknown},
    {"mismatch", RequestState::mismatch}};

Result<RequestState> state_of(std::string_view word) {
  for (const auto& [name, state] : kStates)
    if (name == word) return state;
  return fail(Errc::corrupt, "the database says that a request is \"" + std::string(word) +
                                 "\"; check that dovetail.take_request() was not changed");
}

std::string text_or_none(const Rows& rows, std::size_t row, int column) {
  return rows.is_null(row, column) ? std::string() : std::string(rows.bytea(row, column));
}

Result<RequestTicket> ticket_of(const Result<Rows>& rows) {
  if (!rows) return fail(rows.error());
  const Result<RequestState> state = state_of(rows->text(0, 0));
  if (!state) return fail(state.error());
  RequestTicket ticket;
  ticket.state = *state;
  if (!rows->is_null(0, 1)) ticket.token = rows->uuid(0, 1);
  if (!rows->is_null(0, 2)) ticket.response.status = rows->int4(0, 2);
  ticket.response.headers = text_or_none(*rows, 0, 3);
  ticket.response.body = text_or_none(*rows, 0, 4);
  if (!rows->is_null(0, 5)) ticket.retry_after = std::chrono::milliseconds(rows->int8(0, 5));
  if (!rows->is_null(0, 6)) ticket.attempts = static_cast<std::uint32_t>(rows->int4(0, 6));
  return ticket;
}

Params lease_params(const RequestKey& request, const RequestTerms& terms, const EventId& token) {
  Params params;
  params.text(request.scope).text(request.key).bytea(request.fingerprint);
  params.int8(terms.lease.count()).int8(terms.keep.count());
  params.boolean(terms.retry_unknown).uuid(token);
  return params;
}

Params token_params(const RequestKey& request, const EventId& token) {
  return Params().text(request.scope).text(request.key).uuid(token);
}

Params settle_params(const RequestKey& request, const EventId& token,
                     const StoredResponse& response) {
  Params params = token_params(request, token);
  params.int4(response.status).text(response.headers).bytea(response.body);
  return params;
}

Result<bool> answer_of(const Result<Rows>& rows) {
  if (!rows) return fail(rows.error());
  return rows->boolean(0, 0);
}

}  // namespace

Status PostgresRequestStore::open() {
  connection_.close();
  Result<Connection> connection = Connection::open(conninfo_, limit_);
  if (!connection) return fail(connection.error());
  connection_ = std::move(*connection);
  connection_.set_timeout(limit_);
  return {};
}

// A statement alone is a transaction: one whose answer is lost may have committed. All of ours may
// be done again.
Result<RequestTicket> PostgresRequestStore::begin(const RequestKey& request,
                                                  const RequestTerms& terms, const EventId& token) {
  if (!connection_) DOVETAIL_TRY(open());
  return ticket_of(connection_.query(kLease, lease_params(request, terms, token)));
}

Result<bool> PostgresRequestStore::finish(const RequestKey& request, const EventId& token,
                                          const StoredResponse& response) {
  return ask(kSettle, settle_params(request, token, response));
}

Result<bool> PostgresRequestStore::release(const RequestKey& request, const EventId& token) {
  return ask(kRelease, token_params(request, token));
}

Result<bool> PostgresRequestStore::abandon(const RequestKey& request, const EventId& token) {
  return ask(kAbandon, token_params(request, token));
}

Result<bool> PostgresRequestStore::ask(std::string_view sql, const Params& params) {
  if (!connection_) DOVETAIL_TRY(open());
  return answer_of(connection_.query(sql, params));
}

Result<RequestTicket> begin_request(pg_conn* transaction, const RequestKey& request,
                                    std::chrono::milliseconds keep, bool wait) {
  if (PQtransactionStatus(transaction) != PQTRANS_INTRANS)
    return fail(Errc::rejected,
                "no transaction is open on this connection; begin one first, or use "
                "lease_request()");
  Params params;
  params.text(request.scope).text(request.key).bytea(request.fingerprint);
  params.int8(keep.count()).boolean(wait);
  return ticket_of(run(transaction, kBegin, params));
}

Result<RequestTicket> lease_request(pg_conn* connection, const RequestKey& request,
                                    const RequestTerms& terms,
                                    const std::optional<EventId>& again) {
  const EventId token = again ? *again : new_event_id();
  return ticket_of(run(connection, kLease, lease_params(request, terms, token)));
}

Status finish_request(pg_conn* connection, const RequestKey& request, const EventId& token,
                      const StoredResponse& response) {
  const Result<bool> kept =
      answer_of(run(connection, kSettle, settle_params(request, token, response)));
  if (!kept) return fail(kept.error());
  if (*kept) return {};
  return fail(Errc::stopped,
              "another process took this request over; roll back, and make the lease longer "
              "than the work takes");
}

Result<bool> release_request(pg_conn* connection, const RequestKey& request, const EventId& token) {
  return answer_of(run(connection, kRelease, token_params(request, token)));
}

Result<bool> abandon_request(pg_conn* connection, const RequestKey& request, const EventId& token) {
  return answer_of(run(connection, kAbandon, token_params(request, token)));
}

Result<std::vector<RequestInfo>> list_requests(const std::string& conninfo,
                                               const RequestFilter& filter) {
  Result<Connection> connection = Connection::open(conninfo);
  if (!connection) return fail(connection.error());
  Params params;
  params.text(filter.state ? to_string(*filter.state) : std::string_view());
  params.int8(static_cast<std::int64_t>(filter.limit));
  const Result<Rows> rows = connection->query(kList, params);
  if (!rows) return fail(rows.error());
  std::vector<RequestInfo> found;
  for (std::size_t i = 0; i < rows->size(); ++i) {
    const Result<RequestState> state = state_of(rows->text(i, 2));
    if (!state) return fail(state.error());
    found.push_back({std::string(rows->text(i, 0)), std::string(rows->text(i, 1)), *state,
                     static_cast<std::uint32_t>(rows->int4(i, 3)), rows->int4(i, 4),
                     rows->timestamptz(i, 5), rows->timestamptz(i, 6)});
  }
  return found;
}

Result<std::uint64_t> prune_requests(const std::string& conninfo, std::size_t rows_max) {
  Result<Connection> connection = Connection::open(conninfo);
  if (!connection) return fail(connection.error());
  const Result<Rows> now = connection->query("SELECT pg_catalog.clock_timestamp()");
  if (!now) return fail(now.error());
  const auto apart = clocks_disagree(now->timestamptz(0, 0), system_clock().wall());
  if (apart) return fail(Errc::unavailable, *apart);
  const Result<Rows> rows = connection->query("SELECT dovetail.prune_requests($1)",
                                              Params().int4(static_cast<std::int32_t>(rows_max)));
  if (!rows) return fail(rows.error());
  return static_cast<std::uint64_t>(rows->int8(0, 0));
}

Result<bool> forget_request(const std::string& conninfo, const RequestKey& request,
                            std::string_view reason) {
  Result<Connection> connection = Connection::open(conninfo);
  if (!connection) return fail(connection.error());
  return answer_of(
      connection->query(kForget, Params().text(request.scope).text(request.key).text(reason)));
}

}  // namespace dovetail::postgres
