// As if the server's clock were set while it runs.
#pragma once

#include <chrono>
#include <string>

#include "postgres/testing/test_database.h"

namespace dovetail::postgres {

// A clock that is set back leaves the times of this column in the future. Triggers do not fire,
// because nothing is written when a clock is set.
inline void set_clock(Connection& owner, const std::string& table, const std::string& column,
                      std::chrono::hours step) {
  must(owner, "SET session_replication_role = replica");
  must(owner, "UPDATE " + table + " SET " + column + " = " + column + " - interval '" +
                  std::to_string(step.count()) + " h'");
  must(owner, "RESET session_replication_role");
}

}  // namespace dovetail::postgres
