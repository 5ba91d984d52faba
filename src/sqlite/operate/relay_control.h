// Writes what an operator ordered for a relay of a file. The rules are in src/sql.
#pragma once

#include <string>

#include "core/relay/hold.h"
#include "core/steering.h"
#include "dovetail/result.h"

namespace dovetail::sqlite {

// rejected: the file has no such relay, or the reason is empty.
Status write_hold(const std::string& path, const std::string& relay, Hold hold,
                  const std::string& reason, Clock& clock);

}  // namespace dovetail::sqlite
