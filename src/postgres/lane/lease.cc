#include "postgres/lane/lease.h"

#include <utility>

#include "postgres/lane/lane_session.h"
#include "postgres/lane/statements.h"

namespace dovetail::postgres {

PostgresLease::PostgresLease(Reader& reader, Clock& clock, const std::string& owner, Duration term,
                             LeaseWatch watch)
    : SqlLease(std::make_unique<LaneSession>(reader), lane_statements(), lane_of(reader),
               LeaseClock::set, clock, owner, term, std::move(watch)) {}

}  // namespace dovetail::postgres
