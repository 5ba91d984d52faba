// Samples from which `status` computes the rate of a reader.
#pragma once

#include <string>

namespace dovetail::postgres {

// SET assignments for an update of dovetail.relay_lane that counts settled events: the time, and
// the samples.
inline const std::string kSampled =
    "updated_at = pg_catalog.clock_timestamp(), "
    "previous_at = CASE WHEN pg_catalog.statement_timestamp() - interval '5 s' >= sample_at "
    "THEN sample_at ELSE previous_at END, "
    "previous_total = CASE WHEN pg_catalog.statement_timestamp() - interval '5 s' >= sample_at "
    "THEN sample_total ELSE previous_total END, "
    "sample_total = CASE WHEN pg_catalog.statement_timestamp() - interval '5 s' >= sample_at "
    "THEN delivered_total + parked_total - replayed_total ELSE sample_total END, "
    "sample_at = CASE WHEN pg_catalog.statement_timestamp() - interval '5 s' >= sample_at "
    "THEN pg_catalog.statement_timestamp() ELSE sample_at END ";

}  // namespace dovetail::postgres
