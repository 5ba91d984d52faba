// Writes what an operator ordered for a relay. The functions of the schema check the rights and
// write the audit; the other rules are in src/sql.
#pragma once

#include <string>

#include "core/relay/hold.h"
#include "core/steering.h"
#include "dovetail/result.h"

namespace dovetail::postgres {

// rejected: no such relay has run here, the reason is empty, or the right is missing.
Status write_hold(const std::string& url, const std::string& relay, Hold hold,
                  const std::string& reason);

}  // namespace dovetail::postgres
