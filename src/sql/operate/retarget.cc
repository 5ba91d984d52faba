#include "sql/operate/retarget.h"

namespace dovetail {

Result<std::string> retarget_relay(SqlSession& session, const RetargetStatements& sql,
                                   const std::string& relay, const std::string& target,
                                   const std::string& reason) {
  DOVETAIL_TRY(check_length(reason));
  Result<SqlTransaction> transaction = SqlTransaction::begin(session, "changing the target");
  if (!transaction) return fail(transaction.error());
  const Result<SqlRows> found = session.run(sql.find, SqlParams().text(relay));
  if (!found) return fail(found.error());
  if (found->empty())
    return fail(Errc::rejected,
                "there is no relay \"" + relay + "\"; check the name with `dovetail status`");
  if (found->boolean(0, 1))
    return fail(Errc::rejected,
                "the relay \"" + relay +
                    "\" is running with its old target; stop every process that runs it, then try "
                    "again");
  const std::string before = found->bytes(0, 0);
  const Result<SqlRows> written = session.run(sql.write, SqlParams().text(relay).text(target));
  if (!written) return fail(written.error());
  DOVETAIL_TRY(add_audit(
      session, sql.audit,
      {.what = "retarget", .relay = relay, .subject = before + " -> " + target, .reason = reason}));
  DOVETAIL_TRY(transaction->commit());
  return before;
}

}  // namespace dovetail
