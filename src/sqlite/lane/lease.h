// The lease of a reader, kept in its row.
#pragma once

#include <string>

#include "sql/lease.h"
#include "sqlite/lane/reader.h"

namespace dovetail::sqlite {

// Expiry is counted in boot time beside the boot's id: a step of the wall clock changes nothing,
// and a lease of an earlier boot is dead. All relays of a file run on one machine, as SQLite asks.
class SqliteLease final : public SqlLease {
 public:
  // `label` names the owner to people, such as "host:pid".
  SqliteLease(Reader& reader, Clock& clock, const std::string& label, std::string boot,
              Duration term = std::chrono::seconds(10));

  // Opens the file anew: it may be another one by now.
  Status acquire() override;
};

}  // namespace dovetail::sqlite
