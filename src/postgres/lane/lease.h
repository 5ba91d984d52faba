// The right to run one lane, as a row in the database.
#pragma once

#include <string>
#include <string_view>

#include "postgres/lane/reader.h"
#include "sql/lease.h"

namespace dovetail::postgres {

// SQL, for people: whether the row `r` of dovetail.relay_lane is held, by the database's clock. If
// the lease ends later than its term allows, that clock was set back; it counts as not held, and a
// living owner renews soon.
inline constexpr std::string_view kIsHeld =
    "(r.owner <> '' AND r.expires > pg_catalog.clock_timestamp() AND (r.lease_term = 0 OR "
    "r.expires <= pg_catalog.clock_timestamp() + (r.lease_term + r.lease_term / 10) * interval "
    "'1 microsecond'))";

// Another owner takes it if it was not renewed for a term, see LeaseWatch.
class PostgresLease final : public SqlLease {
 public:
  PostgresLease(Reader& reader, Clock& clock, const std::string& owner, Duration term,
                LeaseWatch watch = {});
};

}  // namespace dovetail::postgres
