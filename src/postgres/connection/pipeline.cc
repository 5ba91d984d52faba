#include "postgres/connection/pipeline.h"

#include <libpq-fe.h>

#include <utility>

#include "core/check.h"

namespace dovetail::postgres {

namespace {

constexpr std::size_t kFlushBytes = 64 << 10;

}  // namespace

Pipeline::Pipeline(Connection connection) : connection_(std::move(connection)) {
  if (connection_ && PQenterPipelineMode(raw()) != 1) close();
}

void Pipeline::close() {
  connection_.close();
  expected_.clear();
  rows_.clear();
  parsed_.clear();
  unsent_bytes_ = 0;
  is_lent_ = false;
}

// After an error of a statement, only libpq knows whether the connection is lost, too.
void Pipeline::note_loss() {
  is_lost_ = !has_failed_ || (connection_ && PQstatus(raw()) != CONNECTION_OK);
}

bool Pipeline::is_lost() const {
  return is_lost_ || (connection_ && PQstatus(raw()) != CONNECTION_OK);
}

Status Pipeline::lose(std::string_view why) {
  note_loss();
  close();
  if (has_failed_) return fail(error_);
  return fail(Errc::unavailable, std::string(why));
}

Status Pipeline::send(std::string_view sql, const Params& params, Answer answer) {
  if (!connection_) return fail(Errc::unavailable, "the connection is lost; open it again");
  DOVETAIL_CHECK(!is_lent_ && !sql.empty());
  bool sent = true;
  if (parsed_ != sql) {
    sent = send_prepare(raw(), sql, params);
    expected_.push_back(Expected::dropped);
    parsed_ = sql;
  }
  sent = sent && send_prepared(raw(), params, answer == Answer::kept);
  if (!sent) return lose("the connection is lost; check that the server runs");
  expected_.push_back(answer == Answer::kept ? Expected::kept : Expected::dropped);
  unsent_bytes_ += params.bytes() + sql.size() + 50;
  return unsent_bytes_ < kFlushBytes ? Status{} : flush_some();
}

// Waits for the socket only until it takes our bytes.
Status Pipeline::flush_some() {
  unsent_bytes_ = 0;
  const auto end = std::chrono::steady_clock::now() + timeout_;
  while (true) {
    const int unsent = PQflush(raw());
    if (unsent < 0 || PQconsumeInput(raw()) == 0)
      return lose("the connection is lost; check that the server runs");
    while (!expected_.empty() && PQisBusy(raw()) == 0)
      if (!take_result()) return lose("the connection is lost; check that the server runs");
    if (unsent == 0) return {};
    if (!wait_for_socket(raw(), true, end))
      return lose("no answer from the server in time; check its load and the network");
  }
}

// Takes the next result, which has arrived. False: the connection cannot be used any more.
bool Pipeline::take_result() {
  Rows rows(PQgetResult(raw()));
  const pg_result* const result = rows.get();
  if (result == nullptr) {
    // It ends the results of one statement; a sync has no such end.
    if (expected_.front() != Expected::sync) expected_.pop_front();
    return PQstatus(raw()) == CONNECTION_OK;
  }
  switch (PQresultStatus(result)) {
    case PGRES_PIPELINE_SYNC:
      expected_.pop_front();
      return true;
    case PGRES_PIPELINE_ABORTED:
      return true;
    case PGRES_COMMAND_OK:
    case PGRES_TUPLES_OK:
    case PGRES_EMPTY_QUERY:
      if (expected_.front() == Expected::kept) rows_.push_back(std::move(rows));
      return true;
    case PGRES_COPY_IN:
    case PGRES_COPY_OUT:
    case PGRES_COPY_BOTH:
      has_failed_ = true;
      error_ = Error{Errc::failed, "COPY cannot be queued; run it on the connection itself"};
      return false;
    default:
      break;
  }
  if (!has_failed_) {
    const char* state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    sqlstate_ = state == nullptr ? "" : state;
    error_ = server_error(raw(), result);
    has_failed_ = true;
  }
  return PQstatus(raw()) == CONNECTION_OK;
}

Status Pipeline::finish(bool during_commit) {
  const Errc code = during_commit ? Errc::in_doubt : Errc::unavailable;
  if (!connection_ && has_failed_) return fail(error_);
  if (!connection_) return fail(code, "the connection is lost; open it again");
  DOVETAIL_CHECK(!is_lent_);
  if (!has_failed_) sqlstate_.clear();
  if (PQpipelineSync(raw()) == 1) expected_.push_back(Expected::sync);
  unsent_bytes_ = 0;
  const auto end = std::chrono::steady_clock::now() + timeout_;
  const char* lost = nullptr;
  while (!expected_.empty() && lost == nullptr) {
    const int unsent = PQflush(raw());
    if (unsent == 0 && PQisBusy(raw()) == 0) {
      if (!take_result()) lost = "the connection is lost; check that the server runs";
    } else if (unsent >= 0 && !wait_for_socket(raw(), unsent == 1, end)) {
      lost = "no answer from the server in time; check its load and the network";
    } else if (unsent < 0 || PQconsumeInput(raw()) == 0) {
      lost = "the connection is lost; check that the server runs";
    }
  }
  if (lost != nullptr) note_loss();
  const bool failed = std::exchange(has_failed_, false);
  if (lost != nullptr) close();
  // After a failure it is unknown what was parsed; and a pooler may give the next transaction a
  // session with someone else's unnamed statement.
  if (failed || !in_transaction()) parsed_.clear();
  if (failed) {
    Error error = std::move(error_);
    if (!sqlstate_.empty()) error.code = errc_of(sqlstate_, during_commit);
    return fail(std::move(error));
  }
  if (lost != nullptr) return fail(code, lost);
  return {};
}

bool Pipeline::in_transaction() const {
  return connection_ && PQtransactionStatus(raw()) == PQTRANS_INTRANS;
}

Result<pg_conn*> Pipeline::lend() {
  if (is_lent_) return raw();
  DOVETAIL_CHECK(expected_.empty());
  if (!connection_) return fail(Errc::unavailable, "the connection is lost; open it again");
  if (PQexitPipelineMode(raw()) != 1)
    return fail(lose("the connection cannot leave pipeline mode; check the server").error());
  parsed_.clear();  // the borrower may use the unnamed statement
  is_lent_ = true;
  return raw();
}

Status Pipeline::take_back() {
  if (!is_lent_) return {};
  if (!connection_) return fail(Errc::unavailable, "the connection is lost; open it again");
  if (PQstatus(raw()) != CONNECTION_OK)
    return lose("the connection is lost; check that the server runs");
  (void)PQsetnonblocking(raw(), 1);
  const bool idle = PQpipelineStatus(raw()) == PQ_PIPELINE_OFF &&
                    PQtransactionStatus(raw()) != PQTRANS_ACTIVE && PQenterPipelineMode(raw()) == 1;
  if (!idle) {
    close();
    return fail(
        Errc::failed,
        "the handler left an unfinished statement on the connection; check that it reads all "
        "results and leaves pipeline mode");
  }
  is_lent_ = false;
  return {};
}

Connection Pipeline::release() {
  (void)lend();
  is_lent_ = false;
  return std::move(connection_);
}

Result<std::vector<Rows>> Connection::query_each(std::string_view sql,
                                                 std::span<const Params> each) {
  DOVETAIL_TRY(settle_ahead());
  const Duration timeout = timeout_;
  Pipeline pipeline(std::move(*this));
  pipeline.set_timeout(timeout);
  for (const Params& params : each)
    if (!pipeline.send(sql, params, Pipeline::Answer::kept)) break;
  const Status done = pipeline.finish();
  std::vector<Rows> answers = pipeline.take_rows();
  *this = pipeline.release();
  sqlstate_ = pipeline.sqlstate();
  if (!done) return fail(done.error());
  return answers;
}

}  // namespace dovetail::postgres
