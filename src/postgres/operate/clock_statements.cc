#include "postgres/operate/clock_statements.h"

namespace dovetail::postgres {

const ClockStatements& clock_statements() {
  static const ClockStatements statements = {
      .now = "SELECT pg_catalog.clock_timestamp()",
      .marks =
          "SELECT m.wall, m.boot_time, m.doubted_wall, m.doubted_boot_time, (SELECT max(wall) FROM "
          "dovetail.clock_mark WHERE boot <> $1), (SELECT max(doubted_wall) FROM "
          "dovetail.clock_mark WHERE boot <> $1) FROM (SELECT 1) AS one LEFT JOIN "
          "dovetail.clock_mark AS m ON m.boot = $1",
      // Those of machines that are long gone, and doubts of others that are settled by now.
      .forget_marks =
          "DELETE FROM dovetail.clock_mark WHERE boot <> $1 AND (wall < $2 - interval '90 days' OR "
          "doubted_wall <= $2 - interval '1 hour')",
      .mark =
          "INSERT INTO dovetail.clock_mark VALUES ($1, $2, $3, $4, $5) ON CONFLICT (boot) DO "
          "UPDATE SET wall = excluded.wall, boot_time = excluded.boot_time, doubted_wall = "
          "excluded.doubted_wall, doubted_boot_time = excluded.doubted_boot_time"};
  return statements;
}

}  // namespace dovetail::postgres
