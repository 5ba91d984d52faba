// HTTP requests that run once, as rows of a database. See core/inbox/request.h.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/inbox/request.h"
#include "sql/session.h"

namespace dovetail {

// $1 scope and $2 key, unless said otherwise. A statement that changes a request changes one row or
// none, or returns whether it has.
struct RequestStatements {
  // $3 fingerprint, $4 lease in microseconds (0: the caller's transaction runs it), $5 how long it
  // is kept, in microseconds, $6 token, $7 whether an unknown outcome may run again. Adds a request
  // whose key is new.
  //
  // A database that has the rules in functions, because services in every language call them,
  // returns the columns of a ticket instead, whatever it finds. It needs no `find` and `take_over`.
  // The columns: state, token (or null), status, headers, body (or null), microseconds until the
  // lease ends (or null), attempts.
  std::string take;
  // Returns fingerprint, token, attempts, microseconds until the lease ends (0: it has ended),
  // whether it has expired, status (0: not finished), headers, body. It must see the row that was
  // in the way of `take`, whatever the caller's isolation level.
  std::string find{};
  // $1 to $6 as in `take`, $7 attempts, $8 token and $9 status that it has. Begins it anew, unless
  // it has another token or status by now.
  std::string take_over{};
  // $3 token, $4 status, $5 headers, $6 body. Changes the row of this token, but keeps an answer
  // that is there.
  std::string finish;
  // $3 token. Deletes what is not finished. If a call may arrive after a later one, the row must
  // stay, expired: see SqlRequests::take().
  std::string release;
  // $3 token. Ends the lease of what is not finished.
  std::string abandon;
  // $1 state (empty: all), $2 rows. Returns scope, key, state, attempts, status, created, expires.
  std::string list;
  // $3 reason. Deletes a request that is not running.
  std::string forget;
  // $1 rows. Deletes expired requests that are not running, the oldest first. Changes rows, or
  // returns how many.
  std::string prune;
};

// The rules of requests. Each call but list() is one statement for a new key, and needs no
// transaction: a statement that takes a row over changes nothing if somebody was faster.
class SqlRequests {
 public:
  // Both must outlive this.
  SqlRequests(SqlRunner& runner, const RequestStatements& sql) : runner_(runner), sql_(sql) {}

  // Outside of a transaction, before the work.
  Result<RequestTicket> lease(const RequestKey& request, const RequestTerms& terms,
                              const EventId& token);
  // Inside the transaction of the work.
  Result<RequestTicket> begin(const RequestKey& request, std::chrono::milliseconds keep,
                              const EventId& token);
  // False: another process has taken the request over.
  Result<bool> finish(const RequestKey& request, const EventId& token,
                      const StoredResponse& response);
  // The same for a service, as an error that makes it roll back.
  Status finish_own(const RequestKey& request, const EventId& token,
                    const StoredResponse& response);
  Result<bool> release(const RequestKey& request, const EventId& token);
  Result<bool> abandon(const RequestKey& request, const EventId& token);

  Result<std::vector<RequestInfo>> list(const RequestFilter& filter);
  // rejected: no reason.
  Result<bool> forget(const RequestKey& request, std::string_view reason);
  Result<std::uint64_t> prune(std::size_t rows_max);

 private:
  Result<RequestTicket> take(const RequestKey& request, const RequestTerms& terms,
                             const EventId& token);
  Result<std::optional<RequestTicket>> meet(const RequestKey& request, const RequestTerms& terms,
                                            const EventId& token);

  SqlRunner& runner_;
  const RequestStatements& sql_;
};

// The columns of a ticket: see RequestStatements::take.
Result<RequestTicket> ticket_in(const SqlRows& rows);

class SqlRequestStore : public RequestStore {
 public:
  SqlRequestStore(std::unique_ptr<SqlSession> session, const RequestStatements& sql)
      : session_(std::move(session)), requests_(*session_, sql) {}

  Status open() override;
  Result<RequestTicket> begin(const RequestKey& request, const RequestTerms& terms,
                              const EventId& token) override;
  Result<bool> finish(const RequestKey& request, const EventId& token,
                      const StoredResponse& response) override;
  Result<bool> release(const RequestKey& request, const EventId& token) override;
  Result<bool> abandon(const RequestKey& request, const EventId& token) override;

 private:
  std::unique_ptr<SqlSession> session_;
  SqlRequests requests_;
};

}  // namespace dovetail
