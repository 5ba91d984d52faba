#include "postgres/connection/call.h"

#include <libpq-fe.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <string>

#include "dovetail/postgres.h"
#include "postgres/connection/statement.h"

namespace dovetail::postgres {

namespace {

std::atomic<Duration::rep> limit_us{Duration(std::chrono::seconds(30)).count()};

std::string in_seconds(Duration limit) {
  return std::to_string(std::chrono::ceil<std::chrono::seconds>(limit).count()) + " s";
}

// Otherwise its answer would come only after the application's own sync.
Status require_no_pipeline(const pg_conn* connection) {
  if (PQpipelineStatus(connection) == PQ_PIPELINE_OFF) return {};
  return fail(Errc::rejected,
              "the connection is in pipeline mode; use dovetail/postgres_async.h there, or leave "
              "the mode first");
}

}  // namespace

void set_time_limit(std::chrono::milliseconds limit) {
  limit_us = std::max<Duration>(limit, std::chrono::milliseconds(1)).count();
}

Duration time_limit() { return Duration(limit_us.load()); }

Call::Call(pg_conn* connection, Duration limit)
    : connection_(connection),
      limit_(limit),
      end_(std::chrono::steady_clock::now() + limit),
      did_block_(PQisnonblocking(connection) == 0) {
  if (did_block_) (void)PQsetnonblocking(connection_, 1);
}

Call::~Call() {
  if (did_block_ && PQstatus(connection_) == CONNECTION_OK) (void)PQsetnonblocking(connection_, 0);
}

void Call::cut() {
  is_late_ = std::chrono::steady_clock::now() >= end_;
  if (!is_late_ || PQsocket(connection_) < 0) return;
  // Only the caller may close it; libpq notices the end when it reads.
  (void)::shutdown(PQsocket(connection_), SHUT_RDWR);
  (void)PQconsumeInput(connection_);
}

Rows Call::finish(bool sent) {
  pg_result* const result = sent ? take_results(connection_, end_) : nullptr;
  if (sent && result == nullptr) cut();
  return Rows(result);
}

// False: no answer in time, or the connection is lost.
bool Call::wait() {
  while (true) {
    const int unsent = PQflush(connection_);
    if (unsent < 0) return false;
    if (unsent == 0 && PQisBusy(connection_) == 0) return true;
    if (!wait_for_socket(connection_, unsent == 1, end_)) return false;
    if (PQconsumeInput(connection_) == 0) return false;
  }
}

// A null result ends each statement; the sync's result ends all of them.
Status Call::finish_pipeline(bool sent, std::size_t statements) {
  Status outcome;
  std::size_t done = 0;
  bool is_synced = false;
  while (sent && !is_synced && wait()) {
    const Rows owner(PQgetResult(connection_));
    const pg_result* const result = owner.get();
    if (result == nullptr) continue;
    const ExecStatusType status = PQresultStatus(result);
    is_synced = status == PGRES_PIPELINE_SYNC;
    if (is_synced || status == PGRES_PIPELINE_ABORTED) continue;  // the first error is reported
    if (succeeded(result))
      ++done;
    else if (outcome)
      outcome = fail(error(result, true));
  }
  if (sent && !is_synced) cut();
  if (outcome && done < statements) outcome = fail(error(nullptr, true));
  return outcome;
}

Error Call::error(const pg_result* result, bool during_commit, std::string_view rights_hint) const {
  Error error = server_error(connection_, result, during_commit, rights_hint);
  if (result == nullptr && is_late_)
    error.text = "no answer from the server within " + in_seconds(limit_) +
                 ", so the connection was cut; check the server's load, its locks and the network, "
                 "and open a new connection";
  return error;
}

namespace {

template <class Send>
Result<Rows> call(pg_conn* connection, const Send& send) {
  DOVETAIL_TRY(require_no_pipeline(connection));
  Call one(connection);
  Rows rows = one.finish(send());
  if (!succeeded(rows.get())) return fail(one.error(rows.get()));
  return rows;
}

// `send` sends the statement; COMMIT follows it.
template <class Send>
Status call_and_commit(pg_conn* connection, const Send& send) {
  DOVETAIL_TRY(require_no_pipeline(connection));
  Call one(connection);
  if (PQenterPipelineMode(connection) != 1)
    return fail(Errc::rejected,
                "another statement on this connection is not finished; read its results first");
  const bool sent =
      send() && Statement("COMMIT", {}).send(connection) && PQpipelineSync(connection) == 1;
  Status outcome = one.finish_pipeline(sent, 2);
  (void)PQexitPipelineMode(connection);
  return outcome;
}

}  // namespace

Result<Rows> run(pg_conn* connection, std::string_view sql, const Params& params) {
  return call(connection, [&] { return Statement(sql, params).send(connection); });
}

Result<Rows> run_prepared(pg_conn* connection, const std::string& name, const Params& params) {
  return call(connection, [&] { return Statement(name, params).send_prepared(connection); });
}

Status run_and_commit(pg_conn* connection, std::string_view sql, const Params& params) {
  return call_and_commit(connection, [&] { return Statement(sql, params).send(connection); });
}

Status run_prepared_and_commit(pg_conn* connection, const std::string& name, const Params& params) {
  return call_and_commit(connection,
                         [&] { return Statement(name, params).send_prepared(connection); });
}

Status prepare(pg_conn* connection, const std::string& name, std::string_view sql,
               const Params& params) {
  DOVETAIL_TRY(require_no_pipeline(connection));
  Call one(connection);
  const Rows rows = one.finish(Statement(sql, params).send_prepare(connection, name));
  if (succeeded(rows.get())) return {};
  const char* state = PQresultErrorField(rows.get(), PG_DIAG_SQLSTATE);
  if (state != nullptr && std::string_view(state) == "42P05") return {};  // already prepared
  return fail(one.error(rows.get()));
}

Status run_script(pg_conn* connection, std::string_view sql, Duration limit,
                  std::string_view rights_hint) {
  DOVETAIL_TRY(require_no_pipeline(connection));
  Call one(connection, limit);
  const Rows rows = one.finish(PQsendQuery(connection, std::string(sql).c_str()) == 1);
  if (succeeded(rows.get())) return {};
  return fail(one.error(rows.get(), false, rights_hint));
}

}  // namespace dovetail::postgres
