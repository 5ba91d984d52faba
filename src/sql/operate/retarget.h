// Lets a relay continue with another target.
#pragma once

#include <string>

#include "sql/operate/audit.h"
#include "sql/session.h"

namespace dovetail {

struct RetargetStatements {
  // $1 relay. Returns its target, and whether a process runs it. The rows cannot change until the
  // transaction ends.
  std::string find;
  // $1 relay, $2 target.
  std::string write;
  AuditStatements audit;
};

// Returns the old target. rejected: there is no such relay, or it runs.
Result<std::string> retarget_relay(SqlSession& session, const RetargetStatements& sql,
                                   const std::string& relay, const std::string& target,
                                   const std::string& reason);

}  // namespace dovetail
