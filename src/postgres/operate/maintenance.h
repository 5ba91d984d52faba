// Keeps the tables small. Of outbox and inbox, makes partitions ahead of time and drops those that
// are old enough (and that every relay has passed); what is not partitioned by time is cleaned in
// small steps.
#pragma once

#include <string>
#include <vector>

#include "core/clock.h"
#include "core/operations.h"
#include "dovetail/result.h"
#include "sql/retention.h"

namespace dovetail::postgres {

struct MaintenanceOptions : RetentionOptions {
  Duration partition_span = std::chrono::hours(24);  // whole hours; of partitions not yet made
  Duration ahead = std::chrono::hours(24 * 3);       // partitions exist for so long ahead
  // Nobody waits for maintenance longer than this: a lock that it does not get in so short a time
  // is left for the next call, and noted.
  Duration lock_timeout = std::chrono::milliseconds(100);
};

// Of outbox and inbox, counts rows deleted from the default partition.
struct MaintenanceReport : PruneReport {
  std::vector<std::string> created;  // names of partitions
  std::vector<std::string> dropped;
};

// An event in a partition is as old as its id says. Needs the owner of the schema dovetail.
// Any number of processes may call it at any time, also while relays run and events are published.
// unavailable: the clock of the database was set not long ago, or that of this machine says another
// time, so that nobody knows what is old; nothing was done.
Result<MaintenanceReport> maintain(const std::string& url, const MaintenanceOptions& options);
Result<MaintenanceReport> maintain(const std::string& url, const MaintenanceOptions& options,
                                   Clock& clock);

}  // namespace dovetail::postgres
