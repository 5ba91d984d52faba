// What operators did to a database, and why.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/operations.h"
#include "sql/session.h"

namespace dovetail {

struct AuditStatements {
  // $1 what, $2 relay, $3 subject, $4 events, $5 reason. Adds time and user. Empty: the database's
  // own functions write the audit.
  std::string add;
  // $1 limit, $2 number that comes after (0: from the newest on), $3 what (empty: all), $4 who
  // (empty: all), or $5 what the reason begins with. Returns the columns of AuditRow in their
  // order, the newest first. The second also takes $6 subject, which has an index.
  std::string list;
  std::string list_of_subject;
};

// Call it in the transaction of the action. It leaves out number, time and user.
Status add_audit(SqlSession& session, const AuditStatements& sql, const AuditRow& row);
Result<std::vector<AuditRow>> read_audit(SqlSession& session, const AuditStatements& sql,
                                         const AuditFilter& filter);

// rejected: the reason is longer than kReasonBytesMax.
Status check_length(std::string_view reason);
// rejected: the reason is missing, and the text is `question`; or it is too long.
Status check_reason(std::string_view reason, std::string_view question);
inline constexpr std::size_t kReasonBytesMax = 2000;

// What a line says that tells whom the console refused a request. Who may not write must not fill a
// database by asking, so only the last ones are kept.
inline constexpr std::string_view kRefused = "refused";
inline constexpr std::int64_t kRefusalsKept = 1000;

}  // namespace dovetail
