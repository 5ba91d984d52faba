#include "sqlite/work/requests.h"

#include <utility>

#include "host/host.h"
#include "sqlite/connection/session.h"
#include "sqlite/operate/clock_statements.h"

namespace dovetail::sqlite {

namespace {

const std::string kOfKey = " WHERE scope = $1 AND key = $2";
const std::string kOfRequestHolder = kOfKey + " AND token = $3";
const std::string kIsRunning = "(lease_boot = :boot AND lease_expires > :boot_time)";

// The connection of a service, whose transactions are its own.
struct Service {
  explicit Service(sqlite3* connection) : session(connection, system_clock(), boot_id()) {}
  SqliteSession session;
  SqlRequests requests{session, request_statements()};
};

}  // namespace

const RequestStatements& request_statements() {
  static const RequestStatements statements = {
      .take =
          "INSERT INTO dovetail_request (scope, key, fingerprint, token, lease_expires, "
          "lease_boot, created_at, expires_at) VALUES ($1, $2, $3, $6, CASE WHEN $4 > 0 THEN "
          ":boot_time + $4 ELSE 0 END, CASE WHEN $4 > 0 THEN :boot ELSE '' END, :now, :now + $5) "
          "ON CONFLICT (scope, key) DO NOTHING",
      .find = "SELECT fingerprint, token, attempts, CASE WHEN " + kIsRunning +
              " THEN lease_expires - :boot_time ELSE 0 END, expires_at <= :now, status, headers, "
              "body FROM dovetail_request" +
              kOfKey,
      .take_over =
          "UPDATE dovetail_request SET fingerprint = $3, token = $6, attempts = $7, "
          "lease_expires = CASE WHEN $4 > 0 THEN :boot_time + $4 ELSE 0 END, lease_boot = CASE "
          "WHEN $4 > 0 THEN :boot ELSE '' END, status = 0, headers = '', body = x'', created_at = "
          ":now, finished_at = 0, expires_at = :now + $5" +
          kOfKey + " AND token = $8 AND status = $9",
      .finish =
          "UPDATE dovetail_request SET headers = CASE status WHEN 0 THEN $5 ELSE headers END, body "
          "= CASE status WHEN 0 THEN $6 ELSE body END, finished_at = CASE status WHEN 0 THEN :now "
          "ELSE finished_at END, status = CASE status WHEN 0 THEN $4 ELSE status END" +
          kOfRequestHolder,
      .release = "DELETE FROM dovetail_request" + kOfRequestHolder + " AND status = 0",
      .abandon = "UPDATE dovetail_request SET lease_boot = '', lease_expires = 0" +
                 kOfRequestHolder + " AND status = 0",
      .list = "SELECT scope, key, CASE WHEN status > 0 THEN 'finished' WHEN " + kIsRunning +
              " THEN 'running' ELSE 'unknown' END AS state, attempts, status, created_at, "
              "expires_at FROM dovetail_request WHERE $1 = '' OR state = $1 ORDER BY created_at "
              "LIMIT $2",
      .forget =
          "DELETE FROM dovetail_request" + kOfKey + " AND (status > 0 OR NOT " + kIsRunning + ")",
      .prune =
          "DELETE FROM dovetail_request WHERE rowid IN (SELECT rowid FROM dovetail_request WHERE "
          "expires_at <= :now AND (status > 0 OR NOT " +
          kIsRunning + ") ORDER BY expires_at LIMIT $1)"};
  return statements;
}

SqliteRequestStore::SqliteRequestStore(std::string path, Clock& clock, std::string boot)
    : SqlRequestStore(std::make_unique<SqliteSession>(std::move(path), Durability::full, clock,
                                                      std::move(boot)),
                      request_statements()) {}

Result<RequestTicket> begin_request(sqlite3* transaction, const RequestKey& request,
                                    std::chrono::milliseconds keep) {
  if (!in_transaction(transaction))
    return fail(Errc::rejected,
                "no transaction is open on this connection; begin one first (BEGIN IMMEDIATE), or "
                "use lease_request()");
  return Service(transaction).requests.begin(request, keep, new_event_id());
}

Result<RequestTicket> lease_request(sqlite3* connection, const RequestKey& request,
                                    const RequestTerms& terms,
                                    const std::optional<EventId>& again) {
  return Service(connection).requests.lease(request, terms, again ? *again : new_event_id());
}

Status finish_request(sqlite3* connection, const RequestKey& request, const EventId& token,
                      const StoredResponse& response) {
  return Service(connection).requests.finish_own(request, token, response);
}

Result<bool> release_request(sqlite3* connection, const RequestKey& request, const EventId& token) {
  return Service(connection).requests.release(request, token);
}

Result<bool> abandon_request(sqlite3* connection, const RequestKey& request, const EventId& token) {
  return Service(connection).requests.abandon(request, token);
}

Result<std::vector<RequestInfo>> list_requests(const std::string& path, const RequestFilter& filter,
                                               Clock& clock, const std::string& boot) {
  SqliteSession session(path, Durability::full, clock, boot);
  DOVETAIL_TRY(session.connect());
  return SqlRequests(session, request_statements()).list(filter);
}

Result<bool> forget_request(const std::string& path, const RequestKey& request,
                            std::string_view reason, Clock& clock, const std::string& boot) {
  SqliteSession session(path, Durability::full, clock, boot);
  DOVETAIL_TRY(session.connect());
  return SqlRequests(session, request_statements()).forget(request, reason);
}

Result<std::uint64_t> prune_requests(const std::string& path, std::size_t rows_max, Clock& clock,
                                     const std::string& boot) {
  SqliteSession session(path, Durability::full, clock, boot);
  DOVETAIL_TRY(session.connect());
  const Result<WallTime> now = trusted_now(session, clock_statements(), clock, boot, path);
  if (!now) return fail(now.error());
  return SqlRequests(session, request_statements()).prune(rows_max);
}

}  // namespace dovetail::sqlite
