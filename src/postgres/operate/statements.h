// The statements about operators' actions, for the shared rules of src/sql.
#pragma once

#include "sql/operate/parked_actions.h"

namespace dovetail::postgres {

const AuditStatements& audit_statements();
// Of relays, and of queues, whose reader is the consumer. Functions of the schema decide, so that
// an operator has no right to change rows, and every decision is in the audit in the name of the
// login.
const ParkedActionStatements& parked_action_statements();

}  // namespace dovetail::postgres
