// The statements about operators' actions, for the shared rules of src/sql.
#pragma once

#include <string_view>

#include "sql/operate/parked_actions.h"

namespace dovetail::postgres {

// A condition that holds for every row of dovetail.parked and dovetail.queue_parked, and by which
// the index on (relay, id) finds an event. It walks over the relays and consumers alone.
inline constexpr std::string_view kOfAnyRelay =
    "relay = ANY (ARRAY(WITH RECURSIVE known(relay) AS (SELECT min(relay) FROM dovetail.parked "
    "UNION ALL SELECT (SELECT min(p.relay) FROM dovetail.parked AS p WHERE p.relay > known.relay) "
    "FROM known WHERE relay IS NOT NULL) SELECT relay FROM known UNION ALL SELECT name FROM "
    "dovetail.consumer))";

const AuditStatements& audit_statements();
// Of relays, and of queues, whose reader is the consumer. Functions of the schema decide, so that
// an operator has no right to change rows, and every decision is in the audit in the name of the
// login.
const ParkedActionStatements& parked_action_statements();

}  // namespace dovetail::postgres
