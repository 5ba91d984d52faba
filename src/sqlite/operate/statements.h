// The statements about operators' actions, for the shared rules of src/sql.
#pragma once

#include "sql/inbox_actions.h"
#include "sql/parked_actions.h"
#include "sql/retarget.h"

namespace dovetail::sqlite {

const AuditStatements& audit_statements();
const ParkedActionStatements& parked_action_statements();
const RetargetStatements& retarget_statements();
const InboxActionStatements& inbox_action_statements();

}  // namespace dovetail::sqlite
