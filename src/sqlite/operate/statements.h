// The statements about operators' actions, for the shared rules of src/sql.
#pragma once

#include "sql/operate/inbox_actions.h"
#include "sql/operate/parked_actions.h"
#include "sql/operate/relay_control.h"
#include "sql/operate/retarget.h"

namespace dovetail::sqlite {

const AuditStatements& audit_statements();
const ParkedActionStatements& parked_action_statements();
const RelayControlStatements& relay_control_statements();
const RetargetStatements& retarget_statements();
const InboxActionStatements& inbox_action_statements();

}  // namespace dovetail::sqlite
