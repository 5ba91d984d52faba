#include "sqlite/lane/lease.h"

#include <utility>

#include "sqlite/lane/reader_session.h"
#include "sqlite/lane/statements.h"

namespace dovetail::sqlite {

SqliteLease::SqliteLease(Reader& reader, Clock& clock, const std::string& label, std::string boot,
                         Duration term)
    : SqlLease(std::make_unique<ReaderSession>(reader, Durability::ordered, clock, std::move(boot)),
               lane_statements(), lane_of(reader), LeaseClock::steady, clock, label, term) {}

Status SqliteLease::acquire() {
  disconnect();
  return SqlLease::acquire();
}

}  // namespace dovetail::sqlite
