// The inbox's part of maintain().
#pragma once

#include "core/clock.h"
#include "postgres/connection/connection.h"
#include "postgres/operate/maintenance.h"
#include "postgres/operate/partitions.h"

namespace dovetail::postgres {

// $1 rows, $2 what is forgotten from now on, $3 applied before. Cleans the default partition.
extern const std::string kForgetInbox;

// Deletes the partitions that are over before `before`, and makes it known that their events are
// forgotten. What must stay for now is a note in the report.
Status drop_inbox(Connection& connection, PartitionedTable& inbox,
                  const MaintenanceOptions& options, WallTime before, MaintenanceReport& report);

}  // namespace dovetail::postgres
