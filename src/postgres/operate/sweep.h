// Deletes rows that nobody needs any more, a little at a time.
#pragma once

#include <cstdint>
#include <string_view>

#include "postgres/connection/connection.h"
#include "postgres/operate/maintenance.h"

namespace dovetail::postgres {

// Runs a statement that deletes at most options.batch_max rows, and returns how many as an int8,
// until it finds nothing more or options.rows_max is reached. Each is a transaction of its own, so
// that whoever waits for a row waits for one step only.
inline Status sweep(Connection& connection, const MaintenanceOptions& options, std::string_view sql,
                    const Params& params, MaintenanceReport& report, std::uint64_t& count) {
  std::uint64_t deleted = 0;
  while (true) {
    if (deleted >= options.rows_max) {
      report.finished = false;
      return {};
    }
    const Result<Rows> gone = connection.query(sql, params);
    if (!gone) return fail(gone.error());
    const auto rows = static_cast<std::uint64_t>(gone->int8(0, 0));
    count += rows;
    deleted += rows;
    if (rows < options.batch_max) return {};
  }
}

}  // namespace dovetail::postgres
