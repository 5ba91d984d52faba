#include "sql/operate/audit.h"

#include "core/event/utf8.h"

namespace dovetail {

Status add_audit(SqlSession& session, const AuditStatements& sql, const AuditRow& row) {
  if (sql.add.empty()) return {};
  const std::string subject = stored_text(row.subject, kReasonBytesMax);
  const std::string reason = stored_text(row.reason, kReasonBytesMax);
  const Result<SqlRows> added =
      session.run(sql.add, SqlParams()
                               .text(row.what)
                               .text(row.relay)
                               .text(subject)
                               .integer(static_cast<std::int64_t>(row.events))
                               .text(reason));
  if (!added) return fail(added.error());
  return {};
}

Result<std::vector<AuditRow>> read_audit(SqlSession& session, const AuditStatements& sql,
                                         const AuditFilter& filter) {
  const std::string by_console = filter.who + std::string(kByConsole);
  SqlParams params;
  params.integer(static_cast<std::int64_t>(filter.limit))
      .integer(filter.before)
      .text(filter.what)
      .text(filter.who)
      .text(by_console);
  if (!filter.subject.empty()) params.text(filter.subject);
  const Result<SqlRows> rows =
      session.run(filter.subject.empty() ? sql.list : sql.list_of_subject, params);
  if (!rows) return fail(rows.error());
  std::vector<AuditRow> audit;
  for (std::size_t i = 0; i < rows->size(); ++i)
    audit.push_back(AuditRow{rows->integer(i, 0), rows->time(i, 1), rows->bytes(i, 2),
                             rows->bytes(i, 3), rows->bytes(i, 4), rows->bytes(i, 5),
                             static_cast<std::uint64_t>(rows->integer(i, 6)), rows->bytes(i, 7)});
  return audit;
}

Status check_length(std::string_view reason) {
  if (reason.size() <= kReasonBytesMax) return {};
  return fail(Errc::rejected, "the reason has more than 2000 bytes; shorten it");
}

Status check_reason(std::string_view reason, std::string_view question) {
  if (reason.find_first_not_of(" \t\r\n") == std::string_view::npos)
    return fail(Errc::rejected, std::string(question));
  return check_length(reason);
}

}  // namespace dovetail
