#include "postgres/inbox/invocation.h"

#include <libpq-fe.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <limits>

#include "postgres/outbox/publish.h"

namespace dovetail::postgres {

namespace {

constexpr std::string_view kArm = "INSERT INTO dovetail.commit_guard DEFAULT VALUES";
// The server reports its changes, so a rollback of this setting shows the end of the transaction.
constexpr const char* kMark = "application_name";
constexpr std::string_view kMarked = "dovetail handler";
constexpr std::string_view kSetMark = "SELECT set_config('application_name', $1, true)";
constexpr std::string_view kDisarm =
    "DELETE FROM dovetail.commit_guard WHERE transaction = pg_current_xact_id_if_assigned()";
// Constraints that would fail at COMMIT fail here, where the handlers are still responsible.
constexpr std::string_view kCheckConstraints = "SET CONSTRAINTS ALL IMMEDIATE";

// SQLSTATEs for functions that handle events: RAISE EXCEPTION ... USING ERRCODE = 'DTREJ'.
constexpr std::string_view kReject = "DTREJ";    // never: park the event
constexpr std::string_view kNotNow = "DTNOW";    // later: costs no attempt
constexpr std::string_view kCanceled = "57014";  // statement_timeout, or a cancel request
constexpr std::string_view kEnded = "2D000";     // COMMIT where it is not allowed

Error ended_by_handler() {
  return Error{Errc::rejected,
               "the handler ended the transaction, which it must not do; nothing was committed; "
               "check the handler for COMMIT and ROLLBACK"};
}

// Without leading spaces and comments, and without ";".
std::string_view without_lead(std::string_view sql) {
  while (!sql.empty()) {
    if (std::isspace(static_cast<unsigned char>(sql[0])) != 0 || sql[0] == ';') {
      sql.remove_prefix(1);
    } else if (sql.starts_with("--")) {
      sql.remove_prefix(std::min(sql.find('\n'), sql.size()));
    } else if (sql.starts_with("/*")) {
      std::size_t depth = 1;  // comments nest in PostgreSQL
      sql.remove_prefix(2);
      while (!sql.empty() && depth > 0) {
        const bool opens = sql.starts_with("/*");
        const bool closes = sql.starts_with("*/");
        depth += opens ? 1 : 0;
        depth -= closes ? 1 : 0;
        sql.remove_prefix(opens || closes ? 2 : 1);
      }
    } else {
      break;
    }
  }
  return sql;
}

// Takes the first word, in lower case, from the front of `sql`.
std::string next_word(std::string_view& sql) {
  sql = without_lead(sql);
  std::string word;
  while (!sql.empty() && std::isalpha(static_cast<unsigned char>(sql[0])) != 0) {
    word += static_cast<char>(std::tolower(static_cast<unsigned char>(sql[0])));
    sql.remove_prefix(1);
  }
  return word;
}

}  // namespace

bool ends_transaction(std::string_view sql) {
  const std::string first = next_word(sql);
  if (first == "commit" || first == "end" || first == "abort") return true;
  if (first != "rollback" && first != "prepare") return false;
  std::string second = next_word(sql);
  if (first == "prepare") return second == "transaction";
  // ROLLBACK [WORK | TRANSACTION] TO a savepoint does not end the transaction.
  if (second == "work" || second == "transaction") second = next_word(sql);
  return second != "to";
}

Errc handler_errc(std::string_view sqlstate, Errc code) {
  if (sqlstate == kReject || sqlstate == kEnded) return Errc::rejected;
  if (sqlstate == kNotNow) return Errc::unavailable;
  if (sqlstate == kCanceled) return Errc::failed;
  // Most errors depend on other data, so a later attempt may succeed.
  return code == Errc::unavailable ? Errc::unavailable : Errc::failed;
}

// The first failure counts, even if the handler ignores it.
Status OpenTransaction::remember(Error error) {
  if (!error_) error_ = std::move(error);
  return fail(*error_);
}

// The handler ended the transaction and will do so again, whatever else went wrong.
Status OpenTransaction::remember_end() {
  is_ended_ = true;
  error_ = ended_by_handler();
  return fail(*error_);
}

// Waits for queued statements.
Status OpenTransaction::settle() {
  if (error_) return fail(*error_);
  Status done = pipeline_.finish();
  if (done) return done;
  if (!pipeline_.sqlstate().empty())
    done.error().code = handler_errc(pipeline_.sqlstate(), done.error().code);
  return remember(std::move(done.error()));
}

Status OpenTransaction::queue(std::string_view sql, std::initializer_list<Param> params) {
  Params typed;
  for (const Param& param : params) {
    if (param.is_null) {
      typed.null();
    } else if (param.is_bytes) {
      typed.bytea(param.value);
    } else {
      typed.unknown(param.value);
    }
  }
  return queue(sql, typed);
}

Status OpenTransaction::queue(std::string_view sql, const Params& params) {
  if (ends_transaction(sql)) return remember_end();
  if (without_lead(sql).empty())
    return remember({Errc::failed, "the handler queued an empty statement; check the handler"});
  DOVETAIL_TRY(take_back());
  // The server skips statements after a failure, so they need not be sent.
  if (error_ || pipeline_.has_failed()) return settle();
  return pipeline_.send(sql, params);
}

Result<EventId> OpenTransaction::publish(const NewEvent& event) {
  // The database sets and checks the largest payload.
  EventLimits limits;
  limits.payload_bytes_max = std::numeric_limits<std::size_t>::max();
  return send_publish(event, limits, [this](std::string_view sql, const Params& params) {
    return queue(sql, params);
  });
}

Result<pg_conn*> OpenTransaction::connection() {
  if (error_) return fail(*error_);
  if (pipeline_.is_lent()) {
    // A rollback to a savepoint may undo a failed statement.
    DOVETAIL_TRY(check_ours(/*may_have_failed=*/true));
    return pipeline_.lend();
  }
  if (!is_guarded_) {
    DOVETAIL_TRY(pipeline_.send(kArm));
    DOVETAIL_TRY(pipeline_.send(kSetMark, Params().text(kMarked)));
    is_guarded_ = true;
  }
  DOVETAIL_TRY(settle());
  return pipeline_.lend();
}

// Whether the transaction is open and still the same. Does not ask the server.
Status OpenTransaction::check_ours(bool may_have_failed) {
  pg_conn* const raw = pipeline_.lend().value_or(nullptr);
  const auto state = raw == nullptr ? PQTRANS_UNKNOWN : PQtransactionStatus(raw);
  if (state == PQTRANS_INERROR && !may_have_failed)
    return remember(
        {Errc::failed,
         "a statement of the handler failed, but the handler returned success; check that it "
         "checks every result"});
  const char* const mark = raw == nullptr ? nullptr : PQparameterStatus(raw, kMark);
  const bool is_marked = mark != nullptr && mark == kMarked;
  // The next user of a lost or busy connection notices that.
  const bool is_ended = state == PQTRANS_IDLE ||
                        ((state == PQTRANS_INTRANS || state == PQTRANS_INERROR) && !is_marked);
  return is_ended ? remember_end() : Status{};
}

Status OpenTransaction::take_back() {
  if (!pipeline_.is_lent()) return {};
  const Status ours = check_ours(/*may_have_failed=*/false);
  const Status taken = pipeline_.take_back();
  if (!taken) return remember(taken.error());
  return ours;
}

Status OpenTransaction::judge(const Status& handled) {
  if (handled) return take_back();
  if (pipeline_.is_lent()) (void)check_ours(/*may_have_failed=*/true);
  return is_ended_ ? fail(ended_by_handler()) : handled;
}

Status OpenTransaction::finish() {
  DOVETAIL_TRY(take_back());
  if (error_) return fail(*error_);
  if (is_guarded_) DOVETAIL_TRY(pipeline_.send(kDisarm, {}, Pipeline::Answer::kept));
  DOVETAIL_TRY(pipeline_.send(kCheckConstraints));
  DOVETAIL_TRY(settle());
  const std::vector<Rows> rows = pipeline_.take_rows();
  const bool was_guarded = std::exchange(is_guarded_, false);
  if (!pipeline_.in_transaction() || (was_guarded && rows.at(0).affected() != 1))
    return remember_end();
  return {};
}

}  // namespace dovetail::postgres
