// Keeps the tables small. Of outbox and inbox, makes partitions ahead of time and drops those that
// are old enough (and that every relay has passed); what is not partitioned by time is cleaned in
// small steps.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/clock.h"
#include "dovetail/result.h"

namespace dovetail::postgres {

struct MaintenanceOptions {
  // Behaviour
  Duration partition_span = std::chrono::hours(24);  // whole hours; of partitions not yet made
  Duration ahead = std::chrono::hours(24 * 3);       // partitions exist for so long ahead
  Duration events_older_than = std::chrono::hours(24 * 7);   // once every relay has passed them
  Duration parked_older_than = std::chrono::hours(24 * 90);  // delivered and discarded ones
  Duration audit_older_than = std::chrono::hours(24 * 365);
  // Must exceed the time in which anything can come again: what is older and has no row is refused.
  Duration inbox_older_than = std::chrono::hours(24 * 30);
  // Nobody waits for maintenance longer than this: a lock that it does not get in so short a time
  // is left for the next call, and noted.
  Duration lock_timeout = std::chrono::milliseconds(100);
  // Performance
  std::size_t batch_max = 1000;      // rows deleted in one transaction
  std::size_t rows_max = 1'000'000;  // of each table, in one call
};

struct MaintenanceReport {
  std::vector<std::string> created;  // names of partitions
  std::vector<std::string> dropped;
  std::uint64_t outbox = 0;  // rows deleted from the default partition
  std::uint64_t parked = 0;
  std::uint64_t audit = 0;
  std::uint64_t inbox = 0;  // rows deleted from the default partition
  std::uint64_t attempts = 0;
  std::uint64_t claims = 0;
  std::uint64_t requests = 0;
  bool finished = true;            // false: rows_max was reached, call again
  std::vector<std::string> notes;  // why something was left alone
};

// An event in a partition is as old as its id says. Needs the owner of the schema dovetail.
// Any number of processes may call it at any time, also while relays run and events are published.
// unavailable: the clock of the database was set not long ago, or that of this machine says another
// time, so that nobody knows what is old; nothing was done.
Result<MaintenanceReport> maintain(const std::string& url, const MaintenanceOptions& options);
Result<MaintenanceReport> maintain(const std::string& url, const MaintenanceOptions& options,
                                   Clock& clock);

}  // namespace dovetail::postgres
