// The lease of a reader, in its row.
#pragma once

#include <string>

#include "sql/lease.h"
#include "sqlite/lane/reader.h"

namespace dovetail::sqlite {

// The lease ends in boot time, stored with the boot's id: a step of the wall clock changes nothing;
// a lease of an earlier boot is over. All relays of a file run on one machine: SQLite requires it.
class SqliteLease final : public SqlLease {
 public:
  // `label` names the owner for people, such as "host:pid".
  SqliteLease(Reader& reader, Clock& clock, const std::string& label, std::string boot,
              Duration term = std::chrono::seconds(10));

  // Reopens the file: it may be another one by now.
  Status acquire() override;
};

}  // namespace dovetail::sqlite
