#include "sql/requests.h"

#include <chrono>
#include <optional>
#include <utility>

#include "sql/operate/audit.h"

namespace dovetail {

namespace {

using std::chrono::milliseconds;

// Columns of RequestStatements::find.
enum Found : std::size_t { fingerprint, token, attempts, left, is_expired, status, headers, body };

Result<RequestState> state_of(std::string_view word) {
  for (const RequestState state :
       {RequestState::first, RequestState::finished, RequestState::running, RequestState::unknown,
        RequestState::mismatch})
    if (to_string(state) == word) return state;
  return fail(Errc::corrupt, "the database says that a request is \"" + std::string(word) +
                                 "\"; check that its functions for requests were not changed");
}

std::string text_or_none(const SqlRows& rows, std::size_t column) {
  return rows.is_null(0, column) ? std::string() : rows.bytes(0, column);
}

milliseconds rounded_up(Duration left) { return std::chrono::ceil<milliseconds>(left); }

SqlParams key_params(const RequestKey& request) {
  return SqlParams().text(request.scope).text(request.key);
}

SqlParams take_params(const RequestKey& request, const RequestTerms& terms, const EventId& token) {
  return key_params(request)
      .bytes(request.fingerprint)
      .microseconds(terms.lease)
      .microseconds(terms.keep)
      .id(token);
}

Result<bool> has_changed(const Result<SqlRows>& rows) {
  if (!rows) return fail(rows.error());
  return rows->empty() ? rows->affected() == 1 : rows->boolean(0, 0);
}

RequestRow row_of(const SqlRows& rows, const RequestKey& request, const EventId& token) {
  RequestRow row;
  row.is_finished = rows.integer(0, Found::status) != 0;
  row.is_leased = rows.integer(0, Found::left) > 0;
  row.is_expired = rows.boolean(0, Found::is_expired);
  row.same_fingerprint = rows.bytes(0, Found::fingerprint) == request.fingerprint;
  row.same_token = rows.id(0, Found::token) == token;
  return row;
}

RequestTicket ticket_of(const SqlRows& rows, RequestState state) {
  RequestTicket ticket;
  ticket.state = state;
  ticket.attempts = static_cast<std::uint32_t>(rows.integer(0, Found::attempts));
  if (state == RequestState::finished)
    ticket.response = {static_cast<int>(rows.integer(0, Found::status)),
                       rows.bytes(0, Found::headers), rows.bytes(0, Found::body)};
  if (state == RequestState::running)
    ticket.retry_after = rounded_up(rows.microseconds(0, Found::left));
  return ticket;
}

}  // namespace

Result<RequestTicket> ticket_in(const SqlRows& rows) {
  const Result<RequestState> state = state_of(rows.bytes(0, 0));
  if (!state) return fail(state.error());
  RequestTicket ticket;
  ticket.state = *state;
  if (!rows.is_null(0, 1)) ticket.token = rows.id(0, 1);
  if (!rows.is_null(0, 2)) ticket.response.status = static_cast<int>(rows.integer(0, 2));
  ticket.response.headers = text_or_none(rows, 3);
  ticket.response.body = text_or_none(rows, 4);
  if (!rows.is_null(0, 5)) ticket.retry_after = rounded_up(rows.microseconds(0, 5));
  if (!rows.is_null(0, 6)) ticket.attempts = static_cast<std::uint32_t>(rows.integer(0, 6));
  return ticket;
}

Result<RequestTicket> SqlRequests::lease(const RequestKey& request, const RequestTerms& terms,
                                         const EventId& token) {
  if (terms.lease <= milliseconds{0})
    return fail(Errc::rejected, "lease is not positive; make it longer than the work takes");
  if (terms.keep < terms.lease)
    return fail(Errc::rejected, "lease is longer than keep; shorten lease or raise keep");
  return take(request, terms, token);
}

Result<RequestTicket> SqlRequests::begin(const RequestKey& request, milliseconds keep,
                                         const EventId& token) {
  if (keep < milliseconds{0}) return fail(Errc::rejected, "keep is negative; raise it");
  return take(request, {milliseconds{0}, keep, false}, token);
}

// Most keys are new, so the row is added first, and looked at only if that was not possible.
Result<RequestTicket> SqlRequests::take(const RequestKey& request, const RequestTerms& terms,
                                        const EventId& token) {
  while (true) {
    const Result<SqlRows> taken =
        runner_.run(sql_.take, take_params(request, terms, token).boolean(terms.retry_unknown));
    if (!taken) return fail(taken.error());
    if (!taken->empty()) return ticket_in(*taken);
    if (taken->affected() == 1) return RequestTicket{RequestState::first, token, 1};
    const Result<std::optional<RequestTicket>> met = meet(request, terms, token);
    if (!met) return fail(met.error());
    if (*met) return **met;
  }
}

// Empty: somebody else has changed the row; look again.
Result<std::optional<RequestTicket>> SqlRequests::meet(const RequestKey& request,
                                                       const RequestTerms& terms,
                                                       const EventId& token) {
  const Result<SqlRows> rows = runner_.run(sql_.find, key_params(request));
  if (!rows) return fail(rows.error());
  if (rows->empty()) return std::nullopt;
  const RequestRow row = row_of(*rows, request, token);
  const RequestState state = decide_request(row, terms.retry_unknown);
  RequestTicket ticket = ticket_of(*rows, state);
  if (state != RequestState::first) return ticket;
  ticket.token = token;
  if (row.same_token && !row.is_finished) {
    // The same caller again, who lost our answer. A call that arrives after its release must not
    // take the request: nobody would run it.
    if (!row.is_expired) return ticket;
    return fail(Errc::rejected,
                "the token " + token.to_string() +
                    " is used up: it was released, or has expired; begin the request again with a "
                    "new token");
  }
  ticket.attempts = row.is_expired ? 1 : ticket.attempts + 1;
  const EventId seen = rows->id(0, Found::token);
  const Result<bool> taken =
      has_changed(runner_.run(sql_.take_over, take_params(request, terms, token)
                                                  .integer(ticket.attempts)
                                                  .id(seen)
                                                  .integer(rows->integer(0, Found::status))));
  if (!taken) return fail(taken.error());
  return *taken ? std::optional(std::move(ticket)) : std::nullopt;
}

Result<bool> SqlRequests::finish(const RequestKey& request, const EventId& token,
                                 const StoredResponse& response) {
  return has_changed(runner_.run(sql_.finish, key_params(request)
                                                  .id(token)
                                                  .integer(response.status)
                                                  .text(response.headers)
                                                  .bytes(response.body)));
}

Status SqlRequests::finish_own(const RequestKey& request, const EventId& token,
                               const StoredResponse& response) {
  const Result<bool> kept = finish(request, token, response);
  if (!kept) return fail(kept.error());
  if (*kept) return {};
  return fail(Errc::stopped,
              "another process took this request over; roll back, and make the lease longer "
              "than the work takes");
}

Result<bool> SqlRequests::release(const RequestKey& request, const EventId& token) {
  return has_changed(runner_.run(sql_.release, key_params(request).id(token)));
}

Result<bool> SqlRequests::abandon(const RequestKey& request, const EventId& token) {
  return has_changed(runner_.run(sql_.abandon, key_params(request).id(token)));
}

Result<std::vector<RequestInfo>> SqlRequests::list(const RequestFilter& filter) {
  const std::string_view state = filter.state ? to_string(*filter.state) : std::string_view();
  const Result<SqlRows> rows = runner_.run(
      sql_.list, SqlParams().text(state).integer(static_cast<std::int64_t>(filter.limit)));
  if (!rows) return fail(rows.error());
  std::vector<RequestInfo> found;
  for (std::size_t i = 0; i < rows->size(); ++i) {
    const Result<RequestState> one = state_of(rows->bytes(i, 2));
    if (!one) return fail(one.error());
    found.push_back({rows->bytes(i, 0), rows->bytes(i, 1), *one,
                     static_cast<std::uint32_t>(rows->integer(i, 3)),
                     static_cast<int>(rows->integer(i, 4)), rows->time(i, 5), rows->time(i, 6)});
  }
  return found;
}

Result<bool> SqlRequests::forget(const RequestKey& request, std::string_view reason) {
  DOVETAIL_TRY(check_reason(
      reason, "to forget a request needs a reason; say why the request may run again"));
  return has_changed(runner_.run(sql_.forget, key_params(request).text(reason)));
}

Result<std::uint64_t> SqlRequests::prune(std::size_t rows_max) {
  const Result<SqlRows> rows =
      runner_.run(sql_.prune, SqlParams().integer(static_cast<std::int64_t>(rows_max)));
  if (!rows) return fail(rows.error());
  return count_in(*rows);
}

Status SqlRequestStore::open() {
  session_->close();
  return session_->connect();
}

Result<RequestTicket> SqlRequestStore::begin(const RequestKey& request, const RequestTerms& terms,
                                             const EventId& token) {
  DOVETAIL_TRY(session_->connect());
  return requests_.lease(request, terms, token);
}

Result<bool> SqlRequestStore::finish(const RequestKey& request, const EventId& token,
                                     const StoredResponse& response) {
  DOVETAIL_TRY(session_->connect());
  return requests_.finish(request, token, response);
}

Result<bool> SqlRequestStore::release(const RequestKey& request, const EventId& token) {
  DOVETAIL_TRY(session_->connect());
  return requests_.release(request, token);
}

Result<bool> SqlRequestStore::abandon(const RequestKey& request, const EventId& token) {
  DOVETAIL_TRY(session_->connect());
  return requests_.abandon(request, token);
}

}  // namespace dovetail
