#include "sqlite/work/requests.h"

#include <limits>
#include <utility>

#include "host/host.h"
#include "sqlite/operate/clock_check.h"

namespace dovetail::sqlite {

namespace {

constexpr std::string_view kFind =
    "SELECT fingerprint, token, attempts, lease_expires, lease_boot, status, headers, body, "
    "expires_at FROM dovetail_request WHERE scope = ?1 AND key = ?2";
constexpr std::string_view kTake =
    "INSERT OR REPLACE INTO dovetail_request (scope, key, fingerprint, token, attempts, "
    "lease_expires, lease_boot, created_at, expires_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, "
    "?9)";
constexpr std::string_view kFinish =
    "UPDATE dovetail_request SET status = ?4, headers = ?5, body = ?6, finished_at = ?7 "
    "WHERE scope = ?1 AND key = ?2 AND token = ?3 AND status = 0";
constexpr std::string_view kHolds =
    "SELECT count(*) FROM dovetail_request WHERE scope = ?1 AND key = ?2 AND token = ?3";
constexpr std::string_view kRelease =
    "DELETE FROM dovetail_request WHERE scope = ?1 AND key = ?2 AND token = ?3 AND status = 0";
constexpr std::string_view kAbandon =
    "UPDATE dovetail_request SET lease_expires = 0, lease_boot = '' "
    "WHERE scope = ?1 AND key = ?2 AND token = ?3 AND status = 0";
constexpr std::string_view kList =
    "SELECT scope, key, CASE WHEN status > 0 THEN 1 WHEN lease_boot = ?1 AND lease_expires > ?2 "
    "THEN 2 ELSE 3 END AS state, attempts, status, created_at, expires_at FROM dovetail_request "
    "WHERE ?3 = 0 OR state = ?3 ORDER BY created_at LIMIT ?4";
constexpr std::string_view kForget =
    "DELETE FROM dovetail_request WHERE scope = ?1 AND key = ?2 "
    "AND (status > 0 OR lease_boot <> ?3 OR lease_expires <= ?4)";
constexpr std::string_view kPrune =
    "DELETE FROM dovetail_request WHERE rowid IN (SELECT rowid FROM dovetail_request "
    "WHERE expires_at <= ?1 AND (status > 0 OR lease_boot <> ?2 OR lease_expires <= ?3) "
    "ORDER BY expires_at LIMIT ?4)";

// The moment, by both clocks, and the boot that one of them counts in.
struct Moment {
  std::int64_t boot_us;
  std::int64_t wall_us;
  std::string_view boot;
};

Moment moment_of(Clock& clock, std::string_view boot) {
  return {clock.now().time_since_epoch().count(), to_stored(clock.wall()), boot};
}

std::int64_t microseconds(std::chrono::milliseconds duration) {
  return std::chrono::duration_cast<std::chrono::microseconds>(duration).count();
}

struct Terms {
  std::optional<std::chrono::milliseconds> lease;  // none: inside of a transaction
  std::chrono::milliseconds keep;
  bool retry_unknown;
};

// Inside a transaction that may write.
Result<RequestTicket> take(sqlite3* connection, const RequestKey& request, const Terms& terms,
                           const EventId& token, const Moment& now) {
  if (terms.keep < terms.lease.value_or(std::chrono::milliseconds(0)))
    return fail(Errc::rejected, "lease is longer than keep; shorten lease or raise keep");
  Result<Statement> find = Statement::prepare(connection, kFind);
  if (!find) return fail(find.error());
  const Result<bool> there = find->bind_text(1, request.scope).bind_text(2, request.key).step();
  if (!there) return fail(there.error());
  RequestTicket ticket;
  ticket.attempts = 1;
  if (*there) {
    RequestRow row;
    row.is_finished = find->integer(5) != 0;
    row.is_leased = find->bytes(4) == now.boot && find->integer(3) > now.boot_us;
    row.is_expired = find->integer(8) <= now.wall_us;
    row.same_fingerprint = find->bytes(0) == request.fingerprint;
    row.same_token = find->id(1) == token;
    ticket.state = decide_request(row, terms.retry_unknown);
    ticket.attempts = static_cast<std::uint32_t>(find->integer(2));
    if (ticket.state == RequestState::finished)
      ticket.response = {static_cast<int>(find->integer(5)), std::string(find->bytes(6)),
                         std::string(find->bytes(7))};
    if (ticket.state == RequestState::running)
      ticket.retry_after =
          std::chrono::ceil<std::chrono::milliseconds>(Duration(find->integer(3) - now.boot_us));
    if (ticket.state != RequestState::first) return ticket;
    if (row.same_token && !row.is_finished) {
      ticket.token = token;
      return ticket;
    }
    ticket.attempts = row.is_expired ? 1 : ticket.attempts + 1;
  }
  find->reset();
  Result<Statement> add = Statement::prepare(connection, kTake);
  if (!add) return fail(add.error());
  ticket.token = token;
  add->bind_text(1, request.scope)
      .bind_text(2, request.key)
      .bind_blob(3, request.fingerprint)
      .bind_id(4, token)
      .bind(5, ticket.attempts)
      .bind(6, terms.lease ? now.boot_us + microseconds(*terms.lease) : 0)
      .bind_text(7, terms.lease ? now.boot : std::string_view())
      .bind(8, now.wall_us)
      .bind(9, now.wall_us + microseconds(terms.keep));
  DOVETAIL_TRY(add->run());
  return ticket;
}

Result<bool> change(sqlite3* connection, std::string_view sql, const RequestKey& request,
                    const EventId& token) {
  Result<Statement> statement = Statement::prepare(connection, sql);
  if (!statement) return fail(statement.error());
  statement->bind_text(1, request.scope).bind_text(2, request.key).bind_id(3, token);
  DOVETAIL_TRY(statement->run());
  return statement->changes() == 1;
}

Result<bool> settle(sqlite3* connection, const RequestKey& request, const EventId& token,
                    const StoredResponse& response, const Moment& now) {
  Result<Statement> finish = Statement::prepare(connection, kFinish);
  if (!finish) return fail(finish.error());
  finish->bind_text(1, request.scope)
      .bind_text(2, request.key)
      .bind_id(3, token)
      .bind(4, response.status)
      .bind_text(5, response.headers)
      .bind_blob(6, response.body)
      .bind(7, now.wall_us);
  DOVETAIL_TRY(finish->run());
  if (finish->changes() == 1) return true;
  Result<Statement> holds = Statement::prepare(connection, kHolds);
  if (!holds) return fail(holds.error());
  holds->bind_text(1, request.scope).bind_text(2, request.key).bind_id(3, token);
  const Result<bool> row = holds->step();
  if (!row) return fail(row.error());
  return holds->integer(0) == 1;
}

// Runs `work` in the transaction that is open, or in one of its own.
template <class Work>
auto in_transaction_of(sqlite3* connection, std::string_view doing, const Work& work)
    -> decltype(work()) {
  if (in_transaction(connection)) return work();
  Result<Transaction> transaction = Transaction::begin(connection, doing);
  if (!transaction) return fail(transaction.error());
  auto done = work();
  if (!done) return done;
  DOVETAIL_TRY(transaction->commit(doing));
  return done;
}

}  // namespace

SqliteRequestStore::SqliteRequestStore(std::string path, Clock& clock, std::string boot)
    : path_(std::move(path)), clock_(clock), boot_(std::move(boot)) {}

Status SqliteRequestStore::open() {
  database_.close();
  Result<Database> database = open_store(path_);
  if (!database) return fail(database.error());
  database_ = std::move(*database);
  file_ = database_.file();
  return {};
}

Result<RequestTicket> SqliteRequestStore::begin(const RequestKey& request,
                                                const RequestTerms& terms, const EventId& token) {
  if (!database_) DOVETAIL_TRY(open());
  auto ticket = in_transaction_of(database_.get(), "beginning a request", [&] {
    return take(database_.get(), request, {terms.lease, terms.keep, terms.retry_unknown}, token,
                moment_of(clock_, boot_));
  });
  if (ticket) checkpointer_.after_commit(database_.get(), file_);
  return ticket;
}

Result<bool> SqliteRequestStore::finish(const RequestKey& request, const EventId& token,
                                        const StoredResponse& response) {
  if (!database_) DOVETAIL_TRY(open());
  auto kept = in_transaction_of(database_.get(), "finishing a request", [&] {
    return settle(database_.get(), request, token, response, moment_of(clock_, boot_));
  });
  if (kept) checkpointer_.after_commit(database_.get(), file_);
  return kept;
}

Result<bool> SqliteRequestStore::release(const RequestKey& request, const EventId& token) {
  if (!database_) DOVETAIL_TRY(open());
  return in_transaction_of(database_.get(), "releasing a request",
                           [&] { return change(database_.get(), kRelease, request, token); });
}

Result<bool> SqliteRequestStore::abandon(const RequestKey& request, const EventId& token) {
  if (!database_) DOVETAIL_TRY(open());
  return in_transaction_of(database_.get(), "giving a request up",
                           [&] { return change(database_.get(), kAbandon, request, token); });
}

Result<RequestTicket> begin_request(sqlite3* transaction, const RequestKey& request,
                                    std::chrono::milliseconds keep) {
  if (!in_transaction(transaction))
    return fail(Errc::rejected,
                "no transaction is open on this connection; begin one first (BEGIN IMMEDIATE), or "
                "use lease_request()");
  return take(transaction, request, {std::nullopt, keep, false}, new_event_id(),
              moment_of(system_clock(), boot_id()));
}

Result<RequestTicket> lease_request(sqlite3* connection, const RequestKey& request,
                                    const RequestTerms& terms,
                                    const std::optional<EventId>& again) {
  return in_transaction_of(connection, "beginning a request", [&] {
    return take(connection, request, {terms.lease, terms.keep, terms.retry_unknown},
                again ? *again : new_event_id(), moment_of(system_clock(), boot_id()));
  });
}

Status finish_request(sqlite3* connection, const RequestKey& request, const EventId& token,
                      const StoredResponse& response) {
  const Result<bool> kept = in_transaction_of(connection, "finishing a request", [&] {
    return settle(connection, request, token, response, moment_of(system_clock(), boot_id()));
  });
  if (!kept) return fail(kept.error());
  if (*kept) return {};
  return fail(Errc::stopped,
              "another process took this request over; roll back, and make the lease longer "
              "than the work takes");
}

Result<bool> release_request(sqlite3* connection, const RequestKey& request, const EventId& token) {
  return in_transaction_of(connection, "releasing a request",
                           [&] { return change(connection, kRelease, request, token); });
}

Result<bool> abandon_request(sqlite3* connection, const RequestKey& request, const EventId& token) {
  return in_transaction_of(connection, "giving a request up",
                           [&] { return change(connection, kAbandon, request, token); });
}

Result<std::vector<RequestInfo>> list_requests(const std::string& path, const RequestFilter& filter,
                                               Clock& clock, const std::string& boot) {
  Result<Database> database = open_store(path);
  if (!database) return fail(database.error());
  Result<Statement> list = database->prepare(kList);
  if (!list) return fail(list.error());
  const Moment now = moment_of(clock, boot);
  list->bind_text(1, now.boot)
      .bind(2, now.boot_us)
      .bind(3, filter.state ? static_cast<std::int64_t>(*filter.state) : 0)
      .bind(4, static_cast<std::int64_t>(filter.limit));
  std::vector<RequestInfo> found;
  while (true) {
    const Result<bool> row = list->step();
    if (!row) return fail(row.error());
    if (!*row) return found;
    found.push_back({std::string(list->bytes(0)), std::string(list->bytes(1)),
                     static_cast<RequestState>(list->integer(2)),
                     static_cast<std::uint32_t>(list->integer(3)),
                     static_cast<int>(list->integer(4)), from_stored(list->integer(5)),
                     from_stored(list->integer(6))});
  }
}

Result<bool> forget_request(const std::string& path, const RequestKey& request, Clock& clock,
                            const std::string& boot) {
  Result<Database> database = open_store(path);
  if (!database) return fail(database.error());
  Result<Statement> forget = database->prepare(kForget);
  if (!forget) return fail(forget.error());
  const Moment now = moment_of(clock, boot);
  forget->bind_text(1, request.scope).bind_text(2, request.key);
  DOVETAIL_TRY(forget->bind_text(3, now.boot).bind(4, now.boot_us).run());
  return forget->changes() == 1;
}

Result<std::uint64_t> prune_requests(const std::string& path, std::size_t rows_max, Clock& clock,
                                     const std::string& boot) {
  Result<Database> database = open_store(path);
  if (!database) return fail(database.error());
  DOVETAIL_TRY(check_clock(*database, boot, {clock.wall(), clock.now()}));
  return prune_requests(database->get(), rows_max, clock, boot);
}

Result<std::uint64_t> prune_requests(sqlite3* connection, std::size_t rows_max, Clock& clock,
                                     const std::string& boot) {
  Result<Statement> prune = Statement::prepare(connection, kPrune);
  if (!prune) return fail(prune.error());
  const Moment now = moment_of(clock, boot);
  prune->bind(1, now.wall_us).bind_text(2, now.boot).bind(3, now.boot_us);
  DOVETAIL_TRY(prune->bind(4, static_cast<std::int64_t>(rows_max)).run());
  return static_cast<std::uint64_t>(prune->changes());
}

}  // namespace dovetail::sqlite
