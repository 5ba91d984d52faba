#include "sql/operate/inbox_actions.h"

namespace dovetail {

namespace {

constexpr std::string_view kInboxNeedsReason =
    "this needs a reason, which is recorded; say what you have checked";

std::string microseconds(WallTime time) { return std::to_string(time.time_since_epoch().count()); }

}  // namespace

Result<std::uint64_t> apply_event(SqlSession& session, const InboxActionStatements& sql,
                                  std::string_view consumer, const EventId& id,
                                  std::string_view reason) {
  DOVETAIL_TRY(check_reason(reason, kInboxNeedsReason));
  Result<SqlTransaction> transaction = SqlTransaction::begin(session, "deciding about an event");
  if (!transaction) return fail(transaction.error());
  const Result<SqlRows> known = session.run(sql.known, SqlParams().text(consumer));
  if (!known) return fail(known.error());
  if (known->empty())
    return fail(Errc::rejected, "there is no consumer \"" + std::string(consumer) +
                                    "\"; check the name with `dovetail status`");
  const Result<SqlRows> allowed = session.run(sql.allow, SqlParams().text(consumer).id(id));
  if (!allowed) return fail(allowed.error());
  if (allowed->affected() > 0)
    DOVETAIL_TRY(add_audit(session, sql.audit,
                           {.what = "apply",
                            .subject = std::string(consumer) + " " + id.to_string(),
                            .reason = std::string(reason)}));
  DOVETAIL_TRY(transaction->commit());
  return static_cast<std::uint64_t>(allowed->affected());
}

Result<WallTime> remember_since(SqlSession& session, const InboxActionStatements& sql,
                                WallTime since, std::string_view reason) {
  DOVETAIL_TRY(check_reason(reason, kInboxNeedsReason));
  Result<SqlTransaction> transaction = SqlTransaction::begin(session, "repairing the inbox");
  if (!transaction) return fail(transaction.error());
  const Result<SqlRows> until = session.run(sql.forgotten_until);
  if (!until) return fail(until.error());
  const WallTime before = until->time(0, 0);
  if (since >= before)
    return fail(Errc::rejected,
                "the inbox has forgotten nothing since that time, so nothing changes; give an "
                "earlier time");
  const Result<SqlRows> lowered = session.run(sql.remember, SqlParams().time(since));
  if (!lowered) return fail(lowered.error());
  DOVETAIL_TRY(
      add_audit(session, sql.audit,
                {.what = "remember",
                 .subject = "since " + microseconds(since) + " instead of " + microseconds(before),
                 .reason = std::string(reason)}));
  DOVETAIL_TRY(transaction->commit());
  return before;
}

}  // namespace dovetail
