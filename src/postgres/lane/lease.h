// The right to run one lane, as a row in the database.
#pragma once

#include <string>
#include <string_view>

#include "postgres/lane/reader.h"
#include "sql/lease.h"

namespace dovetail::postgres {

// Whether the row `r` of dovetail.relay_lane is held, for people: by the database's clock, and not
// when it ends later than its term allows. Then that clock was set back, and a living holder renews
// soon.
inline constexpr std::string_view kIsHeld =
    "(r.owner <> '' AND r.expires > pg_catalog.clock_timestamp() AND (r.lease_term = 0 OR "
    "r.expires <= pg_catalog.clock_timestamp() + (r.lease_term + r.lease_term / 10) * interval "
    "'1 microsecond'))";

// Others take it when it was not renewed for a term, see LeaseWatch.
class PostgresLease final : public SqlLease {
 public:
  PostgresLease(Reader& reader, Clock& clock, const std::string& owner, Duration term,
                LeaseWatch watch = {});
};

}  // namespace dovetail::postgres
