// The statements about operators' actions, for the shared rules of src/sql.
#pragma once

#include <string_view>

#include "sql/operate/inbox_actions.h"
#include "sql/operate/parked_actions.h"
#include "sql/operate/relay_control.h"
#include "sql/operate/retarget.h"

namespace dovetail::sqlite {

// A condition that holds for every row of dovetail_parked, and by which the index on (relay, id)
// finds an event. It walks over the relays alone.
inline constexpr std::string_view kOfAnyRelay =
    "relay IN (WITH RECURSIVE known(relay) AS (SELECT min(relay) FROM dovetail_parked UNION ALL "
    "SELECT (SELECT min(relay) FROM dovetail_parked WHERE relay > known.relay) FROM known WHERE "
    "relay IS NOT NULL) SELECT relay FROM known)";

const AuditStatements& audit_statements();
const ParkedActionStatements& parked_action_statements();
const RelayControlStatements& relay_control_statements();
const RetargetStatements& retarget_statements();
const InboxActionStatements& inbox_action_statements();

}  // namespace dovetail::sqlite
