// Runs an HTTP request once, by its header Idempotency-Key
// (draft-ietf-httpapi-idempotency-key-header): the first request with a key runs, and its answer
// is kept. A repeated request gets that answer.
//
// If all work happens in one database transaction, call begin_request() and finish_request()
// inside it: a crash then leaves nothing behind. If some work happens elsewhere, commit
// lease_request() before it: a crash in between then leaves a request with an unknown outcome,
// which is held until it expires. All functions without a database are pure; any thread may call
// them.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "dovetail/event.h"
#include "dovetail/result.h"

struct pg_conn;  // libpq's PGconn
struct sqlite3;

namespace dovetail {

// Reads the key from the header's value: a string of structured fields, "8e03978e", or, unless
// `quoted_only`, the bare text that most clients send. Both forms give the same key. rejected: the
// value has neither form, or the key does not have 1 to 255 bytes.
Result<std::string> parse_idempotency_key(std::string_view value, bool quoted_only = false);

// Two requests are the same if method, target as sent (path and query) and body are the same. 32
// bytes; dovetail.request_fingerprint() of PostgreSQL gives the same value.
std::string request_fingerprint(std::string_view method, std::string_view target,
                                std::string_view body);

// Names a request. The views are not copied.
struct RequestKey {
  std::string_view scope;          // who sends it: a service and its client; at most 255 bytes
  std::string_view key;            // 1 to 255 bytes
  std::string_view fingerprint{};  // at most 64 bytes; only needed where a request begins
};

enum class RequestState : std::uint8_t {
  first,     // do the work, then call finish_request()
  finished,  // answer with `response`
  running,   // another process works on it: answer 409
  unknown,   // it began and never finished; its outcome is unknown: answer 409
  mismatch,  // the key was used for another request: answer 422
};
std::string_view to_string(RequestState state);

struct StoredResponse {
  int status = 0;  // 100 to 999
  // UTF-8 text in the service's own format. The gateway writes lines "name: value" and stores each
  // byte as the character that it is in Latin-1.
  std::string headers{};
  std::string body{};

  friend bool operator==(const StoredResponse&, const StoredResponse&) = default;
};

struct RequestTicket {
  RequestState state = RequestState::first;
  EventId token{};                           // of `first`: proves that it is still ours
  std::uint32_t attempts = 0;                // including this one; set by lease_request()
  StoredResponse response{};                 // of `finished`
  std::chrono::milliseconds retry_after{0};  // of `running`: the time until its lease ends
};

struct RequestTerms {
  std::chrono::milliseconds lease{60'000};     // longer than the work takes
  std::chrono::milliseconds keep{86'400'000};  // from the first request on; at least the lease
  // Whether a request with an unknown outcome may run again. Set it only if the service itself
  // recognises the key.
  bool retry_unknown = false;
};

// An error answer for the client (RFC 9457).
struct Problem {
  int status = 0;
  std::string type{};  // a URN by which programs tell the errors apart
  std::string title{};
  std::string detail{};
  int retry_after_s = 0;  // 0: no header Retry-After

  // The body, of the type application/problem+json.
  std::string to_json() const;
};
// Empty for `first` and `finished`.
std::optional<Problem> problem_of(const RequestTicket& ticket);
// 400. `why`: the error of parse_idempotency_key(), or empty if the header is missing.
Problem key_problem(std::string_view why);

namespace postgres {

// These functions wait for the server as long as set_time_limit() of dovetail/postgres.h says.

// Call it first in the caller's open transaction. Others see the row when that transaction commits.
// Until then they get `running`, or wait if they passed `wait`.
Result<RequestTicket> begin_request(pg_conn* transaction, const RequestKey& request,
                                    std::chrono::milliseconds keep = std::chrono::hours(24),
                                    bool wait = false);
// Runs in a transaction of its own. After in_doubt or unavailable, call it again with the same
// token in `again`: that is harmless.
Result<RequestTicket> lease_request(pg_conn* connection, const RequestKey& request,
                                    const RequestTerms& terms = {},
                                    const std::optional<EventId>& again = std::nullopt);
// Inside the caller's transaction, or in one of its own. stopped: another process has taken the
// request over; roll back.
Status finish_request(pg_conn* connection, const RequestKey& request, const EventId& token,
                      const StoredResponse& response);
// No work was done: the next request with this key runs. False: the request was not ours any more.
Result<bool> release_request(pg_conn* connection, const RequestKey& request, const EventId& token);
// The outcome will stay unknown: ends the lease at once.
Result<bool> abandon_request(pg_conn* connection, const RequestKey& request, const EventId& token);

}  // namespace postgres

namespace sqlite {

// The same functions for SQLite. begin_request() needs a transaction opened by BEGIN IMMEDIATE; the
// others use the open transaction, or one of their own.
Result<RequestTicket> begin_request(sqlite3* transaction, const RequestKey& request,
                                    std::chrono::milliseconds keep = std::chrono::hours(24));
Result<RequestTicket> lease_request(sqlite3* connection, const RequestKey& request,
                                    const RequestTerms& terms = {},
                                    const std::optional<EventId>& again = std::nullopt);
Status finish_request(sqlite3* connection, const RequestKey& request, const EventId& token,
                      const StoredResponse& response);
Result<bool> release_request(sqlite3* connection, const RequestKey& request, const EventId& token);
Result<bool> abandon_request(sqlite3* connection, const RequestKey& request, const EventId& token);

}  // namespace sqlite

}  // namespace dovetail
