// The claims of a consumer in its SQLite file.
#pragma once

#include <string>

#include "core/clock.h"
#include "sql/claims.h"

namespace dovetail::sqlite {

// Leases count in boot time: `clock` gives it, and `boot` names the boot. A lease of an earlier
// boot is over.
class SqliteClaimStore final : public SqlClaimStore {
 public:
  SqliteClaimStore(std::string path, std::string consumer, Clock& clock, std::string boot);
};

}  // namespace dovetail::sqlite
