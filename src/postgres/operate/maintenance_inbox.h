// The inbox's part of maintain(): what consumers need no more to recognise duplicates.
#pragma once

#include "postgres/connection/connection.h"
#include "postgres/operate/maintenance.h"

namespace dovetail::postgres {

// Makes the inbox's partitions ahead, drops those that are old and deletes old rows of the default
// one, old attempts, what claims have left behind, and expired HTTP requests. Whatever is forgotten
// of applied events is known as forgotten from the same transaction on, and what is parked and not
// applied is known as such, before.
// A consumer's own row stays for ever, with what was forgotten of it: made anew, it would be taken
// for one of which nothing is forgotten.
Status maintain_inbox(Connection& connection, const MaintenanceOptions& options, WallTime now,
                      MaintenanceReport& report);

}  // namespace dovetail::postgres
