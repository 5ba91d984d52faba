// HTTP requests that are applied once, by the header Idempotency-Key
// (draft-ietf-httpapi-idempotency-key-header): the first request with a key runs and its answer is
// kept; a repeat gets that answer.
//
// Where all of the work happens in one transaction of the database, begin_request() and
// finish_request() stand inside of it, and there is no moment in which a crash leaves anything
// behind. Where the work happens elsewhere, too, lease_request() is committed before it: then
// somebody who dies in between leaves a request whose outcome nobody knows, and which is held until
// it expires. Everything but the databases' functions is pure, and for any thread.
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

// The key inside of the header's value: a string of structured fields, "8e03978e", or, unless
// `quoted_only`, the bare text that most clients send. Both forms of a text are the same key.
// rejected: it is of neither form, or has not 1 to 255 bytes.
Result<std::string> parse_idempotency_key(std::string_view value, bool quoted_only = false);

// What makes two requests the same: method, target as it was sent (path and query), and body.
// 32 bytes; dovetail.request_fingerprint() of PostgreSQL gives the same.
std::string request_fingerprint(std::string_view method, std::string_view target,
                                std::string_view body);

// Names a request. Not copied.
struct RequestKey {
  std::string_view scope;          // whose key it is: a service and its client; at most 255 bytes
  std::string_view key;            // 1 to 255 bytes
  std::string_view fingerprint{};  // at most 64 bytes; only where a request begins
};

enum class RequestState : std::uint8_t {
  first,     // ours: do it, then finish it
  finished,  // `response` is what to answer
  running,   // another is at it: answer 409
  unknown,   // it was begun and never finished; nobody knows what became of it: answer 409
  mismatch,  // the key was used for another request: answer 422
};
std::string_view to_string(RequestState state);

struct StoredResponse {
  int status = 0;  // 100 to 999
  // Text as the service writes it, UTF-8. The gateway writes lines "name: value", with each byte as
  // the character that Latin-1 has for it.
  std::string headers{};
  std::string body{};

  friend bool operator==(const StoredResponse&, const StoredResponse&) = default;
};

struct RequestTicket {
  RequestState state = RequestState::first;
  EventId token{};                           // of the first: proves that it is still ours
  std::uint32_t attempts = 0;                // with this one; of lease_request()
  StoredResponse response{};                 // of one that is finished
  std::chrono::milliseconds retry_after{0};  // of one that is running: when its lease ends
};

struct RequestTerms {
  std::chrono::milliseconds lease{60'000};     // longer than the work can take
  std::chrono::milliseconds keep{86'400'000};  // from the first request on; not below the lease
  // Whether one whose outcome is unknown is tried again. Only where the service itself recognises
  // the key.
  bool retry_unknown = false;
};

// How a refusal looks to the client (RFC 9457).
struct Problem {
  int status = 0;
  std::string type{};  // a URN: machines tell refusals apart by it
  std::string title{};
  std::string detail{};
  int retry_after_s = 0;  // 0: no header Retry-After

  // The body, of the type application/problem+json.
  std::string to_json() const;
};
// None: for the first, and for what is finished.
std::optional<Problem> problem_of(const RequestTicket& ticket);
// 400; `why`: what parse_idempotency_key() said, or empty when there was no header at all.
Problem key_problem(std::string_view why);

namespace postgres {

// Inside the caller's open transaction, before anything else. The row of the first is seen by
// others when that transaction commits; until then they get `running`, or wait for it with `wait`.
Result<RequestTicket> begin_request(pg_conn* transaction, const RequestKey& request,
                                    std::chrono::milliseconds keep = std::chrono::hours(24),
                                    bool wait = false);
// In a transaction of its own. in_doubt, unavailable: call it again with the token of `again`,
// which makes that harmless.
Result<RequestTicket> lease_request(pg_conn* connection, const RequestKey& request,
                                    const RequestTerms& terms = {},
                                    const std::optional<EventId>& again = std::nullopt);
// Inside the caller's transaction, or alone. stopped: another has taken the request over; roll
// back.
Status finish_request(pg_conn* connection, const RequestKey& request, const EventId& token,
                      const StoredResponse& response);
// Nothing was done: the next request with this key runs. False: it was not ours any more.
Result<bool> release_request(pg_conn* connection, const RequestKey& request, const EventId& token);
// Nobody will ever know what was done: ends the lease at once.
Result<bool> abandon_request(pg_conn* connection, const RequestKey& request, const EventId& token);

}  // namespace postgres

namespace sqlite {

// As those of the same names. begin_request() wants a transaction that was opened by BEGIN
// IMMEDIATE; the others work in the one that is open, or in one of their own.
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
